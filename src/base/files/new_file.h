// SPDX-License-Identifier: Apache-2.0
// A file that gets its name once it is complete and stored. Until then it has no name where the file system supports
// that, so that a killed process leaves nothing; elsewhere it has a random name, and the next process removes the file
// of a killed one.
#pragma once

#include <string>
#include <string_view>

#include "base/files/own_folder.h"
#include "base/handle.h"
#include "base/result.h"

namespace stalltrace {

/// What to do if a file with that name exists.
enum class IfThere { kFail, kReplace };

/// What a file has until it is published: no name where that can be, or a random one, by which it can be opened.
enum class UntilPublished { kNoName, kRandomName };

class NewFile {
 public:
  /// `path` is its final name. The folder is opened once, here.
  static Result<NewFile> create(const std::string& path, mode_t mode,
                                UntilPublished until_published = UntilPublished::kNoName);
  NewFile(NewFile&& other) noexcept = default;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  [[nodiscard]] int descriptor() const { return file_.get(); }
  /// With UntilPublished::kRandomName, until it is published: a path that leads to it.
  [[nodiscard]] std::string temporary_path() const;
  /// Appends to the file.
  Status append(std::string_view bytes);
  /// Stores it on disk, gives it its name, and closes it; an error where any of that failed. With IfThere::kFail and an
  /// existing file of that name, ErrorKind::kFailed and `errno` text "File exists".
  Status publish(IfThere if_there);
  /// The same under another name in its folder. After an error because of that name it may be tried with a further one.
  Status publish_as(const std::string& name, IfThere if_there);

 private:
  NewFile(UniqueFd folder, UniqueFd file, std::string temporary, std::string path)
      : folder_(std::move(folder)), file_(std::move(file)), temporary_(std::move(temporary)), path_(std::move(path)) {}
  Status link_to(const std::string& name);
  Status give_name(const std::string& name, IfThere if_there);

  UniqueFd folder_;
  UniqueFd file_;
  std::string temporary_;  // its name until publish(); empty: it has none
  std::string path_;
};

/// fsync and close, each with its error: both must succeed, on a file server too.
Status store_and_close(UniqueFd file, const std::string& path);

}  // namespace stalltrace
