// SPDX-License-Identifier: Apache-2.0
// Names of functions in files that untrusted users own: a child process without privileges reads them. Of a stripped
// file, those in the file of symbols that the distribution installs for its build. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/elf/function_names.h"
#include "base/process/procfs.h"
#include "base/untrusted/helper_process.h"
#include "base/untrusted/mounts.h"
#include "base/untrusted/untrusted_file.h"

namespace stalltrace {

class FunctionNameReader {
 public:
  /// Who reads the files that others than root may write: a child, or, where this process has given up its rights
  /// itself (base/untrusted/sandbox), this one.
  enum class ReadBy { kChild, kThisProcess };

  /// Files of symbols are `symbols`/.build-id/7c/da71....debug, as gdb and Debian's -dbgsym packages have them.
  explicit FunctionNameReader(std::string symbols = "/usr/lib/debug", ReadBy read_by = ReadBy::kChild);

  using Locations = std::vector<std::optional<CodeLocation>>;

  /// As stalltrace::functions_at(). A child reads files that others than root may write, and is waited for `most_ns`;
  /// nullopt where that was not enough, or it ended. Files that root alone may write are read here, whatever that
  /// takes, and so are files of symbols: only if root or our own user alone may write them, on a file system of this
  /// host. With kThisProcess `most_ns` holds for all files, and what it was not enough for has no name.
  std::optional<Locations> functions_at(const UntrustedFile& file, std::span<const uint64_t> file_offsets,
                                        int64_t most_ns);

 private:
  struct Named {
    Locations locations;
    CodeAddresses code;  // addresses only where a function has no name
  };
  std::optional<Named> read(const UntrustedFile& file, std::span<const uint64_t> file_offsets, int64_t until_ns);
  void name_rest(Named& named, int64_t until_ns);
  /// For files that are read here.
  [[nodiscard]] int64_t limit_here(int64_t until_ns) const;

  std::string symbols_;
  ReadBy read_by_;
  Procfs procfs_;
  Mounts mounts_{procfs_};
  HelperProcess child_;
  uid_t read_for_ = 0;  // a child that one user's file may have subverted reads no other's
};

/// Both ways through the child's socket. Names are cut and made printable: the file may have subverted the child.
/// nullopt if garbled, or of another number of offsets.
std::string locations_to_bytes(std::span<const std::optional<CodeLocation>> locations);
std::optional<FunctionNameReader::Locations> locations_from_bytes(std::string_view bytes, size_t offsets);

/// The same for what precedes them in an answer; addresses_from_bytes() removes it. nullopt if garbled: an id that is
/// no hexadecimal number could name any path.
std::string addresses_to_bytes(const CodeAddresses& code);
std::optional<CodeAddresses> addresses_from_bytes(std::string_view& bytes, size_t offsets);

}  // namespace stalltrace
