// SPDX-License-Identifier: Apache-2.0
#include "store/hand_over.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/files/caller.h"
#include "base/files/new_file.h"
#include "base/text.h"
#include "store/copy.h"
#include "store/schema/open_recording.h"

namespace stalltrace::store {
namespace {

constexpr size_t kMostNameBytes = 100;
constexpr int kMostOfOneName = 100;
constexpr size_t kPieceBytes = size_t{1} << 20;

/// Names of nodes come from the recording, which may have any origin.
std::string as_file_name(std::string_view name) {
  std::string safe;
  for (const char c : name.substr(0, kMostNameBytes)) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    safe += plain || (c == '.' && !safe.empty()) ? c : '_';
  }
  return safe.empty() ? "node" : safe;
}

/// Errors begin with `shown`; kCorrupt: its nodes can't be read, or not in the time that any recording's can.
Result<std::string> name_of(const std::string& path, const std::string& shown) {
  constexpr int64_t kLongestNs = 10 * kNsPerSecond;
  ST_ASSIGN(Database db, open_for_reading(path, shown, ReaderKind::kSubcommand, monotonic_now_ns() + kLongestNs));
  ST_ASSIGN(Statement node, db.prepare("SELECT name, started_ns FROM node ORDER BY started_ns, node_id LIMIT 1"));
  const int found = node.step();
  if (found == SQLITE_DONE) {
    return as_file_name(base_name(shown));
  }
  if (found != SQLITE_ROW) {
    return fail(shown + ": its table of nodes is damaged", "see what can be read of it: stalltrace explain",
                ErrorKind::kCorrupt);
  }
  return recording_name(node.text(0), node.integer(1));
}

/// Whether a name is taken, also by a link that leads nowhere.
bool is_there(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

/// The bytes at `offset`; fewer than asked for only at the end.
Result<size_t> read_piece(int fd, off_t offset, std::vector<char>& piece) {
  size_t got = 0;
  while (got < piece.size()) {
    const ssize_t more = ::pread(fd, piece.data() + got, piece.size() - got, offset + static_cast<off_t>(got));
    if (more < 0 && errno != EINTR) {
      return fail_errno("read the recording", errno);
    }
    if (more == 0) {
      break;
    }
    got += more > 0 ? static_cast<size_t>(more) : 0;
  }
  return got;
}

Result<bool> same_bytes(int a, const std::string& path) {
  struct stat named {};
  if (::lstat(path.c_str(), &named) != 0 || !S_ISREG(named.st_mode)) {
    return false;  // a link may lead to the recording itself
  }
  const auto b = open_regular(path);
  struct stat one {};
  struct stat other {};
  if (!b || ::fstat(a, &one) != 0 || ::fstat(b->get(), &other) != 0 || one.st_size != other.st_size) {
    return false;
  }
  std::vector<char> left(kPieceBytes);
  std::vector<char> right(kPieceBytes);
  for (off_t offset = 0; offset < one.st_size; offset += static_cast<off_t>(kPieceBytes)) {
    ST_ASSIGN(const size_t got, read_piece(a, offset, left));
    ST_ASSIGN(const size_t of_other, read_piece(b->get(), offset, right));
    if (got != of_other || !std::equal(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(got), right.begin())) {
      return false;
    }
  }
  return true;
}

Status copy_to(int from, NewFile& file) {
  std::vector<char> piece(kPieceBytes);
  for (off_t offset = 0;;) {
    ST_ASSIGN(const size_t got, read_piece(from, offset, piece));
    if (got == 0) {
      return {};
    }
    ST_TRY(file.append({piece.data(), got}));
    offset += static_cast<off_t>(got);
  }
}

/// The first name that is free goes to `publish`; or the file that has the bytes of `from` already.
Result<HandedOver> under_some_name(int from, const std::string& folder, const std::string& name,
                                   const std::function<Status(const std::string&)>& publish) {
  for (int number = 1; number <= kMostOfOneName; ++number) {
    const std::string file = fmt::format("{}{}.db", name, number == 1 ? "" : fmt::format("-{}", number));
    const std::string target = folder + "/" + file;
    if (!is_there(target)) {
      Status published = publish(file);
      if (published) {
        return HandedOver{target, false};
      }
      if (!is_there(target)) {
        return std::unexpected(std::move(published.error()));
      }  // another's came in the meantime: it may be the same
    }
    ST_ASSIGN(const bool same, same_bytes(from, target));
    if (same) {
      return HandedOver{target, true};
    }
  }
  return fail(fmt::format("{}: holds {} recordings of {} already", folder, kMostOfOneName, name),
              "move some of them elsewhere");
}

}  // namespace

std::string recording_name(std::string_view node, int64_t started_ns) {
  const time_t seconds = started_ns / kNsPerSecond;
  tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{}-{:04}{:02}{:02}T{:02}{:02}{:02}Z", as_file_name(node), utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

Result<HandedOver> hand_over(const std::string& path, const std::string& folder, Readers readers) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    return fail(folder + ": no such folder", "name one that is there", ErrorKind::kNotFound);
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0 && (errno == EACCES || errno == EROFS)) {
    return fail(folder + ": may not be written", "name a folder that this user may write to", ErrorKind::kNotFound);
  }
  ST_ASSIGN(const std::string name, name_of(path, path));
  ST_ASSIGN(const UniqueFd from, open_copy(path, folder));
  std::optional<NewFile> file;
  return under_some_name(from.get(), folder, name, [&](const std::string& free) -> Status {
    if (!file) {
      ST_ASSIGN(NewFile made, NewFile::create(folder + "/" + free, file_mode(readers)));
      file.emplace(std::move(made));
      ST_TRY(copy_to(from.get(), *file));
      (void)hand_to_caller(file->descriptor());
    }
    return file->publish_as(free, IfThere::kFail);
  });
}

Result<HandedOver> take_over(NewFile& file, const std::string& folder) {
  ST_ASSIGN(const std::string name, name_of(file.temporary_path(), "what was sent"));
  return under_some_name(file.descriptor(), folder, name,
                         [&](const std::string& free) { return file.publish_as(free, IfThere::kFail); });
}

}  // namespace stalltrace::store
