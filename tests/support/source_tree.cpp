// SPDX-License-Identifier: Apache-2.0
#include "tests/support/source_tree.h"

namespace stalltrace {

std::string source_path(std::string_view relative) {
  std::string path = STALLTRACE_SOURCE_DIR;
  if (!relative.empty()) {
    path += '/';
    path += relative;
  }
  return path;
}

}  // namespace stalltrace
