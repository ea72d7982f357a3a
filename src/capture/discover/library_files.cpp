// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/library_files.h"

#include <fmt/format.h>
#include <poll.h>

#include <utility>

#include "base/clock.h"
#include "base/text.h"

namespace stalltrace::capture {
namespace {

/// Number of mapped files that are remembered; reading one again costs a few milliseconds at most.
constexpr size_t kMostFiles = 4096;
/// How long the content read for a file name is assumed for further mappings of that name.
constexpr int64_t kDismissedNs = 2 * kNsPerSecond;
/// Limit of files counted one by one and of names reported, since a user can map files without end.
constexpr size_t kMostCounted = 65536;
/// Limit of probed libraries per user other than root: each takes 20 ms or more to probe, and as long to detach.
constexpr size_t kMostAttached = 64;
/// Limit of one user's mappings that wait for their file to be read: 128 ranks of PyTorch starting at once have fewer.
constexpr size_t kMostWaiting = 65536;
/// How long the content of a remote file, and a server's silence, are assumed to last.
constexpr int64_t kRemoteNs = 30 * kNsPerSecond;
constexpr int kSettlePollMs = 20;
constexpr size_t kMostNamed = 16;

}  // namespace

LibraryFiles::Mapping LibraryFiles::key_of(pid_t pid, const MappedFile& mapping) {
  const auto [user, fresh] = users_.try_emplace(pid, 0);
  if (fresh) {
    user->second = procfs_.user(pid).value_or(static_cast<uid_t>(-1));
  }
  return {user->second, mapping.device_major, mapping.device_minor, mapping.inode, mapping.path};
}

bool LibraryFiles::was_dismissed(const Mapping& key) {
  const int64_t now_ns = monotonic_now_ns();
  if (now_ns - dismissed_since_ns_ >= kDismissedNs || dismissed_.size() > kMostFiles) {
    dismissed_.clear();
    users_.clear();
    dismissed_since_ns_ = now_ns;
  }
  return dismissed_.contains(key);
}

void LibraryFiles::ask(LibraryReader& reader, pid_t pid, const MappedFile& mapping, const Mapping& key) {
  const uid_t user = std::get<0>(key);
  const bool fresh = !waiting_.contains(key);
  LibraryReader::Request request{.pid = pid, .user = user, .mapping = mapping};
  if (waiting_of_[user] >= kMostWaiting || (fresh && !reader.ask(request))) {
    leave_out("library:not_read", mapping.path, "too many files of its user wait to be read");
    return;
  }
  ++waiting_of_[user];
  waiting_[key].push_back(std::move(request));
}

std::optional<LibraryFiles::Found> LibraryFiles::inspect_remote(pid_t pid, const MappedFile& mapping,
                                                                const Mapping& key) {
  const int64_t now_ns = monotonic_now_ns();
  const auto known = remote_files_.find(key);
  if (known != remote_files_.end() && now_ns - known->second.read_ns < kRemoteNs) {
    const auto file = files_.find(known->second.identity);
    if (!known->second.opened || file != files_.end()) {
      return known->second.opened ? std::optional(Found{&file->second, known->second.opened}) : std::nullopt;
    }
    remote_files_.erase(known);  // forgotten in the meantime
  }
  const auto silent = silent_.find({mapping.device_major, mapping.device_minor});
  if (silent != silent_.end() && now_ns - silent->second < kRemoteNs) {
    leave_out("library:not_read", mapping.path, "its file system does not answer");
    return std::nullopt;
  }
  ask(remote_, pid, mapping, key);
  return std::nullopt;
}

std::optional<LibraryFiles::Found> LibraryFiles::inspect(pid_t pid, const MappedFile& mapping) {
  const Mapping key = key_of(pid, mapping);
  if (was_dismissed(key)) {
    return std::nullopt;
  }
  auto opened = UntrustedFile::open_mapped(procfs_, mounts_, pid, mapping);
  if (!opened) {
    return opened.error() == OpenRefusal::kRemote ? inspect_remote(pid, mapping, key) : std::nullopt;
  }
  auto known = files_.find(opened->identity());
  if (known == files_.end()) {
    if (opened->owner() != 0 || opened->others_may_write()) {
      ask(here_, pid, mapping, key);
      return std::nullopt;
    }
    known = files_.try_emplace(opened->identity()).first;
    known->second.symbols = find_probe_points(opened->fd()).value_or(FileSymbols{});
  }
  if (!known->second.symbols.of_interest()) {
    dismissed_.insert(key);
    return std::nullopt;
  }
  return Found{&known->second, std::make_shared<const UntrustedFile>(std::move(*opened))};
}

/// Stores what a child process read; a file that it could not read is of no interest.
void LibraryFiles::take(LibraryReader::Answer answer, bool remote) {
  const MappedFile& mapping = answer.request.mapping;
  if (!answer.symbols && answer.symbols.error().kind == ErrorKind::kInterrupted) {
    leave_out("library:not_read", mapping.path, answer.symbols.error().what);
    if (remote) {
      silent_[{mapping.device_major, mapping.device_minor}] = monotonic_now_ns();
    }
  }
  RemoteFile read{.identity = {}, .opened = {}, .read_ns = monotonic_now_ns()};
  if (answer.opened) {
    FileSymbols symbols = std::move(answer.symbols).value_or(FileSymbols{});
    read.identity = answer.opened->identity();
    if (symbols.of_interest()) {
      read.opened = std::make_shared<const UntrustedFile>(std::move(*answer.opened));
    }
    files_.try_emplace(read.identity).first->second.symbols = std::move(symbols);
  }
  if (remote) {
    if (remote_files_.size() > kMostFiles) {
      remote_files_.clear();
    }
    remote_files_.insert_or_assign(
        Mapping{answer.request.user, mapping.device_major, mapping.device_minor, mapping.inode, mapping.path},
        std::move(read));
  }
}

void LibraryFiles::advance(LibraryReader& reader, bool remote, const Ready& ready) {
  while (auto answer = reader.take()) {
    const LibraryReader::Request request = answer->request;
    const bool opened = answer->opened.has_value();
    take(std::move(*answer), remote);
    const MappedFile& mapping = request.mapping;
    auto waiting = waiting_.extract(
        Mapping{request.user, mapping.device_major, mapping.device_minor, mapping.inode, mapping.path});
    if (waiting.empty()) {
      continue;
    }
    if (const auto count = waiting_of_.find(request.user); (count->second -= waiting.mapped().size()) == 0) {
      waiting_of_.erase(count);
    }
    for (const LibraryReader::Request& other : waiting.mapped()) {
      if (opened || other.pid != request.pid) {  // a file missing for one process may exist for another
        ready(other.pid, other.mapping);
      }
    }
  }
}

void LibraryFiles::advance(const Ready& ready) {
  advance(here_, false, ready);
  advance(remote_, true, ready);
}

void LibraryFiles::settle(const Ready& ready) {
  const int64_t until_ns = monotonic_now_ns() + kNsPerSecond;
  for (advance(ready); !here_.is_idle() && monotonic_now_ns() < until_ns; advance(ready)) {
    pollfd wake{.fd = here_.descriptor(), .events = POLLIN, .revents = 0};
    ::poll(&wake, 1, kSettlePollMs);
  }
}

Result<LibraryFiles::Found> LibraryFiles::inspect_path(const std::string& path) {
  ST_ASSIGN(UntrustedFile opened, UntrustedFile::open_path(path));
  auto known = files_.find(opened.identity());
  if (known == files_.end()) {
    auto symbols = find_probe_points(opened.fd());
    if (!symbols) {
      return with_context(path, std::move(symbols.error()));
    }
    known = files_.try_emplace(opened.identity()).first;
    known->second.symbols = std::move(*symbols);
  }
  return Found{&known->second, std::make_shared<const UntrustedFile>(std::move(opened))};
}

bool LibraryFiles::may_be_probed(pid_t pid, const MappedFile& mapping, const Found& found) {
  if (found.file->attached) {
    return true;
  }
  const uid_t owner = found.opened->owner();
  if (owner != 0 && attached_of_[owner] >= kMostAttached) {
    leave_out("library:too_many", mapping.path, fmt::format("{} libraries of user {} are", kMostAttached, owner));
    return false;
  }
  const auto reason = reason_for_distrust(procfs_, pid, *found.opened, trusted_);
  if (reason && procfs_.exists(pid)) {  // a process that has ended has no user
    leave_out("library:not_trusted", fmt::format("{} of process {}", mapping.path, pid),
              fmt::format("{}; if that user's libraries may be trusted with probes: --trust-owner {}", *reason, owner));
  }
  return !reason;
}

void LibraryFiles::set_attached(const Found& found) {
  found.file->attached = true;
  ++attached_of_[found.opened->owner()];
}

bool LibraryFiles::may_be_probed(const std::string& path, const Found& found) {
  return is_local_path(path) &&
         (trusted_.have(found.opened->owner()) || (found.opened->owner() == 0 && !found.opened->others_may_write()));
}

void LibraryFiles::leave_out(const std::string& source, const std::string& what, const std::string& why) {
  if (reported_.size() >= kMostCounted || !reported_.insert(source + what).second) {
    return;
  }
  ++left_out_[source];
  if (reported_.size() <= kMostNamed) {
    note_(fmt::format("{} is not probed: {}", printable(what), printable(why)));
  } else if (reported_.size() == kMostNamed + 1) {
    note_("more libraries are not probed; the recording counts them (table loss)");
  }
}

void LibraryFiles::forget() {
  if (files_.size() > kMostFiles) {
    std::erase_if(files_, [](const auto& entry) { return !entry.second.attached; });
  }
}

}  // namespace stalltrace::capture
