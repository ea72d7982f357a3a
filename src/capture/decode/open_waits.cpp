// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/open_waits.h"

#include <utility>

#include "capture/decode/wait_decoder.h"

namespace stalltrace::capture {

Result<bool> OpenWaits::deliver(uint32_t user, Look& look, int64_t until_ns) {
  std::map<uint32_t, uint64_t>& known = delivered_[user];
  const Result<bool> done = kernel_.list_threads(look.listing, until_ns, [&](const st_thread_listing& thread) {
    if (thread.header.time_ns - thread.off_ns < look.at_least_ns) {
      return;
    }
    const auto delivered = known.find(thread.header.tid);
    if (delivered == known.end() || delivered->second != thread.off_ns) {
      sink_.accept(decode_open_wait(thread, node_.node_id, node_.clock_offset_ns));
    }
    look.waiting[thread.header.tid] = thread.off_ns;
  });
  if (!done || *done) {
    known = std::move(look.waiting);
  }
  if (known.empty()) {
    delivered_.erase(user);
  }
  return done;
}

}  // namespace stalltrace::capture
