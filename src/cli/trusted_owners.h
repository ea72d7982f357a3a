// SPDX-License-Identifier: Apache-2.0
// --trust-owner: users whose libraries are probed besides those that are probed anyway.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/untrusted/untrusted_file.h"
#include "cli/framework/flag.h"

namespace stalltrace::cli {

Flag trust_owner_flag(std::vector<std::string>* target);

/// Numbers of users, or "any". Errors: neither.
Result<TrustedOwners> parse_trusted_owners(const std::vector<std::string>& words);

}  // namespace stalltrace::cli
