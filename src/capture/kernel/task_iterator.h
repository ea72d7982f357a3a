// SPDX-License-Identifier: Apache-2.0
// Iterator programs: what the kernel itself writes down about the threads and files of a process.
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

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace::capture {

using LinkHandle = std::unique_ptr<bpf_link, Free<bpf_link__destroy>>;

/// Runs an iterator program over a process and visits what it writes, `Listing`s that begin with an st_header. A
/// process that has ended is no error; another error begins with `what`.
template <typename Listing>
Status visit_task(const bpf_program* program, const char* what, pid_t pid,
                  const std::function<void(const Listing&)>& visit) {
  constexpr size_t kListingsAtOnce = 64;
  bpf_iter_link_info target{};
  target.task.pid = static_cast<uint32_t>(pid);
  LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &target, .link_info_len = sizeof target);
  LinkHandle link(bpf_program__attach_iter(program, &options));
  if (!link && errno == ESRCH) {
    return {};  // it has ended
  }
  if (!link) {  // before Linux 6.1 the iterator can't be narrowed to a process: it visits all
    link.reset(bpf_program__attach_iter(program, nullptr));
  }
  if (!link) {
    return fail_errno(what, errno);
  }
  const UniqueFd iterator(bpf_iter_create(bpf_link__fd(link.get())));
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
      if (listing.header.tgid == static_cast<uint32_t>(pid)) {
        visit(listing);
      }
    }
    held -= at;
    std::memmove(buffer.data(), buffer.data() + at, held);
  }
}

}  // namespace stalltrace::capture
