// SPDX-License-Identifier: Apache-2.0
// When an asynchronous call completed: at the synchronisation that followed it, at the wait for its request, or at the
// last byte on the rank's sockets. One that was captured into a CUDA graph did not run.
#include <algorithm>

#include "base/clock.h"
#include "capture/call_table.h"
#include "capture/decode/collective/collective_tracker.h"

namespace stalltrace::capture {
namespace {

/// A synchronisation that returned this long after the last byte waited for other work after the transfer.
constexpr int64_t kOtherGpuWorkNs = 2 * kNsPerMs;
/// A silence before the next call that ends a transfer in a job whose synchronisation is never seen.
constexpr uint64_t kSilenceNs = 1 * kNsPerMs;

constexpr size_t kMostStreams = 64;  // that complete one call

// Handles that are no pointers (cuda.h, hip_runtime_api.h).
constexpr uint64_t kDefaultStream = 0;
constexpr uint64_t kPerThreadStream = 2;
constexpr uint64_t kStreamOfThread = uint64_t{1} << 63;  // no pointer has this bit

// With these errors the end of a capture is refused, and the capture goes on (CUDA's and HIP's numbers are equal).
constexpr int32_t kCaptureUnmatched = 903;
constexpr int32_t kCaptureWrongThread = 908;

/// A function for which handle 0 is the calling thread's own stream.
bool is_per_thread(uint16_t row) {
  const auto table = call_table();
  return row < table.size() && (table[row].symbol.ends_with("_ptsz") || table[row].symbol.ends_with("_spt"));
}

}  // namespace

uint64_t CollectiveTracker::stream_of(uint64_t handle, uint32_t tid, uint16_t row) {
  const bool own = handle == kPerThreadStream || (handle == kDefaultStream && is_per_thread(row));
  return own ? kStreamOfThread | tid : handle;
}

void CollectiveTracker::finish(ProcessState& process, EventId event, Completion completion, uint64_t end_ns) {
  if (!process.open.contains(event)) {
    return;
  }
  Collective row = take_open(process, event).row;
  row.completion = completion;
  row.duration_ns = std::max<int64_t>(utc(end_ns) - row.timestamp_ns, 0);
  if (moves_data(row.op)) {
    process.standing.ended_ns = std::max(process.standing.ended_ns, utc(end_ns));
  }
  sink_.accept(std::move(row));
}

void CollectiveTracker::launched(ProcessState& process, OpenCall& call, uint64_t at_ns, uint64_t request) {
  if (call.in_capture == InCapture::kNo) {
    process.open.launch(call, static_cast<int64_t>(at_ns), request);
    return;
  }
  call.row.completion = call.in_capture == InCapture::kYes ? Completion::kCaptured : Completion::kUnobserved;
  ++process.graphs.captured;
  process.graphs_delivered = false;
  process.standing.ended_ns = std::max(process.standing.ended_ns, utc(at_ns));
  sink_.accept(take_open(process, call.row.event_id).row);
}

void CollectiveTracker::note_graph_launches(ProcessState& process, const st_sync& record, uint64_t stream) {
  if (process.captures.of(stream) != CapturedStreams::kNone) {
    return;  // it becomes a part of another graph
  }
  process.graphs.launches += static_cast<int64_t>(record.event);
  process.graphs.first_launch_ns = process.graphs.first_launch_ns.value_or(utc(record.entry_ns));
  process.graphs.last_launch_ns = utc(record.entry_ns);
  process.graphs_delivered = false;
}

void CollectiveTracker::forget_event(ProcessState& process, uint64_t gpu_event) {
  if (process.events.erase(gpu_event) != 0) {
    shares_.give_back(process.pid, UserShares::Kind::kGpuEvent, 1);
  }
}

/// Where the process has noted too many, this event completes no call: a later synchronisation does.
void CollectiveTracker::note_event(ProcessState& process, uint64_t gpu_event, StreamPoint recorded) {
  forget_event(process, gpu_event);
  if (shares_.take(process.pid, UserShares::Kind::kGpuEvent, 0, 1)) {
    process.events.emplace(gpu_event, recorded);
  }
}

/// The calls without an end that the stream had before this point. A list kept with each event would grow with the
/// square of the calls that nothing waits for.
std::vector<EventId> CollectiveTracker::launched_before(const ProcessState& process, StreamPoint point) {
  std::vector<EventId> calls;
  for (const auto& [event, live] : process.open.launched()) {
    const auto since_ns = live->streams.find(point.stream);
    if (live->launched_ns <= static_cast<int64_t>(point.time_ns) && since_ns != live->streams.end() &&
        since_ns->second <= point.time_ns) {
      calls.push_back(event);
    }
  }
  return calls;
}

std::vector<EventId> CollectiveTracker::launched_on_any_stream(const ProcessState& process, uint64_t before_ns) {
  std::vector<EventId> calls;
  for (const auto& [event, live] : process.open.launched()) {
    if (live->launched_ns <= static_cast<int64_t>(before_ns)) {
      calls.push_back(event);
    }
  }
  return calls;
}

/// It ends also where it failed: what was captured is lost, but did not run. Of what its thread launched in the
/// meantime and was taken for calls that run, some may have been captured: the record of the begin, or of an event by
/// which a stream joined, may be lost, or be older than the tracing. Nothing will report an end of those.
void CollectiveTracker::end_capture(ProcessState& process, const st_sync& record, uint64_t stream) {
  if (record.return_code == kCaptureUnmatched || record.return_code == kCaptureWrongThread) {
    return;
  }
  const CapturedStreams::Id capture = process.captures.of(stream);
  const int64_t begun_ns = utc(process.captures.begun_ns(capture));
  process.captures.end(capture);
  if (record.return_code != 0) {
    return;
  }
  std::vector<EventId> uncertain;
  for (const auto& [event, live] : process.open.launched()) {
    if (live->row.tid == static_cast<int32_t>(record.header.tid) && live->row.called_ns >= begun_ns &&
        (live->row.library == Library::kNccl || live->row.library == Library::kRccl)) {
      uncertain.push_back(event);
    }
  }
  for (const EventId event : uncertain) {
    Collective row = take_open(process, event).row;
    row.completion = Completion::kUnobserved;
    ++process.graphs.captured;
    process.graphs_delivered = false;
    sink_.accept(std::move(row));
  }
}

void CollectiveTracker::wait_event(ProcessState& process, const st_sync& record, uint64_t stream) {
  const auto found = process.events.find(record.event);
  if (found == process.events.end()) {
    return;
  }
  if (process.captures.is_open(found->second.capture)) {
    process.captures.join(stream, found->second.capture);
    return;
  }
  process.captures.take_out(stream);  // in a capture the runtime refuses to wait for an event from outside of it
  for (const EventId event : launched_before(process, found->second)) {
    OpenCall& live = *process.open.find(event);
    if (live.streams.size() < kMostStreams) {
      live.streams.try_emplace(stream, record.header.time_ns);
    }
  }
}

void CollectiveTracker::on_sync(const st_sync& record) {
  ProcessState& process = state_of(record.header);
  const uint64_t stream = stream_of(record.stream, record.header.tid, record.row);
  if (record.kind == ST_CALL_END_CAPTURE) {
    end_capture(process, record, stream);
    return;
  }
  if (record.return_code != 0) {
    return;
  }
  switch (record.kind) {
    case ST_CALL_BEGIN_CAPTURE:
      process.captures.begin(stream, record.header.time_ns);
      break;
    case ST_CALL_GRAPH_LAUNCH:
      note_graph_launches(process, record, stream);
      break;
    case ST_CALL_EVENT_RECORD:
      note_event(process, record.event, {stream, record.entry_ns, process.captures.of(stream)});
      break;
    case ST_CALL_STREAM_WAIT_EVENT:
      wait_event(process, record, stream);
      break;
    case ST_CALL_SYNC_EVENT:
      if (const auto found = process.events.find(record.event); found != process.events.end()) {
        process.captures.end_if_before(found->second.capture, record.entry_ns);
        complete(process, launched_before(process, found->second), record);
        forget_event(process, record.event);
      }
      break;
    case ST_CALL_WAIT_REQUEST:
    case ST_CALL_WAIT_ALL_REQUESTS:
    case ST_CALL_WAIT_ANY_REQUEST:
    case ST_CALL_WAIT_SOME_REQUESTS:
      if (const EventId event = process.open.begun_as(record.event)) {
        complete(process, {event}, record);
      }
      break;
    case ST_CALL_SYNC_STREAM:
      process.captures.end_if_before(process.captures.of(stream), record.entry_ns);
      complete(process, launched_before(process, {stream, record.entry_ns}), record);
      break;
    case ST_CALL_SYNC_DEVICE:
      process.captures.end_all_before(record.entry_ns);
      complete(process, launched_on_any_stream(process, record.entry_ns), record);
      break;
    default:
      break;
  }
}

void CollectiveTracker::complete(ProcessState& process, const std::vector<EventId>& events, const st_sync& record) {
  for (const EventId event : events) {
    const OpenCall* found = process.open.find(event);
    if (found == nullptr) {
      continue;
    }
    process.synchronises = true;
    const OpenCall& live = *found;
    // The synchronisation's return is the end if it waited for the transfer. If it began after the last byte or lasted
    // long after it, the last byte is the better estimate, but only of a transfer that is known to be on sockets alone:
    // a rank may wait for a neighbour on its own node when its last byte has left, and other traffic of the process
    // (a data loader, a store) ends when it likes.
    const auto last_byte = static_cast<int64_t>(record.last_net_ns);
    const uint64_t needed = std::max<int64_t>(live.row.bytes, 1);
    const bool moved_bytes = record.net_bytes >= live.net_bytes + needed && last_byte > live.launched_ns;
    const bool byte_is_truer = last_byte < static_cast<int64_t>(record.entry_ns) ||
                               static_cast<int64_t>(record.header.time_ns) - last_byte > kOtherGpuWorkNs;
    if (moved_bytes && byte_is_truer && !has_peer_on_node(process, live.row)) {
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
  for (const auto& [event, live] : process.open.launched()) {
    if (static_cast<int64_t>(record.last_net_ns) <= live->launched_ns) {
      break;  // nothing moved since this launch, nor since the later ones
    }
    if (has_peer_on_node(process, live->row)) {
      break;  // it may wait for a neighbour; and how many bytes the later ones need beside it is not known
    }
    needed += live->row.bytes;
    if (record.net_bytes - live->net_bytes >= static_cast<uint64_t>(needed)) {
      ended.push_back(event);
    }
  }
  for (const EventId event : ended) {
    finish(process, event, Completion::kNetwork, record.last_net_ns);
  }
}

}  // namespace stalltrace::capture
