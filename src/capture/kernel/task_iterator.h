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

/// Runs an iterator program over processes. A process that has ended is not an error; other errors begin with `what`.
/// Before Linux 6.1 an iterator can't be limited to a process, so one walk over all processes of the host serves all.
template <typename Listing>
Status visit_tasks(const bpf_program* program, const char* what, const std::set<pid_t>& pids,
                   const std::function<void(const Listing&)>& visit) {
  for (const pid_t pid : pids) {
    bpf_iter_link_info target{};
    target.task.pid = static_cast<uint32_t>(pid);
    LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &target, .link_info_len = sizeof target);
    LinkHandle link(bpf_program__attach_iter(program, &options));
    if (link) {
      ST_TRY(read_iterator(link.get(), what, std::set<pid_t>{pid}, visit));
    } else if (errno != ESRCH) {
      link.reset(bpf_program__attach_iter(program, nullptr));
      return link ? read_iterator(link.get(), what, pids, visit) : fail_errno(what, errno);
    }
  }
  return {};
}

}  // namespace stalltrace::capture
