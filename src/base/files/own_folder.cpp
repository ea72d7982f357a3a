// SPDX-License-Identifier: Apache-2.0
#include "base/files/own_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/files/caller.h"
#include "base/rights/secure_mode.h"
#include "base/text.h"

namespace stalltrace {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // the kernel's own limit
constexpr int kFolderNamesTried = 100;
constexpr int kDeepest = 32;
constexpr const char* kElsewhere = "choose a folder of your own with --out";

std::unexpected<Error> refuse(const std::string& path, const std::string& why, std::string remedy = kElsewhere) {
  return fail(fmt::format("{} is not used: {}", path, why), std::move(remedy), ErrorKind::kNoPrivilege);
}

/// Errors if another user can replace an entry of the folder `at` on the way to `path`.
Status check_way(const struct stat& info, const std::string& at, const std::string& path) {
  if (!is_trusted_owner(info.st_uid)) {
    return refuse(path, fmt::format("{} belongs to uid {}, who could put another in its place", at, info.st_uid));
  }
  if ((info.st_mode & S_IWOTH) != 0 && (info.st_mode & S_ISVTX) == 0) {
    return refuse(path, fmt::format("all users can write into {}, and put another in its place", at),
                  fmt::format("{}, or: chmod +t {}", kElsewhere, at));
  }
  return {};
}

void push_parts(std::deque<std::string>& parts, std::string_view path) {
  std::vector<std::string_view> words = split(path, '/');
  for (auto word = words.rbegin(); word != words.rend(); ++word) {
    if (!word->empty() && *word != ".") {
      parts.emplace_front(*word);
    }
  }
}

/// The folders from the root to the wanted one, each opened inside its parent.
class Way {
 public:
  Way(const std::string& path, bool make_missing) : path_(path), make_missing_(make_missing) {
    push_parts(parts_, path);
  }

  Result<UniqueFd> walk() {
    ST_TRY(to_root());
    while (!parts_.empty()) {
      const std::string part = std::move(parts_.front());
      parts_.pop_front();
      ST_TRY(step(part));
    }
    return std::move(here_);
  }

