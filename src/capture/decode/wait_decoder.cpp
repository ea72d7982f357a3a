// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/wait_decoder.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace stalltrace::capture {
namespace {

std::string name_text(const char (&name)[ST_COMM_LEN]) { return std::string(name, strnlen(name, sizeof name)); }

}  // namespace

WaitSpan decode_wait(const st_wait& record, NodeId node, int64_t utc_offset_ns) {
  WaitSpan span;
  span.node_id = node;
  span.timestamp_ns = static_cast<int64_t>(record.header.time_ns) + utc_offset_ns;
  span.window_ns = static_cast<int64_t>(record.end_ns - record.header.time_ns);
  span.waited_ns = static_cast<int64_t>(record.waited_ns);
  span.open = record.open != 0;
  span.count = record.count;
  span.kind = static_cast<WaitKind>(record.kind);
  span.pid = static_cast<int32_t>(record.header.tgid);
  span.tid = static_cast<int32_t>(record.header.tid);
  span.thread_name = name_text(record.thread_name);
  span.by_pid = static_cast<int32_t>(record.by_tgid);
  span.by_name = name_text(record.by_name);
  span.by_waited_ns = static_cast<int64_t>(record.by_waited_ns);
  return span;
}

WaitSpan decode_open_wait(const st_thread_listing& thread, NodeId node, int64_t utc_offset_ns) {
  const uint64_t began_ns = thread.ready_ns != 0 ? thread.ready_ns : thread.off_ns;
  const uint64_t since_ns = std::min<uint64_t>(began_ns, thread.header.time_ns);
  WaitSpan span;
  span.node_id = node;
  span.timestamp_ns = static_cast<int64_t>(since_ns) + utc_offset_ns;
  span.window_ns = static_cast<int64_t>(thread.header.time_ns - since_ns);
  span.waited_ns = span.window_ns;
  span.open = true;
  span.kind = thread.ready_ns != 0 ? WaitKind::kRunnable : static_cast<WaitKind>(thread.off_kind);
  span.pid = static_cast<int32_t>(thread.header.tgid);
  span.tid = static_cast<int32_t>(thread.header.tid);
  span.thread_name = name_text(thread.thread_name);
  return span;
}

}  // namespace stalltrace::capture
