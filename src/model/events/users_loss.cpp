// SPDX-License-Identifier: Apache-2.0
#include "model/events/users_loss.h"

namespace stalltrace {

std::string users_loss(std::string_view source, uint32_t user) {
  return std::string(source) + ":" +
         (user == kOtherUsers    ? "other"
          : user == kUnknownUser ? "unknown"
                                 : std::to_string(user));
}

}  // namespace stalltrace
