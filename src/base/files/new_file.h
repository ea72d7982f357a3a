// SPDX-License-Identifier: Apache-2.0
// A file that gets its name once it is whole and stored. Until then it has none where the file system can do that, so
// that a killed process leaves nothing; elsewhere a random one, and what a killed process left is removed by the next.
#pragma once

#include <string>
#include <string_view>

#include "base/files/own_folder.h"
#include "base/handle.h"
#include "base/result.h"

namespace stalltrace {

/// What becomes of a file that has the name already.
enum class IfThere { kFail, kReplace };

class NewFile {
 public:
  /// `path` is the name that it will get. The folder is opened once, here.
  static Result<NewFile> create(const std::string& path, mode_t mode);
  NewFile(NewFile&& other) noexcept = default;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  [[nodiscard]] int descriptor() const { return file_.get(); }
  /// Adds to its end.
  Status append(std::string_view bytes);
  /// Stores it on the disk, gives it its name, and closes it; an error where any of that failed. With IfThere::kFail
  /// and a file of that name, ErrorKind::kFailed and `errno` text "File exists".
  Status publish(IfThere if_there);

 private:
  NewFile(UniqueFd folder, UniqueFd file, std::string temporary, std::string path)
      : folder_(std::move(folder)), file_(std::move(file)), temporary_(std::move(temporary)), path_(std::move(path)) {}
  Status link_to(const std::string& name);
  Status give_name(const std::string& name, IfThere if_there);

  UniqueFd folder_;
  UniqueFd file_;
  std::string temporary_;  // its name until then; empty: it has none
  std::string path_;
};

/// fsync and close, each with its error: only then a file is stored, on a file server too.
Status store_and_close(UniqueFd file, const std::string& path);

}  // namespace stalltrace