 private:
  Status to_root() {
    here_ = UniqueFd(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    at_ = "/";
    return enter();
  }

  Status enter() {
    struct stat info {};
    if (!here_ || ::fstat(here_.get(), &info) != 0) {
      return fail_errno("open " + at_, errno);
    }
    return check_way(info, at_, path_);
  }

  Status step(const std::string& part) {
    const std::string next_at = part == ".." ? fs::path(at_).parent_path().string() : (fs::path(at_) / part).string();
    UniqueFd next(::openat(here_.get(), part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!next && errno == ENOENT && make_missing_) {
      if (::mkdirat(here_.get(), part.c_str(), 0755) != 0 && errno != EEXIST) {
        return fail_errno("create " + next_at, errno);
      }
      next = UniqueFd(::openat(here_.get(), part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    }
    struct stat info {};
    if (!next || ::fstat(next.get(), &info) != 0) {
      return fail_errno("open " + next_at, errno);
    }
    if (S_ISLNK(info.st_mode)) {
      return follow(next.get(), info, next_at);
    }
    if (!S_ISDIR(info.st_mode)) {
      return fail_errno("open " + next_at, ENOTDIR);
    }
    here_ = std::move(next);
    at_ = next_at;
    return enter();
  }

  Status follow(int link, const struct stat& info, const std::string& at) {
    if (!is_trusted_owner(info.st_uid)) {
      return refuse(path_, fmt::format("{} is a link of uid {}, who could lead it elsewhere", at, info.st_uid));
    }
    char target[PATH_MAX];
    const ssize_t length = ::readlinkat(link, "", target, sizeof target);
    if (length <= 0 || ++links_ > kMostLinks) {
      return fail_errno("follow " + at, length <= 0 ? errno : ELOOP);
    }
    const std::string_view text(target, static_cast<size_t>(length));
    push_parts(parts_, text);
    return text.starts_with('/') ? to_root() : Status();
  }

  const std::string& path_;
  bool make_missing_;
  std::deque<std::string> parts_;
  UniqueFd here_;
  std::string at_;
  int links_ = 0;
};

UniqueFd open_folder(int parent, const std::string& name) {
  return UniqueFd(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

/// Checks a folder that existed before.
Status check_existing(const struct stat& info, const std::string& path) {
  if (!is_trusted_owner(info.st_uid)) {
    return refuse(path, fmt::format("it belongs to uid {}", info.st_uid),
                  "choose another folder with --out, or remove this one");
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return refuse(path, "others can write into it",
                  fmt::format("chmod go-w {}, or choose another folder with --out", path));
  }
  return {};
}

/// The descriptor and its copies hold the lock until all are closed. False if another process holds it.
bool lock(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB) == 0; }

void hand_over_contents(int folder, int depth) {
  for_each_name(folder, [&](const std::string& name) {
    const UniqueFd one(::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat info {};
    if (!one || ::fstat(one.get(), &info) != 0) {
      return;
    }
    if (S_ISDIR(info.st_mode) && depth < kDeepest) {
      hand_over_contents(one.get(), depth + 1);
    }
    (void)hand_to_caller(one.get());
  });
}

void remove_contents(int folder, int depth) {
  for_each_name(folder, [&](const std::string& name) {
    if (::unlinkat(folder, name.c_str(), 0) == 0 || depth >= kDeepest) {
      return;
    }
    if (const UniqueFd inner = open_folder(folder, name)) {
      remove_contents(inner.get(), depth + 1);
    }
    ::unlinkat(folder, name.c_str(), AT_REMOVEDIR);
  });
}

}  // namespace

Result<UniqueFd> open_trusted(const std::string& path, bool make_missing) {
  std::error_code error;
  const std::string whole = fs::absolute(path, error).string();
  return error ? Result<UniqueFd>(fail_errno("open " + path, error.value())) : Way(whole, make_missing).walk();
}

Result<OwnFolder> OwnFolder::claim(const std::string& wanted, Readers readers) {
  std::error_code error;
  std::string path = fs::absolute(wanted, error).lexically_normal().string();
  while (path.size() > 1 && path.ends_with('/')) {
    path.pop_back();
  }
  const std::string name = fs::path(path).filename().string();
  if (error || name.empty()) {
    return fail(wanted + ": no folder can be made there", kElsewhere);
  }
  ST_ASSIGN(UniqueFd parent, open_trusted(fs::path(path).parent_path().string(), true));
  const bool created = ::mkdirat(parent.get(), name.c_str(), 0700) == 0;
  if (!created && errno != EEXIST) {
    return fail_errno("create " + path, errno);
  }
  UniqueFd fd = open_folder(parent.get(), name);
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    return errno == ELOOP || errno == ENOTDIR
               ? Result<OwnFolder>(refuse(path, "it is a link or a file, not a folder",
                                          "choose another folder with --out, or remove this one"))
               : fail_errno("open " + path, errno);
  }
  OwnFolder folder(std::move(parent), std::move(fd), path, created);
  if (created && info.st_uid != ::geteuid()) {
    folder.remove_itself();
    return refuse(path, fmt::format("the file server made uid {} its owner", info.st_uid));
  }
  ST_TRY(check_existing(info, path));
  if (created && ::fchmod(folder.descriptor(), folder_mode(readers)) != 0) {
    return fail_errno("chmod " + path, errno);
  }
  return folder;
}

Result<OwnFolder> OwnFolder::make_temporary(const std::string& prefix, mode_t mode, const std::string& wanted) {
  const char* variable = trusted_variable("TMPDIR");
  std::vector<std::string> parents = {"/tmp", "/var/tmp", "/dev/shm"};
  if (!wanted.empty()) {
    parents = {wanted};
  } else if (variable != nullptr && *variable == '/') {
    parents = {variable};
  }
  Error reason;
  for (const std::string& parent_path : parents) {
    for (int attempt = 0; attempt < kFolderNamesTried; ++attempt) {
      auto made = make_in(parent_path, prefix + random_letters(6), mode);
      if (made) {
        return made;
      }
      reason = std::move(made.error());
      if (errno != EEXIST) {
        break;
      }
    }
  }
  return std::unexpected(std::move(reason));
}

/// Sets errno to the reason of a failure: EEXIST where another name may succeed.
Result<OwnFolder> OwnFolder::make_in(const std::string& parent_path, const std::string& name, mode_t mode) {
  const auto failed = [&](int error_number) {
    auto error = fail_errno("create a folder in " + parent_path, error_number);
    errno = error_number;
    return error;
  };
  auto parent = open_trusted(parent_path);
  if (!parent) {
    errno = EACCES;
    return std::unexpected(std::move(parent.error()));
  }
  if (::mkdirat(parent->get(), name.c_str(), 0700) != 0) {
    return failed(errno);
  }
  OwnFolder folder(std::move(*parent), UniqueFd(), parent_path + "/" + name, true);
  folder.fd_ = open_folder(folder.parent_.get(), name);
  struct stat info {};
  if (!folder || !lock(folder.descriptor()) || ::fstat(folder.descriptor(), &info) != 0 || info.st_nlink == 0) {
    return failed(EEXIST);  // another process removed it before we had the lock
  }
  if (info.st_uid != ::geteuid() || ::fchmod(folder.descriptor(), mode) != 0) {
    folder.remove_itself();
    return failed(EACCES);
  }
  return folder;
}

Result<bool> OwnFolder::make_inside(const std::string& name, Readers readers) const {
  if (::mkdirat(descriptor(), name.c_str(), folder_mode(readers)) == 0) {
    return true;
  }
  return errno == EEXIST ? Result<bool>(false) : fail_errno("create " + path_ + "/" + name, errno);
}

bool OwnFolder::has(const std::string& name) const {
  struct stat info {};
  return ::fstatat(descriptor(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
}

bool OwnFolder::remove(const std::string& name) const {
  return ::unlinkat(descriptor(), name.c_str(), 0) == 0 || ::unlinkat(descriptor(), name.c_str(), AT_REMOVEDIR) == 0;
}

void OwnFolder::remove_itself() const {
  const std::string name = fs::path(path_).filename().string();
  struct stat ours {};
  struct stat there {};
  if (::fstat(descriptor(), &ours) == 0 && ::fstatat(parent_.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
      ours.st_dev == there.st_dev && ours.st_ino == there.st_ino) {
    ::unlinkat(parent_.get(), name.c_str(), AT_REMOVEDIR);
  }
}

void OwnFolder::hand_over() const {
  if (sudo_caller()) {
    hand_over_contents(descriptor(), 0);
    (void)hand_to_caller(descriptor());  // last: from here on its new owner may change its content
  }
}

void hand_over_folder(const std::string& path) {
  if (sudo_caller()) {
    if (const auto folder = OwnFolder::claim(path, Readers::kOwner)) {
      folder->hand_over();
    }
  }
}

void for_each_name(int folder, const std::function<void(const std::string&)>& visit) {
  const int again = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, Free<closedir>> names(again < 0 ? nullptr : ::fdopendir(again));
  std::vector<std::string> all;  // complete before any is removed
  while (const dirent* entry = names ? ::readdir(names.get()) : nullptr) {
    if (const std::string_view name = entry->d_name; name != "." && name != "..") {
      all.emplace_back(name);
    }
  }
  for (const std::string& name : all) {
    visit(name);
  }
}

void for_each_left_behind(const std::string& parent_path, std::string_view prefix,
                          const std::function<void(OwnFolder)>& visit) {
  const auto parent = open_trusted(parent_path);
  if (!parent) {
    return;
  }
  for_each_name(parent->get(), [&](const std::string& name) {
    UniqueFd fd = name.starts_with(prefix) ? open_folder(parent->get(), name) : UniqueFd();
    struct stat info {};
    if (fd && ::fstat(fd.get(), &info) == 0 && info.st_uid == ::geteuid() && lock(fd.get())) {
      visit(OwnFolder(UniqueFd(::fcntl(parent->get(), F_DUPFD_CLOEXEC, 3)), std::move(fd), parent_path + "/" + name,
                      false));
    }
  });
}

void remove_with_contents(const OwnFolder& folder) {
  remove_contents(folder.descriptor(), 0);
  folder.remove_itself();
}

std::string random_letters(size_t count) {
  constexpr std::string_view kLetters = "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
  std::array<unsigned char, 64> bytes{};
  std::string text;
  while (text.size() < count) {
    const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
    for (ssize_t i = 0; i < got && text.size() < count; ++i) {
      text += kLetters[bytes[static_cast<size_t>(i)] % kLetters.size()];
    }
  }
  return text;
}

}  // namespace stalltrace
