// SPDX-License-Identifier: Apache-2.0
// Folders of our own: nobody else can write into one, or put another in its place. They are made and used by
// descriptor; a path into one is safe to hand on, since each folder above it was checked.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace {

/// Who may read what we write.
enum class Readers { kOwner, kEverybody };
constexpr mode_t file_mode(Readers readers) { return readers == Readers::kOwner ? 0600 : 0644; }
constexpr mode_t folder_mode(Readers readers) { return readers == Readers::kOwner ? 0700 : 0755; }

class OwnFolder {
 public:
  OwnFolder() = default;
  /// Makes `path`, and the folders above it that are missing. One that is there is taken if it is ours and nobody else
  /// can write into it. An error, in each case with a remedy, where somebody else could exchange a folder above it; a
  /// link above it is followed if its owner is trusted, the last part of `path` never is.
  static Result<OwnFolder> claim(const std::string& path, Readers readers);
  /// A new one, `prefix` and random letters, where temporary files belong ($TMPDIR; else /tmp, /var/tmp, /dev/shm), or
  /// in `parent` alone if that is given. It is locked as long as this object lives (for_each_left_behind).
  static Result<OwnFolder> make_temporary(const std::string& prefix, mode_t mode, const std::string& parent = {});

  [[nodiscard]] int descriptor() const { return fd_.get(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// By us, now: so that we may remove it.
  [[nodiscard]] bool created() const { return created_; }
  explicit operator bool() const { return static_cast<bool>(fd_); }

  /// Makes a folder in it. False where there is something of that name.
  [[nodiscard]] Result<bool> make_inside(const std::string& name, Readers readers) const;
  [[nodiscard]] bool has(const std::string& name) const;
  /// Removes a file or an empty folder.
  bool remove(const std::string& name) const;
  /// Removes the folder itself, if it is empty and still where it was made.
  void remove_itself() const;
  /// Gives it and all that we made in it to who called us through sudo.
  void hand_over() const;

 private:
  friend void for_each_left_behind(const std::string& parent, std::string_view prefix,
                                   const std::function<void(OwnFolder)>& visit);
  static Result<OwnFolder> make_in(const std::string& place, const std::string& name, mode_t mode);
  OwnFolder(UniqueFd parent, UniqueFd fd, std::string path, bool created)
      : parent_(std::move(parent)), fd_(std::move(fd)), path_(std::move(path)), created_(created) {}

  UniqueFd parent_;
  UniqueFd fd_;
  std::string path_;  // absolute
  bool created_ = false;
};

/// OwnFolder::hand_over of a folder that was claimed before; nothing where it is not ours any more.
void hand_over_folder(const std::string& path);

/// Opens a folder by a path that nobody else can lead elsewhere (O_PATH). `make_missing`: with mode 0755 at most.
Result<UniqueFd> open_trusted(const std::string& path, bool make_missing = false);

/// The names in an open folder, without "." and "..".
void for_each_name(int folder, const std::function<void(const std::string&)>& visit);

/// Temporary folders of this user in `parent` whose names begin with `prefix` and whose maker is gone: it held their
/// lock. Each is locked now, for as long as the visitor keeps it.
void for_each_left_behind(const std::string& parent, std::string_view prefix,
                          const std::function<void(OwnFolder)>& visit);
/// Removes the folder with all that is in it, by descriptor; no link is followed.
void remove_with_contents(const OwnFolder& folder);

/// `count` random letters and digits.
std::string random_letters(size_t count);

}  // namespace stalltrace
