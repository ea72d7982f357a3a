// SPDX-License-Identifier: Apache-2.0
// Files of one format, read one after the other.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "import/evidence.h"

namespace stalltrace::import {

/// `import.read(path)` for each file; one that can't be read is left out with a note, and given to
/// `import.refuse(path)`. Errors: that of the last file, if none could be read. `nothing` is what is missing where
/// there are no paths.
template <typename Import>
Status read_files(Import& import, std::span<const std::string> paths, const Note& note, std::string_view nothing) {
  std::optional<Error> refused;
  for (const std::string& path : paths) {
    if (Status read = import.read(path); !read) {
      note(fmt::format("left out: {}", read.error().what));
      refused = std::move(read.error());
      import.refuse(path);
    }
  }
  if (import.summary().files == 0) {
    return std::unexpected(refused.value_or(Error{ErrorKind::kUsage, std::string(nothing), ""}));
  }
  return {};
}

}  // namespace stalltrace::import
