// SPDX-License-Identifier: Apache-2.0
#include "base/version.h"

namespace stalltrace {

std::string_view program_version() { return STALLTRACE_VERSION; }

}  // namespace stalltrace
