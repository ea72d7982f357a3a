// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/files/library_files.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/clock.h"
#include "model/events/loss_sources.h"

namespace stalltrace::capture {
namespace {

/// Number of mapped files that are remembered; reading one again costs a few milliseconds at most.
constexpr size_t kMostFiles = 4096;
/// How long the content read for a file name is assumed for further mappings of that name.
constexpr int64_t kDismissedNs = 2 * kNsPerSecond;
/// Limit of one user's mappings that wait for their file to be read: 128 ranks of PyTorch starting at once have fewer.
constexpr size_t kMostWaitingOfUser = 65536;
/// How long the content of a remote file is assumed to last.
constexpr int64_t kRemoteNs = 30 * kNsPerSecond;
constexpr int kSettlePollMs = 20;
/// Until probes are tried again that could not be attached; twice as long each time, up to 16 minutes.
constexpr int64_t kAttachAgainNs = 30 * kNsPerSecond;
constexpr int kMostDoublings = 5;

}  // namespace

FileKey LibraryFiles::key_of(pid_t pid, const MappedFile& mapping) {
  const auto [user, fresh] = users_.try_emplace(pid, 0);
  if (fresh) {
    user->second = procfs_.user(pid).value_or(static_cast<uid_t>(-1));
  }
  return {user->second, mapping};
}

bool LibraryFiles::was_dismissed(const FileKey& key) {
  const int64_t now_ns = monotonic_now_ns();
  if (now_ns - dismissed_since_ns_ >= kDismissedNs || dismissed_.size() > kMostFiles) {
    dismissed_.clear();
    users_.clear();
    dismissed_since_ns_ = now_ns;
  }
  return dismissed_.contains(key);
}

void LibraryFiles::ask(LibraryReader& reader, pid_t pid, const MappedFile& mapping, const FileKey& key) {
  const bool fresh = !waiting_.contains(key);
  LibraryReader::Request request{.pid = pid, .user = key.user, .mapping = mapping};
  if (waiting_of_[key.user] >= kMostWaitingOfUser || (fresh && !reader.ask(request))) {
    left_out_.add("library:not_read", key.path, "too many files of its user wait to be read");
    return;
  }
  ++waiting_of_[key.user];
  waiting_[key].push_back(std::move(request));
}

void LibraryFiles::postpone(LibraryReader::Request request, int64_t until_ns) {
  const std::string path = request.mapping.path;
  if (!postponed_.add(std::move(request), until_ns)) {
    left_out_.add("library:not_read", path, "too many files of its user wait to be read");
  }
}

/// Opens the mapped file, also where the process has mapped it again since: `mapping` is then the one of now. kMoved:
/// it is postponed.
std::expected<UntrustedFile, OpenRefusal> LibraryFiles::open(const FileKey& key, pid_t pid, MappedFile& mapping) {
  auto opened = UntrustedFile::open_mapped(procfs_, mounts_, pid, mapping);
  if (opened || opened.error() != OpenRefusal::kMoved) {
    return opened;
  }
  for (const bool fresh : {false, true}) {
    if (const int64_t again_ns = tables_.again_ns(pid); fresh && again_ns > monotonic_now_ns()) {
      postpone({.pid = pid, .user = key.user, .mapping = mapping}, again_ns);
      return std::unexpected(OpenRefusal::kMoved);
    }
    const MappingTables::Table table = fresh ? tables_.read(pid).value_or(nullptr) : tables_.last(pid);
    const MappedFile* now = table ? find_moved(*table, mapping) : nullptr;
    if (now == nullptr) {
      continue;
    }
    opened = UntrustedFile::open_mapped(procfs_, mounts_, pid, *now);
    if (opened || opened.error() != OpenRefusal::kMoved) {
      mapping = *now;
      return opened;
    }
  }
  return std::unexpected(OpenRefusal::kGone);
}

std::optional<LibraryFiles::Found> LibraryFiles::inspect_remote(pid_t pid, const MappedFile& mapping,
                                                                const FileKey& key) {
  const auto known = remote_files_.find(key);
  if (known != remote_files_.end() && monotonic_now_ns() - known->second.read_ns < kRemoteNs) {
    const auto file = files_.find(known->second.identity);
    if (!known->second.opened || file != files_.end()) {
      return known->second.opened ? std::optional(Found{&file->second, known->second.opened}) : std::nullopt;
    }
    remote_files_.erase(known);  // forgotten in the meantime
  }
  ask(remote_, pid, mapping, key);
  return std::nullopt;
}

std::optional<LibraryFiles::Found> LibraryFiles::inspect(pid_t pid, const MappedFile& reported) {
  const FileKey key = key_of(pid, reported);
  if (was_dismissed(key)) {
    return std::nullopt;
  }
  if (const auto until_ns = postponed_.left_alone_until(key, monotonic_now_ns())) {
    left_out_.add("library:not_read", key.path, "its file system does not answer; it is tried again");
    postpone({.pid = pid, .user = key.user, .mapping = reported}, *until_ns);
    return std::nullopt;
  }
  MappedFile mapping = reported;
  auto opened = open(key, pid, mapping);
  if (!opened) {
    return opened.error() == OpenRefusal::kRemote ? inspect_remote(pid, mapping, key) : std::nullopt;
  }
  if (!files_.contains(opened->identity()) && (opened->owner() != 0 || opened->others_may_write())) {
    ask(here_, pid, mapping, key);
    return std::nullopt;
  }
  auto found = read(std::move(*opened));
  if (!found || !found->file->symbols.of_interest()) {
    dismissed_.insert(key);
    return std::nullopt;
  }
  return std::move(*found);
}

/// What is known of an open file; reads it if nothing is. Errors: not ELF.
Result<LibraryFiles::Found> LibraryFiles::read(UntrustedFile opened) {
  auto known = files_.find(opened.identity());
  if (known == files_.end()) {
    auto symbols = find_probe_points(opened.fd());
    known = files_.try_emplace(opened.identity()).first;
    if (!symbols) {
      return std::unexpected(std::move(symbols.error()));
    }
    known->second.symbols = std::move(*symbols);
  }
  return Found{&known->second, std::make_shared<const UntrustedFile>(std::move(opened))};
}

/// The mappings that wait for a file.
std::vector<LibraryReader::Request> LibraryFiles::take_waiting(const FileKey& key) {
  auto waiting = waiting_.extract(key);
  if (waiting.empty()) {
    return {};
  }
  if (const auto count = waiting_of_.find(key.user); (count->second -= waiting.mapped().size()) == 0) {
    waiting_of_.erase(count);
  }
  return std::move(waiting.mapped());
}

/// A file that could not be read is left alone for a while; so are others on a file system that does not answer.
void LibraryFiles::give_up(const LibraryReader::Answer& answer, bool remote) {
  using Outcome = LibraryReader::Outcome;
  const FileKey key(answer.request.user, answer.request.mapping);
  const int64_t now_ns = monotonic_now_ns();
  left_out_.add("library:not_read", key.path,
                fmt::format("{}; it is tried again", LibraryReader::describe(answer.outcome)));
  if (answer.tried) {
    postponed_.failed(key, now_ns);
  } else {
    postponed_.held(key, now_ns);
  }
  if (!remote || (answer.outcome != Outcome::kSilent && answer.outcome != Outcome::kSlow)) {
    return;
  }
  postponed_.was_silent(key, now_ns);
  const auto same = [&](const LibraryReader::Request& other) {
    return other.mapping.device_major == key.device_major && other.mapping.device_minor == key.device_minor &&
           other.user == key.user;
  };
  for (const LibraryReader::Request& other : remote_.take_back(same)) {
    for (LibraryReader::Request& one : take_waiting(FileKey(other.user, other.mapping))) {
      postpone(std::move(one), now_ns + PostponedFiles::kSilentNs);
    }
  }
}

/// Stores what a child process read.
void LibraryFiles::store(LibraryReader::Answer answer, bool remote) {
  const FileKey key(answer.request.user, answer.request.mapping);
  postponed_.succeeded(key);
  RemoteFile read{.identity = answer.opened->identity(), .opened = {}, .read_ns = monotonic_now_ns()};
  if (answer.symbols.of_interest()) {
    read.opened = std::make_shared<const UntrustedFile>(std::move(*answer.opened));
  }
  files_.try_emplace(read.identity).first->second.symbols = std::move(answer.symbols);
  if (remote) {
    if (remote_files_.size() > kMostFiles) {
      remote_files_.clear();
    }
    remote_files_.insert_or_assign(key, std::move(read));
  }
}

void LibraryFiles::advance(LibraryReader& reader, bool remote, const Ready& ready) {
  using Outcome = LibraryReader::Outcome;
  while (auto answer = reader.take()) {
    const LibraryReader::Request request = answer->request;
    const Outcome outcome = answer->outcome;
    if (outcome == Outcome::kRead) {
      store(std::move(*answer), remote);
    } else if (outcome != Outcome::kGone && outcome != Outcome::kMoved) {
      give_up(*answer, remote);
    }
    for (const LibraryReader::Request& other : take_waiting(FileKey(request.user, request.mapping))) {
      if (outcome != Outcome::kGone ||
          other.pid != request.pid) {  // a file missing for one process may exist for another
        ready(other.pid, other.mapping);
      }
    }
  }
}

void LibraryFiles::advance(const Ready& ready) {
  advance(here_, false, ready);
  advance(remote_, true, ready);
  for (const LibraryReader::Request& again : postponed_.take_due(monotonic_now_ns())) {
    ready(again.pid, again.mapping);
  }
}

void LibraryFiles::wait_for_files(const Ready& ready, int64_t here_ns, int64_t remote_ns) {
  const int64_t begun_ns = monotonic_now_ns();
  advance(ready);
  for (int64_t for_ns = 0; (!here_.is_idle() && for_ns < here_ns) || (!remote_.is_idle() && for_ns < remote_ns);
       for_ns = monotonic_now_ns() - begun_ns) {
    std::array<pollfd, 2> wake{pollfd{.fd = here_.descriptor(), .events = POLLIN, .revents = 0},
                               pollfd{.fd = remote_.descriptor(), .events = POLLIN, .revents = 0}};
    ::poll(wake.data(), wake.size(), kSettlePollMs);
    advance(ready);
  }
}

Result<LibraryFiles::Found> LibraryFiles::inspect_path(const std::string& path) {
  ST_ASSIGN(UntrustedFile opened, UntrustedFile::open_path(path));
  auto found = read(std::move(opened));
  return found ? std::move(found) : with_context(path, std::move(found.error()));
}

std::optional<LibraryFiles::Found> LibraryFiles::inspect_trusted_path(const std::string& path) {
  auto opened = is_local_path(path) ? UntrustedFile::open_path(path) : fail(path);
  const bool may_read =
      opened && (opened->owner() == 0 || trusted_.have(opened->owner())) && !opened->others_may_write();
  if (!may_read) {
    return std::nullopt;
  }
  auto found = read(std::move(*opened));
  return found ? std::optional(std::move(*found)) : std::nullopt;
}

bool LibraryFiles::may_be_probed(pid_t pid, const MappedFile& mapping, const Found& found) {
  const uid_t owner = found.opened->owner();
  if (found.file->attached) {
    shares_.add_user(owner, found.opened->identity(), pid);
    return true;
  }
  const auto reason = reason_for_distrust(procfs_, pid, *found.opened, trusted_);
  if (reason) {
    if (procfs_.exists(pid)) {  // a process that has ended has no user
      const std::string remedy =
          found.opened->others_may_write()
              ? "take that right from them (chmod g-w,o-w), or name the file with --library"
              : fmt::format("if that user's libraries may be trusted with probes: --trust-owner {}", owner);
      left_out_.add("library:not_trusted", fmt::format("{} of process {}", mapping.path, pid),
                    fmt::format("{}; {}", *reason, remedy));
    }
    return false;
  }
  if (has_share(owner) && !shares_.has_room(owner, monotonic_now_ns())) {
    left_out_.add(users_loss("library:too_many", owner), mapping.path,
                  fmt::format("{} libraries of user {} are", ProbeShares::kMost, owner));
    return false;
  }
  return true;
}

bool LibraryFiles::begin_attach(const Found& found) {
  const int64_t now_ns = monotonic_now_ns();
  if (now_ns < found.file->attach_again_ns) {
    return false;
  }
  if (const uid_t owner = found.opened->owner(); has_share(owner)) {
    shares_.count_attempt(owner, now_ns);
  }
  return true;
}

void LibraryFiles::set_refused(const Found& found, const std::string& shown_path, const std::string& why) {
  found.file->attach_again_ns = monotonic_now_ns() + (kAttachAgainNs << std::min(found.file->failures, kMostDoublings));
  ++found.file->failures;
  left_out_.add("library:not_probed", shown_path, why);
}

void LibraryFiles::set_attached(const Found& found, pid_t pid, ProbeShares::Detach detach) {
  found.file->attached = true;
  if (const uid_t owner = found.opened->owner(); has_share(owner)) {
    shares_.add(owner, found.opened->identity(), pid, [file = found.file, detach = std::move(detach)] {
      detach();
      file->attached = false;
    });
  }
}

void LibraryFiles::forget() {
  if (files_.size() > kMostFiles) {
    std::erase_if(files_, [](const auto& entry) { return !entry.second.attached; });
  }
}

}  // namespace stalltrace::capture
