// SPDX-License-Identifier: Apache-2.0
// Files that fail: this test program's own read, write and sync calls, which SQLite's VFS and the code around it make.
// Only files below one folder are concerned, and only while one of these objects lives; one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stalltrace::store {

/// A change of size counts as a write.
enum class FileAction { kRead, kWrite, kSync };

/// The n-th action of one kind fails, counted from 1, or all from there on. The others do what they should, but wait
/// for no disk.
class FileFault {
 public:
  enum class Lasts { kOnce, kForEver };
  static constexpr int kShort = 0;  // instead of an error: a read finds nothing more, a write takes half

  FileFault(const std::string& folder, FileAction action, int64_t nth, int error, Lasts lasts = Lasts::kOnce);
  /// None fails.
  explicit FileFault(const std::string& folder);
  ~FileFault();
  FileFault(const FileFault&) = delete;
  FileFault& operator=(const FileFault&) = delete;

  [[nodiscard]] bool happened() const;
};

/// Notes what is written, in order, to find out what a power cut would leave of it.
class FileJournal {
 public:
  struct Entry {
    enum class Kind { kWrite, kSize, kSync, kRemoval };
    Kind kind = Kind::kWrite;
    std::string name;
    int64_t offset = 0;  // of a write; the new size
    std::string bytes;
  };

  explicit FileJournal(const std::string& folder);
  ~FileJournal();
  FileJournal(const FileJournal&) = delete;
  FileJournal& operator=(const FileJournal&) = delete;

  [[nodiscard]] std::vector<Entry> entries() const;
};

/// How much of what was not synced a power cut leaves.
enum class Unsynced {
  kAll,      // of all files
  kNothing,  // of any file
  kSome,     // of each file a random part from the beginning
};

/// Makes the files in `folder` as they are when the power fails after the first `count` entries. The last write that
/// was not synced may be torn at any sector. `random` is a seed.
void make_files_after_power_cut(const std::vector<FileJournal::Entry>& entries, size_t count, Unsynced unsynced,
                                uint64_t random, const std::string& folder);

}  // namespace stalltrace::store
