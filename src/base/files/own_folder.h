// SPDX-License-Identifier: Apache-2.0
// Folders of our own that no other user can write into or replace. They are made and used by descriptor; a path into
// one may be passed on, since each folder above it was checked.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace {

/// Who may read our files.
enum class Readers { kOwner, kGroup, kAllUsers };
constexpr mode_t file_mode(Readers readers) {
  return readers == Readers::kOwner ? 0600 : readers == Readers::kGroup ? 0640 : 0644;
}
constexpr mode_t folder_mode(Readers readers) {
  return readers == Readers::kOwner ? 0700 : readers == Readers::kGroup ? 0750 : 0755;
}

class OwnFolder {
 public:
  OwnFolder() = default;
  /// Makes `path` and the missing folders above it. An existing folder is accepted if it is ours and no other user can
  /// write into it. It is an error, with a remedy, if another user could replace a folder above it. A link above it is
  /// followed if its owner is trusted; a link as the last part of `path` never is.
  static Result<OwnFolder> claim(const std::string& path, Readers readers);
  /// Makes a new folder, `prefix` and random letters, in the folder for temporary files ($TMPDIR; else /tmp, /var/tmp,
  /// /dev/shm), or in `parent` if given. It stays locked while this object lives (for_each_left_behind).
  static Result<OwnFolder> make_temporary(const std::string& prefix, mode_t mode, const std::string& parent = {});

  [[nodiscard]] int descriptor() const { return fd_.get(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// We made it, so we may remove it.
  [[nodiscard]] bool created() const { return created_; }
  explicit operator bool() const { return static_cast<bool>(fd_); }

  /// Makes a folder inside. False if something with that name exists.
  [[nodiscard]] Result<bool> make_inside(const std::string& name, Readers readers) const;
  [[nodiscard]] bool has(const std::string& name) const;
  /// Removes a file or an empty folder.
  bool remove(const std::string& name) const;
  /// Removes the folder itself, if it is empty and still at its original path.
  void remove_itself() const;
  /// Gives it, and everything that we made in it, to the user who called us through sudo.
  void hand_over() const;

 private:
  friend void for_each_left_behind(const std::string& parent, std::string_view prefix,
                                   const std::function<void(OwnFolder)>& visit);
  static Result<OwnFolder> make_in(const std::string& parent_path, const std::string& name, mode_t mode);
  OwnFolder(UniqueFd parent, UniqueFd fd, std::string path, bool created)
      : parent_(std::move(parent)), fd_(std::move(fd)), path_(std::move(path)), created_(created) {}

  UniqueFd parent_;
  UniqueFd fd_;
  std::string path_;  // absolute
  bool created_ = false;
};

/// OwnFolder::hand_over of a folder that was claimed before; does nothing if it is no longer ours.
void hand_over_folder(const std::string& path);

/// Opens a folder (O_PATH) by a path that no other user can redirect. `make_missing`: with mode 0755 at most.
Result<UniqueFd> open_trusted(const std::string& path, bool make_missing = false);

/// The names in an open folder, without "." and "..".
void for_each_name(int folder, const std::function<void(const std::string&)>& visit);

/// Visits this user's temporary folders in `parent` whose names begin with `prefix` and whose maker, which held their
/// lock, has ended. Each is locked while the visitor keeps it.
void for_each_left_behind(const std::string& parent, std::string_view prefix,
                          const std::function<void(OwnFolder)>& visit);
/// Removes the folder with its content, by descriptor; links are not followed.
void remove_with_contents(const OwnFolder& folder);

/// `count` random letters and digits.
std::string random_letters(size_t count);

}  // namespace stalltrace
