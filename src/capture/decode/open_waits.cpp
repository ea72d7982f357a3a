// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/open_waits.h"

#include <utility>

#include "capture/decode/wait_decoder.h"

namespace stalltrace::capture {

Status OpenWaits::deliver(const std::set<pid_t>& pids, uint64_t at_least_ns) {
  std::map<uint32_t, uint64_t> waiting;
  Status listed = kernel_.list_threads(pids, [&](const st_thread_listing& thread) {
    if (thread.header.time_ns - thread.off_ns < at_least_ns) {
      return;
    }
    const auto delivered = delivered_.find(thread.header.tid);
    if (delivered == delivered_.end() || delivered->second != thread.off_ns) {
      sink_.accept(decode_open_wait(thread, node_.node_id, node_.clock_offset_ns));
    }
    waiting[thread.header.tid] = thread.off_ns;
  });
  delivered_ = std::move(waiting);
  return listed;
}

}  // namespace stalltrace::capture
