// SPDX-License-Identifier: Apache-2.0
// What a node would send of a file of zeros: few bytes that decompress to many.
#pragma once

#include <fcntl.h>

#include <fstream>
#include <string>

#include "base/handle.h"
#include "serve/http/compressed_file.h"
#include "store/testing/test_support.h"

namespace stalltrace::serve {

inline std::string compressed_zeros(const store::TemporaryFolder& folder, size_t bytes) {
  std::ofstream(folder / "many-zeros") << std::string(bytes, '\0');
  auto pieces = store::must(CompressedFile::open(UniqueFd(::open((folder / "many-zeros").c_str(), O_RDONLY))));
  std::string compressed;
  for (std::string piece = store::must(pieces->next()); !piece.empty(); piece = store::must(pieces->next())) {
    compressed += piece;
  }
  return compressed;
}

}  // namespace stalltrace::serve
