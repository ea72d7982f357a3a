// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/open_waits.h"

#include <utility>

#include "capture/decode/wait_decoder.h"

namespace stalltrace::capture {

Status OpenWaits::deliver(uint32_t user, const std::set<pid_t>& pids, uint64_t at_least_ns) {
  std::map<uint32_t, uint64_t>& known = delivered_[user];
  std::map<uint32_t, uint64_t> waiting;
  Status listed = kernel_.list_threads(pids, [&](const st_thread_listing& thread) {
    if (thread.header.time_ns - thread.off_ns < at_least_ns) {
      return;
    }
    const auto delivered = known.find(thread.header.tid);
    if (delivered == known.end() || delivered->second != thread.off_ns) {
      sink_.accept(decode_open_wait(thread, node_.node_id, node_.clock_offset_ns));
    }
    waiting[thread.header.tid] = thread.off_ns;
  });
  known = std::move(waiting);
  if (known.empty()) {
    delivered_.erase(user);
  }
  return listed;
}

}  // namespace stalltrace::capture
