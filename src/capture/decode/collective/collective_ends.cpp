// SPDX-License-Identifier: Apache-2.0
// When an asynchronous call completed: at the synchronisation that followed it, at the wait for its request, or at the
// last byte on the rank's sockets.
#include <algorithm>

#include "base/clock.h"
#include "capture/decode/collective/collective_tracker.h"

namespace stalltrace::capture {
namespace {

/// A synchronisation that returned this long after the last byte waited for other work after the transfer.
constexpr int64_t kOtherGpuWorkNs = 2 * kNsPerMs;
/// A silence before the next call that ends a transfer in a job whose synchronisation is never seen.
constexpr uint64_t kSilenceNs = 1 * kNsPerMs;

}  // namespace

void CollectiveTracker::finish(ProcessState& process, EventId event, Completion completion, uint64_t end_ns) {
  const auto found = process.live.find(event);
  if (found == process.live.end()) {
    return;
  }
  Collective row = std::move(found->second.row);
  process.live.erase(found);
  row.completion = completion;
  row.duration_ns = std::max<int64_t>(utc(end_ns) - row.timestamp_ns, 0);
  if (moves_data(row.op)) {
    process.standing.ended_ns = std::max(process.standing.ended_ns, utc(end_ns));
  }
  sink_.accept(std::move(row));
}

/// The call that made a request; a later call may have got the same handle.
std::vector<EventId> CollectiveTracker::begun_as(const ProcessState& process, uint64_t request) {
  std::vector<EventId> events;
  for (const auto& [event, live] : process.live) {
    if (live.launched && live.request == request && request != 0) {
      events.assign(1, event);
    }
  }
  return events;
}

void CollectiveTracker::on_sync(const st_sync& record) {
  if (record.return_code != 0) {
    return;
  }
  ProcessState& process = state_of(record.header);
  const auto launched_on = [&](uint64_t stream, bool any_stream) {
    std::vector<EventId> events;
    for (const auto& [event, live] : process.live) {
      if (live.launched && live.launched_ns <= static_cast<int64_t>(record.entry_ns) &&
          (any_stream || live.streams.contains(stream))) {
        events.push_back(event);
      }
    }
    return events;
  };
  switch (record.kind) {
    case ST_CALL_EVENT_RECORD:
      process.events[record.event] = launched_on(record.stream, false);
      break;
    case ST_CALL_STREAM_WAIT_EVENT:
      if (const auto found = process.events.find(record.event); found != process.events.end()) {
        for (const EventId event : found->second) {
          if (const auto live = process.live.find(event); live != process.live.end()) {
            live->second.streams.insert(record.stream);
          }
        }
      }
      break;
    case ST_CALL_SYNC_EVENT:
      if (const auto found = process.events.find(record.event); found != process.events.end()) {
        complete(process, found->second, record);
        process.events.erase(found);
      }
      break;
    case ST_CALL_WAIT_REQUEST:
    case ST_CALL_WAIT_ALL_REQUESTS:
    case ST_CALL_WAIT_ANY_REQUEST:
    case ST_CALL_WAIT_SOME_REQUESTS:
      complete(process, begun_as(process, record.event), record);
      break;
    case ST_CALL_SYNC_STREAM:
      complete(process, launched_on(record.stream, false), record);
      break;
    case ST_CALL_SYNC_DEVICE:
      complete(process, launched_on(0, true), record);
      break;
    default:
      break;
  }
}

void CollectiveTracker::complete(ProcessState& process, const std::vector<EventId>& events, const st_sync& record) {
  for (const EventId event : events) {
    const auto found = process.live.find(event);
    if (found == process.live.end()) {
      continue;
    }
    process.synchronises = true;
    const Live& live = found->second;
    // The synchronisation's return is the end if it waited for the transfer. If it began after the last byte or lasted
    // long after it, the last byte is the better estimate.
    const auto last_byte = static_cast<int64_t>(record.last_net_ns);
    const bool moved_bytes = record.net_bytes > live.net_bytes && last_byte > live.launched_ns;
    const bool byte_is_truer = last_byte < static_cast<int64_t>(record.entry_ns) ||
                               static_cast<int64_t>(record.header.time_ns) - last_byte > kOtherGpuWorkNs;
    if (moved_bytes && byte_is_truer) {
      finish(process, event, Completion::kNetwork, record.last_net_ns);
    } else {
      finish(process, event, Completion::kSync, record.header.time_ns);
    }
  }
}

void CollectiveTracker::complete_by_network(ProcessState& process, const st_call_entry& record) {
  if (record.header.time_ns - record.last_net_ns < kSilenceNs) {
    return;
  }
  // Silence alone proves nothing, since a retransmission timeout is silent too: at least as many bytes as the launched
  // calls need must have moved.
  int64_t needed = 0;
  std::vector<EventId> ended;
  for (const auto& [event, live] : process.live) {
    if (!live.launched) {
      continue;
    }
    if (static_cast<int64_t>(record.last_net_ns) <= live.launched_ns) {
      break;  // nothing moved since this launch, nor since the later ones
    }
    needed += live.row.bytes;
    if (record.net_bytes - live.net_bytes >= static_cast<uint64_t>(needed)) {
      ended.push_back(event);
    }
  }
  for (const EventId event : ended) {
    finish(process, event, Completion::kNetwork, record.last_net_ns);
  }
}

}  // namespace stalltrace::capture
