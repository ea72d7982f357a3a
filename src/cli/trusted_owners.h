// SPDX-License-Identifier: Apache-2.0
// --trust-owner: additional users whose libraries are probed.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/untrusted/untrusted_file.h"
#include "cli/framework/flag.h"

namespace stalltrace::cli {

Flag trust_owner_flag(std::vector<std::string>* target);

/// Accepts user ids, or "any"; anything else is an error.
Result<TrustedOwners> parse_trusted_owners(const std::vector<std::string>& words);

}  // namespace stalltrace::cli
