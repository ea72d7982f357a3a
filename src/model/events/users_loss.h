// SPDX-License-Identifier: Apache-2.0
// Losses that are one user's, in the table `loss`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stalltrace {

/// Of processes that were not looked at before they ended.
inline constexpr uint32_t kUnknownUser = 0xfffffffe;
/// As the kernel side's ST_OTHER_USERS: those that no table has room for.
inline constexpr uint32_t kOtherUsers = 0xffffffff;

/// "SOURCE:1000", "SOURCE:unknown", "SOURCE:other".
std::string users_loss(std::string_view source, uint32_t user);

}  // namespace stalltrace
