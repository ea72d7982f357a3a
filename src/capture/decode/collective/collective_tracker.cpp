// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/collective/collective_tracker.h"

#include <algorithm>

#include "capture/decode/collective/argument.h"
#include "capture/discover/call_table.h"

namespace stalltrace::capture {
namespace {

constexpr int32_t kNcclSplitNoColor = -1;

// Limit of launched calls per process whose end is awaited. A GPU's launch queue holds about a thousand: older calls
// ended unobserved (polled events, transfers that use no socket).
constexpr size_t kMostLive = 4096;
constexpr size_t kRecentTags = 64;  // number of recent tags that are searched

bool accepted(const st_call_return& record) {
  return !call_failed(static_cast<Library>(call_table()[record.row].spec.library), record.return_code);
}

}  // namespace

CollectiveTracker::CollectiveTracker(EventIds& ids, ProcessRegistry& processes, EventSink& sink, int64_t utc_offset_ns)
    : ids_(ids), processes_(processes), sink_(sink), utc_offset_ns_(utc_offset_ns) {}

CollectiveTracker::ProcessState& CollectiveTracker::state_of(const st_header& header) {
  return states_[static_cast<int32_t>(header.tgid)];
}

void CollectiveTracker::set_library(int32_t pid, Library library) { states_[pid].library = library; }

void CollectiveTracker::set_job(int32_t pid, JobPlace job) { states_[pid].job = job; }

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

void CollectiveTracker::describe_data(ProcessState& process, const st_call_entry& record, Collective& row) {
  const st_call_spec& spec = call_table()[record.row].spec;
  Comm& comm = comm_of(process, record.header, record.comm);
  if (!comm.row.comm_id_hash && comm.row.rank_source != RankSource::kInit && record.comm_rank >= 0) {
    comm.row.rank = record.comm_rank;
    comm.row.rank_source = RankSource::kInit;
    comm.row.nranks = unless_negative(record.comm_size);
    sink_.accept(comm.row);
  }
  row.rank = comm.row.rank;
  row.rank_source = comm.row.rank_source;
  row.nranks = comm.row.nranks;
  row.comm_id_hash = comm.row.comm_id_hash;
  if (spec.count || ((spec.option_count || spec.option_buffer) && record.element_bytes)) {
    row.count = static_cast<int64_t>(record.count);
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
  uint64_t number = number_of_call(comm, record);
  if (row.peer) {
    // The kernel numbers calls by address; a new communicator at the same address starts at 0 again.
    const uint64_t peer = static_cast<uint64_t>(row.op) << 32 | static_cast<uint32_t>(*row.peer);
    number -= comm.peer_base.try_emplace(peer, number).first->second;
  }
  row.seq = static_cast<int64_t>(number);
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
  standing.entered_ns = std::max(standing.entered_ns, row.timestamp_ns);
  standing.waits_by_design = is_point_to_point(row.op);
  process.newest = row.event_id;
}

std::vector<CallStanding> CollectiveTracker::standings() const {
  std::vector<CallStanding> all;
  for (const auto& [pid, process] : states_) {
    if (process.newest != 0) {
      all.push_back(process.standing);
      all.back().inside = process.live.contains(process.newest);
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
  Live live;
  live.row = make_row(process, record.header, record.row);
  live.row.comm_ptr = record.comm;
  live.row.stream = record.stream;
  live.row.cgroup_id = record.cgroup_id;
  live.row.group_id = record.group_id;
  live.row.stack_id = stack_id;
  live.net_bytes = record.net_bytes;
  live.streams.insert(record.stream);
  switch (spec.kind) {
    case ST_CALL_DATA:
      end_set_up(process, record.comm, Completion::kNetwork, record.last_net_ns);
      describe_data(process, record, live.row);
      if (record.flags & ST_CALL_IN_GROUP) {
        process.group_members[record.header.tid].push_back(live.row.event_id);
      }
      break;
    case ST_CALL_GROUP_END:
      live.row.called_ns = utc(record.group_started_ns);
      for (const EventId event : process.group_members[record.header.tid]) {
        if (const auto member = process.live.find(event); member != process.live.end()) {
          member->second.row.timestamp_ns = live.row.timestamp_ns;
          member->second.delivered = false;
        }
      }
      break;
    case ST_CALL_COMM_END:
    case ST_CALL_WORLD_END: {
      live.row.comm_ptr = spec.kind == ST_CALL_WORLD_END ? process.job.mpi_world : record.comm;
      if (live.row.comm_ptr == 0) {
        break;
      }
      const Comm& comm = comm_of(process, record.header, live.row.comm_ptr);
      live.row.rank = comm.row.rank;
      live.row.rank_source = comm.row.rank_source;
      live.row.nranks = comm.row.nranks;
      live.row.comm_id_hash = comm.row.comm_id_hash;
      if (live.row.op == Operation::kCommAbort) {
        leave_open(process, record.comm);
      }
      break;
    }
    default:
      break;
  }
  const EventId event = live.row.event_id;
  give_up_lost_return(process, record.header);
  process.in_flight[record.header.tid] = {.event = event, .entry_ns = record.header.time_ns};
  if (moves_data(live.row.op)) {
    note_entry(process, live.row);
  }
  process.live.emplace(event, std::move(live));
  forget_oldest(process);
}

/// Calls under way on a communicator that was given up never end: a synchronisation that returns later says nothing
/// about them.
void CollectiveTracker::leave_open(ProcessState& process, uint64_t comm) {
  for (auto entry = process.live.begin(); entry != process.live.end();) {
    Live& live = entry->second;
    if (live.row.comm_ptr != comm || !live.launched || !moves_data(live.row.op)) {
      ++entry;
      continue;
    }
    if (!live.delivered) {
      sink_.accept(std::move(live.row));
    }
    entry = process.live.erase(entry);
  }
}

void CollectiveTracker::forget_oldest(ProcessState& process) {
  if (process.live.size() <= kMostLive) {
    return;
  }
  const auto oldest = std::ranges::find_if(process.live, [](const auto& entry) { return entry.second.launched; });
  if (oldest == process.live.end()) {
    return;
  }
  if (!oldest->second.delivered) {
    sink_.accept(std::move(oldest->second.row));
  }
  process.live.erase(oldest);
}

/// A thread that enters another call has left the one before: its return was lost (and counted), or a jump left the
/// call. The call was launched; when it returned is unknown.
void CollectiveTracker::give_up_lost_return(ProcessState& process, const st_header& header) {
  const auto flight = process.in_flight.find(header.tid);
  const auto found = flight == process.in_flight.end() ? process.live.end() : process.live.find(flight->second.event);
  if (found == process.live.end() || found->second.launched) {
    return;
  }
  if (moves_data(found->second.row.op)) {
    if (found->second.row.group_id == 0) {
      found->second.launched = true;
      found->second.launched_ns = static_cast<int64_t>(header.time_ns);
    }
    return;
  }
  sink_.accept(found->second.row);
  process.live.erase(found);
}

CommHash CollectiveTracker::comm_of_nccl_hash(int32_t pid, uint64_t nccl_comm_hash) const {
  if (const auto state = states_.find(pid); state != states_.end()) {
    for (const auto& [pointer, comm] : state->second.comms) {
      if (comm.row.nccl_comm_hash == nccl_comm_hash) {
        return comm.row.comm_id_hash;
      }
    }
  }
  return 0;
}

void CollectiveTracker::on_return(const st_call_return& record) {
  if (record.row >= call_table().size()) {
    return;
  }
  const st_call_spec& spec = call_table()[record.row].spec;
  ProcessState& process = state_of(record.header);
  if (spec.kind == ST_CALL_COMM_QUERY_RANK || spec.kind == ST_CALL_COMM_QUERY_COUNT) {
    if (record.return_code == 0) {
      Comm& comm = comm_of(process, record.header, record.comm);
      const auto value = static_cast<int32_t>(record.value);
      if (spec.kind == ST_CALL_COMM_QUERY_RANK) {
        comm.row.rank = value;
        comm.row.rank_source = RankSource::kInit;
      } else {
        comm.row.nranks = value;
      }
      sink_.accept(comm.row);
    }
    return;
  }
  if (spec.kind == ST_CALL_SET_UP) {
    end_set_up(process, std::nullopt, Completion::kCall, record.header.time_ns);
    return;
  }
  const auto flight = process.in_flight.find(record.header.tid);
  if (flight == process.in_flight.end() || flight->second.entry_ns != record.entry_ns) {
    return;  // its entry was lost, and counted as such
  }
  const auto found = process.live.find(flight->second.event);
  if (found == process.live.end()) {
    return;
  }
  Live& live = found->second;
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
        live.launched = true;
        live.launched_ns = static_cast<int64_t>(record.header.time_ns);
        live.request = spec.request ? record.value : 0;
      }
      break;
    case ST_CALL_GROUP_END:
      end_group(process, record, launch_ns);
      finish(process, live.row.event_id, Completion::kCall, record.header.time_ns);
      break;
    case ST_CALL_COMM_INIT:
    case ST_CALL_COMM_SPLIT:
    case ST_CALL_WORLD_INIT:
    case ST_CALL_COMM_INIT_ALL: {
      const bool left_out =
          spec.kind == ST_CALL_COMM_SPLIT && flight->second.new_comm->split_color == kNcclSplitNoColor && spec.color;
      const bool no_member = spec.kind == ST_CALL_COMM_INIT_ALL && flight->second.new_comm->nranks.value_or(0) <= 0;
      const uint64_t made = spec.kind == ST_CALL_WORLD_INIT ? process.job.mpi_world : record.value;
      if (accepted(record) && made != 0 && !left_out && !no_member) {
        live.row.comm_ptr = made;
        comm_made(process, record, flight->second);
      }
      if (spec.kind == ST_CALL_COMM_INIT_ALL && accepted(record)) {
        const int32_t reported = std::min(flight->second.new_comm->nranks.value_or(0), ST_MAX_LOCAL_RANKS);
        if (static_cast<int32_t>(record.comm) + 1 < reported) {
          return;  // one record per member; the last one ends the call
        }
      }
      finish(process, live.row.event_id, Completion::kCall, record.header.time_ns);
      break;
    }
    case ST_CALL_COMM_END:
    case ST_CALL_WORLD_END: {
      if (live.row.comm_ptr != 0) {
        Comm& comm = comm_of(process, record.header, live.row.comm_ptr);
        comm.row.destroyed_ns = utc(record.header.time_ns);
        sink_.accept(comm.row);
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
  for (const EventId event : events) {
    const auto found = process.live.find(event);
    if (found == process.live.end()) {
      continue;
    }
    Live& member = found->second;
    member.row.timestamp_ns = utc(record.entry_ns);
    member.row.launch_ns = launch_ns;
    if (accepted(record)) {
      member.launched = true;
      member.launched_ns = static_cast<int64_t>(record.header.time_ns);
      member.delivered = false;
    } else {
      member.row.return_code = record.return_code;
      finish(process, event, Completion::kCall, record.header.time_ns);
    }
  }
}

void CollectiveTracker::on_exit(int32_t pid) {
  deliver_open();
  states_.erase(pid);
}

void CollectiveTracker::deliver_open() {
  for (auto& [pid, process] : states_) {
    for (auto& [event, live] : process.live) {
      if (!live.delivered) {
        sink_.accept(live.row);
        live.delivered = true;
      }
    }
  }
}

}  // namespace stalltrace::capture
