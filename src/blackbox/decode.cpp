// SPDX-License-Identifier: Apache-2.0
#include "blackbox/decode.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/clock.h"

namespace stalltrace::blackbox {
namespace {

constexpr uint64_t kLatestTime = 1ULL << 61;  // 73 years
constexpr int32_t kMostRanks = 1 << 24;
constexpr int64_t kMostSequence = 1LL << 40;
constexpr uint64_t kMostCount = 1ULL << 50;

/// A living process without a pulse for this long is stopped, and not only late: nobody can ask it what it waits for.
constexpr uint64_t kNoPulseNs = 2 * ST_BOX_PAUSE_NS;

constexpr std::array<const char*, 9> kLossNames{"box:no_slot",       "box:lapped",         "box:no_communicator",
                                                "box:stale_handle",  "box:foreign_handle", "box:unknown_type",
                                                "box:unknown_state", "box:late_part",      "box:evicted"};

struct OperationRow {
  Operation operation;
  bool rooted;
};

std::optional<OperationRow> operation_of(uint8_t operation) {
  switch (operation) {
    case ST_BOX_OP_ALL_REDUCE:
      return OperationRow{Operation::kAllReduce, false};
    case ST_BOX_OP_ALL_GATHER:
      return OperationRow{Operation::kAllGather, false};
    case ST_BOX_OP_REDUCE_SCATTER:
      return OperationRow{Operation::kReduceScatter, false};
    case ST_BOX_OP_BROADCAST:
      return OperationRow{Operation::kBroadcast, true};
    case ST_BOX_OP_REDUCE:
      return OperationRow{Operation::kReduce, true};
    case ST_BOX_OP_ALL_TO_ALL:
      return OperationRow{Operation::kAllToAll, false};
    case ST_BOX_OP_GATHER:
      return OperationRow{Operation::kGather, true};
    case ST_BOX_OP_SCATTER:
      return OperationRow{Operation::kScatter, true};
    case ST_BOX_OP_SEND:
      return OperationRow{Operation::kSend, false};
    case ST_BOX_OP_RECV:
      return OperationRow{Operation::kRecv, false};
    default:
      return std::nullopt;
  }
}

std::optional<int32_t> rank_of(int32_t rank) {
  return rank >= 0 && rank < kMostRanks ? std::optional(rank) : std::nullopt;
}

/// The caller's own words are in the API call; NCCL's task counts bytes for these two.
bool counts_bytes(Operation op) { return op == Operation::kAllGather || op == Operation::kBroadcast; }

struct Size {
  std::optional<int64_t> count;
  std::optional<int32_t> datatype;
};

Size size_of(uint64_t count, uint8_t datatype) {
  Size size;
  if (count < kMostCount) {
    size.count = static_cast<int64_t>(count);
  }
  if (datatype < kNcclDatatypeCount) {
    size.datatype = datatype;
  }
  return size;
}

void describe_size(const st_box_event& event, const EventTable::Entry* api, Collective& row) {
  const Size task = size_of(event.u.coll.count, event.u.coll.datatype);
  const int task_bytes = task.datatype ? nccl_datatype_size(*task.datatype) : 0;
  row.bytes = payload_bytes(row.op, task.count.value_or(0), task_bytes, row.nranks.value_or(0));
  if (api != nullptr) {
    const Size called = size_of(api->event.u.api.count, api->event.u.api.datatype);
    row.count = called.count;
    row.datatype = called.datatype;
    row.stream = api->event.u.api.stream;
    const int called_bytes = called.datatype ? nccl_datatype_size(*called.datatype) : 0;
    const int64_t bytes = payload_bytes(row.op, called.count.value_or(0), called_bytes, row.nranks.value_or(0));
    row.bytes = bytes != 0 ? bytes : row.bytes;
  } else if (!counts_bytes(row.op)) {
    row.count = task.count;
    row.datatype = task.datatype;
  }
}

/// When the rank entered a collective with this API call: then, or when it ended the group that launches it. NCCL
/// starts the collective's own event after the launch. One of a CUDA graph was called when that was captured, which
/// says nothing.
uint64_t arrival_of(const st_box_event& event, const st_box_event& api, const EventTable& table) {
  const EventTable::Entry* group = table.find(api.parent);
  if ((api.flags & ST_BOX_GRAPH_CAPTURED) != 0 || api.start_ns == 0 || api.start_ns > event.start_ns ||
      (api.parent != 0 && (group == nullptr || group->event.type != ST_BOX_GROUP_API))) {
    return event.start_ns;
  }
  const uint64_t launch_ns = group == nullptr ? 0 : group->event.u.api.end_entered_ns;
  return launch_ns > event.start_ns ? event.start_ns : std::max(api.start_ns, launch_ns);
}

}  // namespace

std::optional<int64_t> clock_offset_of(const st_box_header& header) {
  const st_box_clock_anchor* newest = nullptr;
  for (const st_box_clock_anchor& anchor : header.anchors) {
    const bool sane = anchor.monotonic_ns != 0 && anchor.monotonic_ns < kLatestTime &&
                      anchor.realtime_ns >= anchor.monotonic_ns && anchor.realtime_ns < 2 * kLatestTime;
    if (sane && (newest == nullptr || anchor.monotonic_ns > newest->monotonic_ns)) {
      newest = &anchor;
    }
  }
  return newest == nullptr ? std::nullopt
                           : std::optional(static_cast<int64_t>(newest->realtime_ns - newest->monotonic_ns));
}

std::optional<int64_t> to_utc(uint64_t monotonic_ns, int64_t clock_offset_ns) {
  return monotonic_ns == 0 || monotonic_ns >= kLatestTime
             ? std::nullopt
             : std::optional(static_cast<int64_t>(monotonic_ns) + clock_offset_ns);
}

void EventTable::add(const Contents& contents) {
  for (const st_box_event& event : contents.ended) {
    entries_[event.id] = {event, false};
  }
  for (const st_box_event& event : contents.open) {
    entries_[event.id] = {event, true};
  }
}

const EventTable::Entry* EventTable::find(uint64_t id) const {
  const auto found = id == 0 ? entries_.end() : entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second;
}

uint64_t EventTable::last_sign_of_life(uint64_t now_ns) const {
  uint64_t last = 0;
  const auto hear = [&](uint64_t time_ns) { last = time_ns <= now_ns ? std::max(last, time_ns) : last; };
  for (const auto& [id, entry] : entries_) {
    hear(entry.event.start_ns);
    hear(entry.event.end_ns);
    if (entry.event.type == ST_BOX_PROXY_STEP) {
      hear(entry.event.u.proxy_step.state_since_ns);
    }
  }
  return last;
}

Process decode_process(const st_box_header& header, const Owner& owner) {
  Process row;
  row.node_id = owner.node_id;
  row.pid = owner.pid;
  const uint64_t created_ns = header.created_ns < kLatestTime ? header.created_ns : 0;
  const uint64_t start_ns = header.ticks_per_second > 0 && header.process_start_ticks < kLatestTime / kNsPerSecond
                                ? header.process_start_ticks * kNsPerSecond / header.ticks_per_second
                                : created_ns;
  row.start_ns = to_utc(std::min(start_ns, created_ns), owner.clock_offset_ns).value_or(owner.clock_offset_ns);
  row.cmdline = text_of(header.command);
  row.exe = row.cmdline.substr(0, row.cmdline.find(' '));
  row.rank = rank_of(header.env_rank);
  row.rank_source = row.rank ? RankSource::kEnvironment : RankSource::kUnknown;
  row.local_rank = rank_of(header.env_local_rank);
  if (header.env_world_size > 0) {
    row.world_size = rank_of(header.env_world_size);
  }
  row.job_id = text_of(header.job_id);
  row.netns = header.network_namespace;
  return row;
}

std::optional<Communicator> decode_communicator(const st_box_communicator& entry, const Owner& owner) {
  const auto created_ns = to_utc(entry.created_ns, owner.clock_offset_ns);
  if (!created_ns) {
    return std::nullopt;
  }
  Communicator row;
  row.node_id = owner.node_id;
  row.pid = owner.pid;
  row.comm_ptr = entry.serial;
  row.comm_id_hash = entry.hash;  // NCCL's own hash names it where its id was not seen
  row.nccl_comm_hash = entry.hash;
  row.rank = rank_of(entry.rank);
  row.rank_source = row.rank ? RankSource::kPlugin : RankSource::kUnknown;
  row.nranks = entry.ranks > 0 ? rank_of(entry.ranks) : std::nullopt;
  row.created_ns = *created_ns;
  row.destroyed_ns = to_utc(entry.destroyed_ns, owner.clock_offset_ns);
  return row;
}

std::optional<Collective> decode_collective(const EventTable::Entry& entry, const EventTable& table,
                                            const st_box_communicator* communicator, const Owner& owner) {
  const st_box_event& event = entry.event;
  const st_box_coll& coll = event.u.coll;
  const auto operation = operation_of(coll.operation);
  const EventTable::Entry* parent = table.find(event.parent);
  const bool is_api =
      parent != nullptr && (parent->event.type == ST_BOX_COLL_API || parent->event.type == ST_BOX_P2P_API);
  const uint64_t arrival_ns = is_api ? arrival_of(event, parent->event, table) : event.start_ns;
  const auto start_ns = to_utc(arrival_ns, owner.clock_offset_ns);
  if ((event.type != ST_BOX_COLL && event.type != ST_BOX_P2P) || !operation || !start_ns) {
    return std::nullopt;
  }
  Collective row;
  row.node_id = owner.node_id;
  row.pid = owner.pid;
  row.tid = static_cast<int32_t>(event.tid & std::numeric_limits<int32_t>::max());
  row.op = operation->operation;
  row.timestamp_ns = *start_ns;
  row.called_ns = *start_ns;
  if (communicator != nullptr) {
    row.comm_ptr = communicator->serial;
    row.comm_id_hash = communicator->hash;
    row.rank = rank_of(communicator->rank);
    row.nranks = communicator->ranks > 0 ? rank_of(communicator->ranks) : std::nullopt;
  } else {
    row.rank = rank_of(event.rank);
  }
  row.rank_source = row.rank ? RankSource::kPlugin : RankSource::kUnknown;
  if (event.type == ST_BOX_P2P) {
    row.peer = rank_of(coll.root_or_peer);
  } else if (operation->rooted) {
    row.root = rank_of(coll.root_or_peer);
  }
  describe_size(event, is_api ? parent : nullptr, row);
  if (is_api) {
    const int64_t called_ns = to_utc(parent->event.start_ns, owner.clock_offset_ns).value_or(*start_ns);
    row.called_ns = std::min(called_ns, *start_ns);
  }
  const uint64_t number = event.type == ST_BOX_P2P ? coll.sequence : coll.call_number;
  if (number <= static_cast<uint64_t>(kMostSequence)) {
    row.seq = static_cast<int64_t>(number);
  }
  if (coll.enqueued_ns >= event.start_ns && coll.enqueued_ns < kLatestTime) {
    row.launch_ns = static_cast<int64_t>(coll.enqueued_ns - arrival_ns);
  }
  const bool ended = !entry.open && (event.flags & ST_BOX_UNFINISHED) == 0 && event.end_ns >= event.start_ns;
  if (ended && event.end_ns < kLatestTime) {
    row.duration_ns = static_cast<int64_t>(event.end_ns - arrival_ns);
    row.completion = Completion::kProfiler;
  }
  return row;
}

std::optional<BoxCall> decode_call(const EventTable::Entry& entry, const EventTable& table,
                                   const st_box_communicator* communicator, const Owner& owner) {
  auto row = decode_collective(entry, table, communicator, owner);
  if (!row) {
    return std::nullopt;
  }
  const EventTable::Entry* api = table.find(entry.event.parent);
  const bool is_api = api != nullptr && (api->event.type == ST_BOX_COLL_API || api->event.type == ST_BOX_P2P_API);
  return BoxCall{std::move(*row), entry.event.id, is_api ? api->event.parent : 0};
}

void number_in_call_order(std::vector<BoxCall>& calls) {
  std::map<std::pair<uint64_t, uint64_t>, std::vector<BoxCall*>> groups;  // by communicator and group
  for (BoxCall& call : calls) {
    if (call.group != 0 && call.row.seq && is_collective(call.row.op)) {
      groups[{call.row.comm_ptr, call.group}].push_back(&call);
    }
  }
  for (auto& [key, members] : groups) {
    std::vector<int64_t> numbers;
    for (const BoxCall* call : members) {
      numbers.push_back(*call->row.seq);
    }
    std::ranges::sort(numbers);
    std::ranges::stable_sort(members, {}, [](const BoxCall* call) { return call->row.called_ns; });
    for (size_t i = 0; i < members.size(); ++i) {
      members[i]->row.seq = numbers[i];
    }
  }
}

uint64_t last_beat(const st_box_header& header, uint64_t now_ns) {
  return header.pulse_ns >= header.created_ns && header.pulse_ns <= now_ns ? header.pulse_ns : 0;
}

std::vector<WaitSpan> decode_pauses(const Contents& contents, const Owner& owner, uint64_t now_ns) {
  std::vector<WaitSpan> spans;
  const st_box_header& header = contents.header;
  const auto add = [&](WaitKind kind, uint64_t from_ns, uint64_t to_ns, uint64_t waited_ns, bool open) {
    const auto since_ns = to_utc(from_ns, owner.clock_offset_ns);
    if (!since_ns || from_ns < header.created_ns || to_ns > now_ns || to_ns <= from_ns) {
      return;
    }
    WaitSpan span{.node_id = owner.node_id, .timestamp_ns = *since_ns, .open = open, .kind = kind, .pid = owner.pid};
    span.tid = owner.pid;  // of all threads alike
    span.window_ns = static_cast<int64_t>(to_ns - from_ns);
    span.waited_ns = static_cast<int64_t>(waited_ns);
    spans.push_back(std::move(span));
  };
  for (const st_box_pause& pause : header.pauses) {
    const uint64_t length_ns = pause.to_ns - pause.from_ns;
    if (pause.from_ns == 0 || pause.to_ns <= pause.from_ns || pause.runnable_ns > length_ns) {
      continue;  // none, half written, or of a kernel that keeps no account
    }
    const bool kept_from_cpu = pause.runnable_ns >= length_ns / 2;
    add(kept_from_cpu ? WaitKind::kRunnable : WaitKind::kStopped, pause.from_ns, pause.to_ns,
        kept_from_cpu ? pause.runnable_ns : length_ns - pause.runnable_ns, false);
  }
  const uint64_t beat_ns = last_beat(header, now_ns);
  const uint64_t due_ns = beat_ns + ST_BOX_BEAT_NS;
  if (contents.has_writer && beat_ns != 0 && header.pulse_ended_ns == 0 && now_ns > due_ns + kNoPulseNs) {
    add(WaitKind::kStopped, due_ns, now_ns, now_ns - due_ns, true);
  }
  std::ranges::sort(spans, {}, &WaitSpan::timestamp_ns);
  return spans;
}

std::vector<Loss> decode_losses(const Contents& contents, NodeId node) {
  std::vector<Loss> losses;
  const auto add = [&](const char* source, uint64_t count) {
    if (count > 0) {
      losses.push_back({node, source, std::min<uint64_t>(count, std::numeric_limits<int64_t>::max())});
    }
  };
  for (size_t reason = 0; reason < kLossNames.size(); ++reason) {
    add(kLossNames[reason], contents.header.lost[reason]);
  }
  add("box:overwritten", contents.overwritten);
  add("box:torn", contents.torn);
  return losses;
}

}  // namespace stalltrace::blackbox
