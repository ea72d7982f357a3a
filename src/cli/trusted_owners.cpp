// SPDX-License-Identifier: Apache-2.0
#include "cli/trusted_owners.h"

#include <cstdint>
#include <limits>

#include "base/text.h"

namespace stalltrace::cli {

Flag trust_owner_flag(std::vector<std::string>* target) {
  return privileged(texts_flag(
      "--trust-owner", "UID",
      "probe this user's libraries in every process, besides root's and its own user's; 'any': all users'", target));
}

Result<TrustedOwners> parse_trusted_owners(const std::vector<std::string>& words) {
  TrustedOwners trusted;
  for (const std::string& word : words) {
    const auto number = parse_integer(word);
    if (word == "any") {
      trusted.any_user = true;
    } else if (number && *number >= 0 && *number < std::numeric_limits<uid_t>::max()) {
      trusted.users.push_back(static_cast<uid_t>(*number));
    } else {
      return fail("--trust-owner " + word + ": not the number of a user", "give a number (id -u NAME), or any",
                  ErrorKind::kUsage);
    }
  }
  return trusted;
}

}  // namespace stalltrace::cli
