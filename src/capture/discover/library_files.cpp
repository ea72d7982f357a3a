// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/library_files.h"

#include <fmt/format.h>

#include <utility>

#include "base/clock.h"
#include "base/text.h"

namespace stalltrace::capture {
namespace {

/// So many files that processes map are remembered; reading one again costs some milliseconds at most.
constexpr size_t kMostFiles = 4096;
/// What was read of a file is taken for what a mapping of the same name maps.
constexpr int64_t kDismissedNs = 2 * kNsPerSecond;
/// A user can map files without end: so many are counted one by one, and so many are named.
constexpr size_t kMostCounted = 65536;
constexpr size_t kMostNamed = 16;

}  // namespace

LibraryFiles::Mapping LibraryFiles::key_of(pid_t pid, const MappedFile& mapping) {
  const auto [user, fresh] = users_.try_emplace(pid, 0);
  if (fresh) {
    user->second = procfs_.user(pid).value_or(static_cast<uid_t>(-1));
  }
  return {user->second, mapping.device_major, mapping.device_minor, mapping.inode, mapping.path};
}

bool LibraryFiles::was_dismissed(pid_t pid, const MappedFile& mapping) {
  const int64_t now_ns = monotonic_now_ns();
  if (now_ns - dismissed_since_ns_ >= kDismissedNs || dismissed_.size() > kMostFiles) {
    dismissed_.clear();
    users_.clear();
    dismissed_since_ns_ = now_ns;
  }
  return dismissed_.contains(key_of(pid, mapping));
}

Result<LibraryFiles::Found> LibraryFiles::known_or_read(UntrustedFile opened) {
  const auto [entry, fresh] = files_.try_emplace(opened.identity());
  if (fresh) {
    auto symbols = find_probe_points(opened.fd());
    if (!symbols) {
      return std::unexpected(std::move(symbols.error()));  // known from now on, as a file of no interest
    }
    entry->second.symbols = std::move(*symbols);
  }
  return Found{&entry->second, std::move(opened)};
}

std::optional<LibraryFiles::Found> LibraryFiles::inspect(pid_t pid, const MappedFile& mapping) {
  if (was_dismissed(pid, mapping)) {
    return std::nullopt;
  }
  auto opened = UntrustedFile::open_mapped(procfs_, mounts_, pid, mapping);
  if (!opened) {
    if (opened.error() == OpenRefusal::kRemote) {
      const std::string type = mounts_.of_device(pid, mapping.device_major, mapping.device_minor).type;
      leave_out("library:remote", mapping.path, fmt::format("its file system ({}) is not of this host", type));
    }
    return std::nullopt;
  }
  auto found = known_or_read(std::move(*opened));
  if (!found || !found->file->symbols.of_interest()) {
    dismissed_.insert(key_of(pid, mapping));
    return std::nullopt;
  }
  return std::move(*found);
}

Result<LibraryFiles::Found> LibraryFiles::inspect_path(const std::string& path) {
  ST_ASSIGN(UntrustedFile opened, UntrustedFile::open_path(path));
  auto found = known_or_read(std::move(opened));
  return found ? std::move(found) : with_context(path, std::move(found.error()));
}

bool LibraryFiles::may_be_probed(pid_t pid, const MappedFile& mapping, const Found& found) {
  if (found.file->attached) {
    return true;
  }
  const auto reason = reason_for_distrust(procfs_, pid, found.opened, trusted_);
  if (reason) {
    leave_out("library:not_trusted", fmt::format("{} of process {}", mapping.path, pid),
              fmt::format("{}; if that user's libraries may be trusted with probes: --trust-owner {}", *reason,
                          found.opened.owner()));
  }
  return !reason;
}

bool LibraryFiles::may_be_probed(const std::string& path, const Found& found) {
  return is_local_path(path) &&
         (trusted_.anybody || trusted_.users.contains(found.opened.owner()) ||
          (found.opened.owner() == 0 && !found.opened.others_may_write()));
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
