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

/// Reads an iterator link's output to its end, and visits the `Listing`s of `pids`.
template <typename Listing>
Status read_iterator(const bpf_link* link, const char* what, const std::set<pid_t>& pids,
                     const std::function<void(const Listing&)>& visit) {
  constexpr size_t kListingsAtOnce = 64;
  const UniqueFd iterator(bpf_iter_create(bpf_link__fd(link)));
  if (!iterator) {
    return fail_errno(what, errno);
  }
  alignas(Listing) std::array<std::byte, kListingsAtOnce * sizeof(Listing)> buffer;
  size_t held = 0;
  while (true) {
    const ssize_t got = ::read(iterator.get(), buffer.data() + held, buffer.size() - held);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
      continue;
    }
    if (got <= 0) {
      return got == 0 ? Status{} : fail_errno(what, errno);
    }
    held += static_cast<size_t>(got);
    size_t at = 0;
    for (; held - at >= sizeof(Listing); at += sizeof(Listing)) {
      Listing listing;
      std::memcpy(&listing, buffer.data() + at, sizeof listing);
      const st_header& header = listing.header;
      if (header.type != kListingType<Listing> || header.version != ST_WIRE_VERSION || header.size != sizeof listing) {
        return fail(std::string(what) + ": the iterator wrote something else than its listings");
      }
      if (pids.contains(static_cast<pid_t>(header.tgid))) {
        visit(listing);
      }
    }
    held -= at;
    std::memmove(buffer.data(), buffer.data() + at, held);
  }
}

/// Walks each process, or, where the first walk can't be limited to a process (before Linux 6.1), all processes of the
/// host once for all pids. `attach` gets a pid, or none for all, and returns a link with errno set if it is null: ESRCH
/// is a process that has ended. `read` gets a link and the pids to visit.
template <typename Attach, typename Read>
Status walk_tasks(const char* what, const std::set<pid_t>& pids, const Attach& attach, const Read& read) {
  for (const pid_t pid : pids) {
    if (const auto link = attach(std::optional(pid))) {
      ST_TRY(read(link, std::set<pid_t>{pid}));
    } else if (errno != ESRCH) {
      const auto all = attach(std::optional<pid_t>());
      return all ? read(all, pids) : fail_errno(what, errno);
    }
  }
  return {};
}

/// Runs an iterator program over processes. A process that has ended is not an error; other errors begin with `what`.
template <typename Listing>
Status visit_tasks(const bpf_program* program, const char* what, const std::set<pid_t>& pids,
                   const std::function<void(const Listing&)>& visit) {
  const auto attach = [&](std::optional<pid_t> pid) {
    bpf_iter_link_info target{};
    target.task.pid = static_cast<uint32_t>(pid.value_or(0));
    LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &target, .link_info_len = sizeof target);
    return LinkHandle(bpf_program__attach_iter(program, pid ? &options : nullptr));
  };
  return walk_tasks(what, pids, attach, [&](const LinkHandle& link, const std::set<pid_t>& wanted) {
    return read_iterator(link.get(), what, wanted, visit);
  });
}

}  // namespace stalltrace::capture
