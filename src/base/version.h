// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace stalltrace {

/// "0.1.0": the project's version, as CMakeLists.txt has it.
std::string_view program_version();

}  // namespace stalltrace
