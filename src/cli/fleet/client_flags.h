// SPDX-License-Identifier: Apache-2.0
// Whom a client of servers trusts, and how it shows that it may ask: flags of all subcommands that speak to servers.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/framework/flag.h"
#include "fleet/client.h"

namespace stalltrace::cli {

class ClientFlags {
 public:
  /// --token-file
  [[nodiscard]] Flag token_flag();
  /// --tls-fingerprint and --tls-ca
  [[nodiscard]] std::vector<Flag> certificate_flags();

  /// Reads the token and the certificates. `token_file`: of a subcommand that has such a flag of its own. To be called
  /// before rights are given up.
  [[nodiscard]] Result<fleet::ClientOptions> load() const { return load(token_file_); }
  [[nodiscard]] Result<fleet::ClientOptions> load(const std::string& token_file) const;

  [[nodiscard]] bool given() const {
    return !token_file_.empty() || !fingerprints_.empty() || !authorities_file_.empty();
  }

 private:
  std::string token_file_;
  std::vector<std::string> fingerprints_;
  std::string authorities_file_;
};

}  // namespace stalltrace::cli
