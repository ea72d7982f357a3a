// SPDX-License-Identifier: Apache-2.0
// Iterator programs: the kernel's listing of a process's threads and files.
#pragma once

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/handle.h"
#include "base/result.h"
#include "wire/scheduler.h"
#include "wire/tcp.h"

namespace stalltrace::capture {

using LinkHandle = std::unique_ptr<bpf_link, Free<bpf_link__destroy>>;

template <typename Listing>
inline constexpr uint16_t kListingType = ST_RECORD_NONE;
template <>
inline constexpr uint16_t kListingType<st_socket_listing> = ST_RECORD_SOCKET_LISTING;
template <>
inline constexpr uint16_t kListingType<st_thread_listing> = ST_RECORD_THREAD_LISTING;

/// An iterator link that is being read.
struct TaskIterator {
  LinkHandle link;
  UniqueFd fd;
};

/// Reads once from an iterator, and visits the `Listing`s of `pids`. False: it is at its end. One read is short: the
/// program fills the buffer now and then (bpf/walk_pause.h).
template <typename Listing>
Result<bool> read_listings(TaskIterator& iterator, const char* what, const std::set<pid_t>& pids,
                           const std::function<void(const Listing&)>& visit) {
  constexpr size_t kBytes = ST_LISTINGS_OF(Listing);
  if (!iterator.fd) {
    iterator.fd = UniqueFd(bpf_iter_create(bpf_link__fd(iterator.link.get())));
    if (!iterator.fd) {
      return fail_errno(what, errno);
    }
  }
  alignas(Listing) std::array<std::byte, kBytes> buffer;
  size_t held = 0;
  do {
    const ssize_t got = ::read(iterator.fd.get(), buffer.data() + held, buffer.size() - held);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
      continue;
    }
    if (got < 0) {
      return fail_errno(what, errno);
    }
    if (got == 0) {
      return false;
    }
    held += static_cast<size_t>(got);
  } while (held == 0 || held % sizeof(Listing) != 0);
  for (size_t at = 0; at < held; at += sizeof(Listing)) {
    Listing listing;
    std::memcpy(&listing, buffer.data() + at, sizeof listing);
    const st_header& header = listing.header;
    if (header.type == ST_RECORD_NONE) {
      continue;
    }
    if (header.type != kListingType<Listing> || header.version != ST_WIRE_VERSION || header.size != sizeof listing) {
      return fail(std::string(what) + ": the iterator wrote something else than its listings");
    }
    if (pids.contains(static_cast<pid_t>(header.tgid))) {
      visit(listing);
    }
  }
  return true;
}

/// Where a walk over processes stands.
template <typename Link>
struct TaskWalk {
  std::set<pid_t> left;          // not begun yet
  std::set<pid_t> wanted = {};   // of the link
  std::unique_ptr<Link> link{};  // null: none is being read
};

/// One step of a walk over each process, or, where the first walk can't be limited to a process (before Linux 6.1),
/// over all processes of the host once for all pids. Returns whether that was the last one. `attach` gets a pid, or
/// none for all, and returns a link with errno set if it is null: ESRCH is a process that has ended. `read` gets a link
/// and the pids to visit, and returns false at its end.
template <typename Link, typename Attach, typename Read>
Result<bool> walk_step(TaskWalk<Link>& walk, const char* what, const Attach& attach, const Read& read) {
  if (!walk.link && walk.left.empty()) {
    return true;
  }
  if (!walk.link) {
    const pid_t pid = *walk.left.begin();
    walk.left.erase(pid);
    walk.wanted = {pid};
    walk.link = attach(std::optional(pid));
    if (!walk.link && errno == ESRCH) {
      return walk.left.empty();
    }
    if (!walk.link) {
      walk.wanted = std::exchange(walk.left, {});
      walk.wanted.insert(pid);
      walk.link = attach(std::optional<pid_t>());
    }
    if (!walk.link) {
      return fail_errno(what, errno);
    }
  }
  const Result<bool> more = read(*walk.link, walk.wanted);
  if (!more || !*more) {
    walk.link.reset();
  }
  if (!more) {
    return std::unexpected(more.error());
  }
  return !walk.link && walk.left.empty();
}

/// Goes on with a walk of an iterator program, by one step. Errors begin with `what`.
template <typename Listing>
Result<bool> walk_step(TaskWalk<TaskIterator>& walk, const bpf_program* program, const char* what,
                       const std::function<void(const Listing&)>& visit) {
  const auto attach = [&](std::optional<pid_t> pid) -> std::unique_ptr<TaskIterator> {
    bpf_iter_link_info target{};
    target.task.pid = static_cast<uint32_t>(pid.value_or(0));
    LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &target, .link_info_len = sizeof target);
    LinkHandle link(bpf_program__attach_iter(program, pid ? &options : nullptr));
    return link ? std::make_unique<TaskIterator>(TaskIterator{.link = std::move(link), .fd = {}}) : nullptr;
  };
  return walk_step(walk, what, attach, [&](TaskIterator& iterator, const std::set<pid_t>& wanted) {
    return read_listings(iterator, what, wanted, visit);
  });
}

}  // namespace stalltrace::capture
