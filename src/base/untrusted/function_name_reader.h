// SPDX-License-Identifier: Apache-2.0
// Names of functions in files that untrusted users own: a child process without privileges reads them. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/elf/function_names.h"
#include "base/untrusted/helper_process.h"
#include "base/untrusted/untrusted_file.h"

namespace stalltrace {

class FunctionNameReader {
 public:
  FunctionNameReader();

  using Locations = std::vector<std::optional<CodeLocation>>;

  /// As stalltrace::functions_at(). Files that root alone may write are read here; a child reads all others, and is
  /// waited for so long. nullopt where that was not enough, or it ended.
  std::optional<Locations> functions_at(const UntrustedFile& file, std::span<const uint64_t> file_offsets,
                                        int64_t most_ns);

 private:
  HelperProcess child_;
  uid_t read_for_ = 0;  // a child that one user's file may have subverted reads no other's
};

/// Both ways through the child's socket. Names are cut and made printable: the file may have subverted the child.
/// nullopt if garbled, or not of so many offsets.
std::string locations_to_bytes(std::span<const std::optional<CodeLocation>> locations);
std::optional<FunctionNameReader::Locations> locations_from_bytes(std::string_view bytes, size_t offsets);

}  // namespace stalltrace
