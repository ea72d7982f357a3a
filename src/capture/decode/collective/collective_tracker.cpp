// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/collective/collective_tracker.h"

#include <algorithm>

#include "capture/call_table.h"
#include "capture/decode/collective/argument.h"

namespace stalltrace::capture {
namespace {

constexpr int32_t kNcclSplitNoColor = -1;

constexpr size_t kMostInFlight = 16'384;  // threads that are in a call
constexpr size_t kRecentTags = 64;        // number of recent tags that are searched

/// stacks::kCountedOperations.
bool is_counted_by_nccl(Operation op) {
  return op == Operation::kBroadcast || op == Operation::kReduce || op == Operation::kAllGather ||
         op == Operation::kReduceScatter || op == Operation::kAllReduce;
}

bool accepted(const st_call_return& record) {
  return !call_failed(static_cast<Library>(call_table()[record.row].spec.library), record.return_code);
}

}  // namespace

CollectiveTracker::CollectiveTracker(EventIds& ids, ProcessRegistry& processes, UserShares& shares, EventSink& sink,
                                     int64_t utc_offset_ns)
    : ids_(ids), processes_(processes), shares_(shares), sink_(sink), utc_offset_ns_(utc_offset_ns) {}

CollectiveTracker::ProcessState& CollectiveTracker::state_of(const st_header& header) {
  ProcessState& process = states_[static_cast<int32_t>(header.tgid)];
  process.pid = static_cast<int32_t>(header.tgid);
  return process;
}

void CollectiveTracker::set_library(int32_t pid, Library library) { states_[pid].library = library; }

void CollectiveTracker::set_job(int32_t pid, JobIdentity job) { states_[pid].job = job; }

Collective CollectiveTracker::make_row(ProcessState& process, const st_header& header, uint16_t table_row) {
  const st_call_spec& spec = call_table()[table_row].spec;
  Collective row;
  row.event_id = ids_.next();
  row.node_id = ids_.node();
  const auto library = static_cast<Library>(spec.library);
  row.library = library == Library::kNccl ? process.library : library;
  row.op = static_cast<Operation>(spec.operation);
  row.timestamp_ns = utc(header.time_ns);
  row.called_ns = row.timestamp_ns;
  row.pid = static_cast<int32_t>(header.tgid);
  row.tid = static_cast<int32_t>(header.tid);
  ++calls_;
  return row;
}

bool CollectiveTracker::describe_data(ProcessState& process, const st_call_entry& record, Collective& row) {
  const st_call_spec& spec = call_table()[record.row].spec;
  Comm* known = comm_of(process, record.header, record.comm);
  if (known == nullptr) {
    return false;
  }
  Comm& comm = *known;
  if (!comm.row.comm_id_hash && comm.row.rank_source != RankSource::kInit && record.comm_rank >= 0) {
    comm.row.rank = record.comm_rank;
    comm.row.rank_source = RankSource::kInit;
    comm.row.nranks = number_of_ranks(record.comm_size);
    sink_.accept(comm.row);
  }
  row.rank = comm.row.rank;
  row.rank_source = comm.row.rank_source;
  row.nranks = comm.row.nranks;
  row.comm_id_hash = comm.row.comm_id_hash;
  if (spec.count || ((spec.option_count || spec.option_buffer) && record.element_bytes)) {
    row.count = number_of_elements(record.count);
  }
  row.datatype = unless_negative(record.datatype);
  row.reduce_op = unless_negative(record.reduce_op);
  row.root = unless_negative(record.root);
  row.peer = unless_negative(record.peer);
  const int element_bytes = row.datatype ? nccl_datatype_size(*row.datatype) : static_cast<int>(record.element_bytes);
  if (spec.options && row.op == Operation::kAllToAll && row.count && row.nranks.value_or(0) > 0) {
    row.count = *row.count / *row.nranks;  // the buffer holds all ranks' parts
  }
  row.bytes = payload_bytes(row.op, row.count.value_or(0), element_bytes, row.nranks.value_or(0));
  if (!comm.row.comm_id_hash && !row.peer &&
      (!is_counted_by_nccl(row.op) || row.count == 0)) {  // NCCL drops empty ones
    note_uncounted(comm);
  }
  uint64_t number = number_of_call(comm, record);
  if (row.peer) {
    // The kernel numbers calls by address; a new communicator at the same address starts at 0 again.
    const uint64_t peer = static_cast<uint64_t>(row.op) << 32 | static_cast<uint32_t>(*row.peer);
    auto base = comm.peer_base.find(peer);
    if (base == comm.peer_base.end()) {
      if (!shares_.take(process.pid, UserShares::Kind::kPeer)) {
        return false;
      }
      base = comm.peer_base.emplace(peer, number).first;
    }
    base->second = std::min(base->second, number);  // it does too where the record of the new one was lost
    number -= base->second;
  }
  row.seq = static_cast<int64_t>(number);
  return true;
}

bool CollectiveTracker::describe_end(ProcessState& process, const st_call_entry& record, Collective& row) {
  const bool world = call_table()[record.row].spec.kind == ST_CALL_WORLD_END;
  row.comm_ptr = world ? process.job.mpi_world : record.comm;
  if (row.comm_ptr == 0) {
    return true;
  }
  const Comm* comm = comm_of(process, record.header, row.comm_ptr);
  if (comm == nullptr) {
    return false;
  }
  row.rank = comm->row.rank;
  row.rank_source = comm->row.rank_source;
  row.nranks = comm->row.nranks;
  row.comm_id_hash = comm->row.comm_id_hash;
  if (row.op == Operation::kCommAbort) {
    leave_open(process, record.comm);
  }
  return true;
}

/// One that finds no room is not launched with its group.
void CollectiveTracker::note_member(ProcessState& process, uint32_t tid, EventId event) {
  if (process.grouped < OpenCalls::kMostNotLaunched) {
    ++process.grouped;
    process.group_members[tid].push_back(event);
  }
}

void CollectiveTracker::note_in_flight(ProcessState& process, uint32_t tid, InFlight call) {
  if (process.in_flight.size() >= kMostInFlight && !process.in_flight.contains(tid)) {
    process.in_flight.erase(process.in_flight.begin());  // of a thread that never came back
  }
  process.in_flight[tid] = std::move(call);
}

/// False where the process's user has too many, and this process none that could be given up for it.
bool CollectiveTracker::add_open(ProcessState& process, OpenCall call) {
  const bool has_room = shares_.has_room(process.pid, UserShares::Kind::kCall);
  if (!has_room && process.open.oldest() == 0) {
    shares_.lose(process.pid, UserShares::Kind::kCall);
    return false;
  }
  if (!has_room || process.open.too_many()) {
    if (!process.open.find(process.open.oldest())->launched) {
      shares_.lose(process.pid, UserShares::Kind::kCall);  // of a launched one only the end is unknown
    }
    give_up_oldest(process);
  }
  (void)shares_.take(process.pid, UserShares::Kind::kCall);
  process.open.add(std::move(call));
  return true;
}

OpenCall CollectiveTracker::take_open(ProcessState& process, EventId event) {
  shares_.give_back(process.pid, UserShares::Kind::kCall);
  return process.open.take(event);
}

/// A tag that all ranks give a call is better than a count, which starts when tracing does. It is used only where every
/// call has its own tag: a program may leave it at one value.
uint64_t CollectiveTracker::number_of_call(Comm& comm, const st_call_entry& record) {
  if (!(record.flags & ST_CALL_HAS_TAG) || comm.tags_repeat) {
    return record.sequence;
  }
  comm.tags_repeat = !comm.recent_tags.insert(record.tag).second;
  if (comm.recent_tags.size() > kRecentTags) {
    comm.recent_tags.erase(comm.recent_tags.begin());
  }
  return comm.tags_repeat ? record.sequence : record.tag;
}

/// Starts what `standing` holds of a call that moves data, at its entry.
void CollectiveTracker::note_entry(ProcessState& process, const Collective& row) {
  constexpr int64_t kSmoothing = 16;  // calls
  CallStanding& standing = process.standing;
  if (process.newest != 0) {
    standing.usual_gap_ns += (row.timestamp_ns - standing.entered_ns - standing.usual_gap_ns) / kSmoothing;
  }
  standing.pid = row.pid;
  standing.tid = row.tid;
  standing.entered_ns = std::max(standing.entered_ns, row.timestamp_ns);
  standing.waits_by_design = is_point_to_point(row.op);
  standing.communicator = row.seq ? row.comm_id_hash : 0;
  standing.seq = row.seq.value_or(0);
  process.newest = row.event_id;
}

std::vector<CallStanding> CollectiveTracker::standings() const {
  std::vector<CallStanding> all;
  for (const auto& [pid, process] : states_) {
    if (process.newest != 0) {
      all.push_back(process.standing);
      all.back().inside = process.open.contains(process.newest);
      all.back().launched = !all.back().inside || process.open.launched().contains(process.newest);
    }
  }
  return all;
}

void CollectiveTracker::on_entry(const st_call_entry& record, int64_t stack_id) {
  if (record.row >= call_table().size()) {
    return;
  }
  const st_call_spec& spec = call_table()[record.row].spec;
  ProcessState& process = state_of(record.header);
  if (!process.synchronises) {
    complete_by_network(process, record);
  }
  give_up_lost_return(process, record.header);
  process.in_flight.erase(record.header.tid);
  OpenCall live;
  live.row = make_row(process, record.header, record.row);
  live.row.comm_ptr = record.comm;
  live.row.stream = record.stream;
  live.row.cgroup_id = record.cgroup_id;
  live.row.group_id = record.group_id;
  live.row.stack_id = stack_id;
  live.net_bytes = record.net_bytes;
  const uint64_t stream = stream_of(record.stream, record.header.tid, record.row);
  live.streams.emplace(stream, 0);
  switch (spec.kind) {
    case ST_CALL_DATA:
      end_set_up(process, record.comm, Completion::kNetwork, record.last_net_ns);
      if (!describe_data(process, record, live.row)) {
        return;
      }
      if (const auto capture = spec.stream != 0 ? process.captures.of(stream) : CapturedStreams::kNone;
          capture != CapturedStreams::kNone) {
        const bool sure = record.header.time_ns < process.captures.begun_ns(capture) + CapturedStreams::kLongestNs;
        live.in_capture = sure ? InCapture::kYes : InCapture::kUnknown;
        if (Comm* comm = comm_of(process, record.header, record.comm)) {
          note_uncounted(*comm);
        }
      }
      if (record.flags & ST_CALL_IN_GROUP) {
        note_member(process, record.header.tid, live.row.event_id);
      }
      break;
    case ST_CALL_GROUP_END:
      live.row.called_ns = utc(record.group_started_ns);
      if (const auto members = process.group_members.find(record.header.tid); members != process.group_members.end()) {
        for (const EventId event : members->second) {
          if (OpenCall* member = process.open.find(event)) {
            member->row.timestamp_ns = live.row.timestamp_ns;
            member->delivered = false;
          }
        }
      }
      break;
    case ST_CALL_COMM_END:
    case ST_CALL_WORLD_END:
      if (!describe_end(process, record, live.row)) {
        return;
      }
      break;
    default:
      break;
  }
  const EventId event = live.row.event_id;
  if (moves_data(live.row.op)) {
    note_entry(process, live.row);
  }
  if (add_open(process, std::move(live))) {
    note_in_flight(process, record.header.tid, {.event = event, .entry_ns = record.header.time_ns, .row = record.row});
  }
}

/// Calls under way on a communicator that was given up never end: a synchronisation that returns later says nothing
/// about them.
void CollectiveTracker::leave_open(ProcessState& process, uint64_t comm) {
  std::vector<EventId> given_up;
  for (const auto& [event, live] : process.open.launched()) {
    if (live->row.comm_ptr == comm && moves_data(live->row.op)) {
      given_up.push_back(event);
    }
  }
  for (const EventId event : given_up) {
    if (OpenCall live = take_open(process, event); !live.delivered) {
      sink_.accept(std::move(live.row));
    }
  }
}

void CollectiveTracker::give_up_oldest(ProcessState& process) {
  if (OpenCall oldest = take_open(process, process.open.oldest()); !oldest.delivered) {
    sink_.accept(std::move(oldest.row));
  }
}

/// A thread that enters another call has left the one before: its return was lost (and counted), or a jump left the
/// call. The call was launched; when it returned is unknown.
void CollectiveTracker::give_up_lost_return(ProcessState& process, const st_header& header) {
  const auto flight = process.in_flight.find(header.tid);
  OpenCall* found = flight == process.in_flight.end() ? nullptr : process.open.find(flight->second.event);
  if (found == nullptr || found->launched) {
    return;
  }
  if (moves_data(found->row.op)) {
    if (found->row.group_id == 0) {
      launched(process, *found, header.time_ns);
    }
    return;
  }
  sink_.accept(take_open(process, flight->second.event).row);
}

CommHash CollectiveTracker::comm_of_nccl_hash(int32_t pid, uint64_t nccl_comm_hash) const {
  const auto state = states_.find(pid);
  if (state == states_.end()) {
    return 0;
  }
  const auto found = state->second.comm_by_nccl_hash.find(nccl_comm_hash);
  return found == state->second.comm_by_nccl_hash.end() ? 0 : state->second.comms.at(found->second).row.comm_id_hash;
}

void CollectiveTracker::on_query(ProcessState& process, const st_call_return& record, uint8_t kind) {
  Comm* comm = record.return_code == 0 ? comm_of(process, record.header, record.comm) : nullptr;
  if (comm == nullptr) {
    return;
  }
  const auto value = static_cast<int32_t>(record.value);
  if (kind == ST_CALL_COMM_QUERY_COUNT) {
    comm->row.nranks = number_of_ranks(value);
  } else if (value >= 0) {
    comm->row.rank = value;
    comm->row.rank_source = RankSource::kInit;
  }
  sink_.accept(comm->row);
}

bool CollectiveTracker::end_init(ProcessState& process, const st_call_return& record, const InFlight& call,
                                 OpenCall& live) {
  const st_call_spec& spec = call_table()[record.row].spec;
  const int32_t nranks = call.new_comm->nranks.value_or(0);
  const bool left_out =
      spec.kind == ST_CALL_COMM_SPLIT && call.new_comm->split_color == kNcclSplitNoColor && spec.color;
  const bool no_member = spec.kind == ST_CALL_COMM_INIT_ALL && nranks <= 0;
  const uint64_t made = spec.kind == ST_CALL_WORLD_INIT ? process.job.mpi_world : record.value;
  if (accepted(record) && made != 0 && !left_out && !no_member) {
    live.row.comm_ptr = made;
    comm_made(process, record, call);
  }
  if (spec.kind != ST_CALL_COMM_INIT_ALL || !accepted(record)) {
    return true;
  }
  return static_cast<int32_t>(record.comm) + 1 >= std::min(nranks, ST_MAX_LOCAL_RANKS);  // one record per member
}

void CollectiveTracker::on_return(const st_call_return& record) {
  if (record.row >= call_table().size()) {
    return;
  }
  const st_call_spec& spec = call_table()[record.row].spec;
  ProcessState& process = state_of(record.header);
  if (spec.kind == ST_CALL_COMM_QUERY_RANK || spec.kind == ST_CALL_COMM_QUERY_COUNT) {
    on_query(process, record, spec.kind);
    return;
  }
  if (spec.kind == ST_CALL_SET_UP) {
    end_set_up(process, std::nullopt, Completion::kCall, record.header.time_ns);
    return;
  }
  const auto flight = process.in_flight.find(record.header.tid);
  if (flight == process.in_flight.end() || flight->second.entry_ns != record.entry_ns ||
      flight->second.row != record.row) {
    return;  // its entry was lost, and counted as such
  }
  OpenCall* found = process.open.find(flight->second.event);
  if (found == nullptr) {
    return;
  }
  OpenCall& live = *found;
  const auto launch_ns = static_cast<int64_t>(record.header.time_ns - record.entry_ns);
  if (spec.kind != ST_CALL_DATA || !(record.flags & ST_CALL_IN_GROUP) || !accepted(record)) {
    live.row.launch_ns = launch_ns;  // ncclGroupEnd launches a group's members
  }
  live.row.return_code = record.return_code;
  live.delivered = false;
  switch (spec.kind) {
    case ST_CALL_DATA:
      if (!accepted(record) || spec.blocking) {
        finish(process, live.row.event_id, Completion::kCall, record.header.time_ns);
      } else if (!(record.flags & ST_CALL_IN_GROUP)) {
        launched(process, live, record.header.time_ns, spec.request ? record.value : 0);
      }
      break;
    case ST_CALL_GROUP_END:
      end_group(process, record, launch_ns);
      finish(process, live.row.event_id, Completion::kCall, record.header.time_ns);
      break;
    case ST_CALL_COMM_INIT:
    case ST_CALL_COMM_SPLIT:
    case ST_CALL_WORLD_INIT:
    case ST_CALL_COMM_INIT_ALL:
      if (!end_init(process, record, flight->second, live)) {
        return;
      }
      finish(process, live.row.event_id, Completion::kCall, record.header.time_ns);
      break;
    case ST_CALL_COMM_END:
    case ST_CALL_WORLD_END: {
      if (Comm* comm = live.row.comm_ptr != 0 ? comm_of(process, record.header, live.row.comm_ptr) : nullptr) {
        comm->row.destroyed_ns = utc(record.header.time_ns);
        process.destroyed.insert(live.row.comm_ptr);
        sink_.accept(comm->row);
      }
      finish(process, live.row.event_id, Completion::kCall, record.header.time_ns);
      break;
    }
    default:
      finish(process, live.row.event_id, Completion::kCall, record.header.time_ns);
      break;
  }
  process.in_flight.erase(record.header.tid);
}

void CollectiveTracker::end_group(ProcessState& process, const st_call_return& record, int64_t launch_ns) {
  const auto members = process.group_members.find(record.header.tid);
  if (members == process.group_members.end()) {
    return;
  }
  const std::vector<EventId> events = std::move(members->second);
  process.group_members.erase(members);
  process.grouped -= events.size();
  for (const EventId event : events) {
    OpenCall* found = process.open.find(event);
    if (found == nullptr) {
      continue;
    }
    OpenCall& member = *found;
    member.row.timestamp_ns = utc(record.entry_ns);
    member.row.launch_ns = launch_ns;
    if (accepted(record)) {
      member.delivered = false;
      launched(process, member, record.header.time_ns);
    } else {
      member.row.return_code = record.return_code;
      finish(process, event, Completion::kCall, record.header.time_ns);
    }
  }
}

void CollectiveTracker::on_exit(int32_t pid) {
  if (const auto process = states_.find(pid); process != states_.end()) {
    deliver_open(process->second);
    deliver_graphs(process->second);
    for (const auto& [pointer, comm] : process->second.comms) {
      forget_member(comm.row);
    }
    states_.erase(process);
  }
}

void CollectiveTracker::deliver_open(ProcessState& process) {
  process.open.for_each([&](OpenCall& live) {
    if (!live.delivered) {
      sink_.accept(live.row);
      live.delivered = true;
    }
  });
}

/// A process whose row is not known yet gets its own later.
void CollectiveTracker::deliver_graphs(ProcessState& process) {
  const Process* known = process.graphs_delivered ? nullptr : processes_.find(process.pid);
  if (known == nullptr) {
    return;
  }
  process.graphs_delivered = true;
  process.graphs.node_id = ids_.node();
  process.graphs.pid = process.pid;
  process.graphs.start_ns = known->start_ns;
  sink_.accept(process.graphs);
}

void CollectiveTracker::deliver_open() {
  for (auto& [pid, process] : states_) {
    deliver_open(process);
    deliver_graphs(process);
  }
}

}  // namespace stalltrace::capture
