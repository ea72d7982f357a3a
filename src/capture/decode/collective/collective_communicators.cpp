// SPDX-License-Identifier: Apache-2.0
// The communicators of a process: how they were made, and how they are identified across ranks.
#include <algorithm>

#include "base/hash.h"
#include "capture/call_table.h"
#include "capture/decode/collective/argument.h"
#include "capture/decode/collective/collective_tracker.h"
#include "capture/decode/collective/unique_id.h"
#include "stacks/nccl/comm_layout.h"

namespace stalltrace::capture {
namespace {

constexpr size_t kMostSetUps = 1024;  // under way
constexpr size_t kMostShown = 64;     // each is followed by its call

/// How many collectives NCCL had launched before the first that was seen. Within a group a reading shows too few, since
/// NCCL counts its calls at the end.
std::optional<int64_t> calls_before(const st_nccl_identity& record) {
  const bool known = record.launched <= stacks::kMostLaunches && record.sequence <= record.launched;
  return known ? std::optional(static_cast<int64_t>(record.launched - record.sequence)) : std::nullopt;
}

}  // namespace

void CollectiveTracker::forget_comm(ProcessState& process, uint64_t pointer) {
  const auto found = process.comms.find(pointer);
  if (found == process.comms.end()) {
    return;
  }
  const auto hashed = process.comm_by_nccl_hash.find(found->second.row.nccl_comm_hash);
  if (hashed != process.comm_by_nccl_hash.end() && hashed->second == pointer) {
    process.comm_by_nccl_hash.erase(hashed);
  }
  shares_.give_back(process.pid, UserShares::Kind::kPeer, found->second.peer_base.size());
  shares_.give_back(process.pid, UserShares::Kind::kCommunicator);
  process.destroyed.erase(pointer);
  forget_member(found->second.row);
  process.comms.erase(found);
}

void CollectiveTracker::forget_member(const Communicator& comm) {
  const auto members = members_here_.find(comm.comm_id_hash);
  if (members != members_here_.end() && --members->second == 0) {
    members_here_.erase(members);
  }
}

/// Whether a part of this call's transfer may have taken another way than the network: memory that processes share,
/// NVLink. For a communicator without identity (made before the tracing began, or for all devices of a process) any
/// other communicator of the process and any process of the same job counts; without the job's identity, any other
/// process that makes such calls.
bool CollectiveTracker::has_peer_on_node(const ProcessState& process, const Collective& row) const {
  if (row.library == Library::kGloo) {
    return false;  // its ranks talk over sockets on one node, too
  }
  if (row.comm_id_hash != 0) {
    const auto members = members_here_.find(row.comm_id_hash);
    return members != members_here_.end() && members->second > 1;
  }
  return process.comms.size() > 1 || std::ranges::any_of(states_, [&](const auto& entry) {
           const ProcessState& other = entry.second;
           const bool same_job = process.job.key == 0 || other.job.key == 0 || other.job.key == process.job.key;
           return &other != &process && other.newest != 0 && other.library == process.library && same_job;
         });
}

/// False where the process or its user has too many. Those that were destroyed are kept until then: calls that they had
/// begun may end later.
bool CollectiveTracker::make_room_for_comm(ProcessState& process, int64_t now_ns) {
  if (!process.destroyed.empty() && !shares_.has_room(process.pid, UserShares::Kind::kCommunicator)) {
    forget_comm(process, *process.destroyed.begin());
  }
  return shares_.take(process.pid, UserShares::Kind::kCommunicator, now_ns);
}

CollectiveTracker::Comm* CollectiveTracker::comm_of(ProcessState& process, const st_header& header, uint64_t pointer) {
  if (const auto known = process.comms.find(pointer); known != process.comms.end()) {
    return &known->second;
  }
  if (!make_room_for_comm(process, static_cast<int64_t>(header.time_ns))) {
    return nullptr;
  }
  // Made before tracing began: its hash is unknown, and its rank at best the launcher's.
  Comm& comm = process.comms[pointer];
  Communicator& row = comm.row;
  row.node_id = ids_.node();
  row.pid = static_cast<int32_t>(header.tgid);
  row.comm_ptr = pointer;
  row.created_ns = utc(header.time_ns);
  const Process* known = processes_.find(row.pid);
  if (known && known->rank_source == RankSource::kEnvironment) {
    row.rank = known->rank;
    row.nranks = known->world_size;
    row.rank_source = RankSource::kEnvironment;
  }
  if (const auto shown = process.shown.extract(pointer)) {
    learn_from_memory(process, comm, shown.mapped());
  }
  sink_.accept(row);
  return &comm;
}

void CollectiveTracker::on_comm_init(const st_comm_init& record) {
  if (record.row >= call_table().size()) {
    return;
  }
  const st_call_spec& spec = call_table()[record.row].spec;
  ProcessState& process = state_of(record.header);
  OpenCall live;
  live.row = make_row(process, record.header, record.row);
  live.row.cgroup_id = record.cgroup_id;
  Communicator comm;
  comm.node_id = ids_.node();
  comm.pid = live.row.pid;
  comm.created_ns = live.row.timestamp_ns;
  comm.rank = unless_negative(record.rank);
  comm.rank_source = comm.rank ? RankSource::kInit : RankSource::kUnknown;
  comm.nranks = number_of_ranks(record.nranks);
  if (record.has_id) {
    const auto id = std::as_bytes(std::span(record.id));
    comm.comm_id_hash = comm_id_hash(id);
    comm.nccl_comm_hash = nccl_comm_hash(id);
  }
  if (record.parent_comm) {
    Comm* known = comm_of(process, record.header, record.parent_comm);
    if (known == nullptr) {
      return;
    }
    Comm& parent = *known;
    comm.parent_hash = parent.row.comm_id_hash;
    if (spec.kind == ST_CALL_COMM_SPLIT) {
      comm.split_color = record.color;
      comm.split_key = record.key;
      comm.comm_id_hash = split_comm_hash(parent.row.comm_id_hash, parent.splits++, record.color);
    } else if (!comm.rank && parent.row.rank) {  // ncclCommGrow: an old member keeps its rank
      comm.rank = parent.row.rank;
      comm.rank_source = parent.row.rank_source;
    }
  }
  if (spec.kind == ST_CALL_WORLD_INIT || record.comm) {
    describe_world(process, comm);
  }
  live.row.rank = comm.rank;
  live.row.rank_source = comm.rank_source;
  live.row.nranks = comm.nranks;
  live.row.comm_id_hash = comm.comm_id_hash;
  const EventId event = live.row.event_id;
  if (record.comm) {  // no return record: it is made once its set-up is known to be over
    live.row.comm_ptr = comm.comm_ptr = record.comm;
    if (adopt(process, std::move(comm), record.header.time_ns) && add_open(process, std::move(live))) {
      process.connecting.push_back(event);
      if (process.connecting.size() > kMostSetUps) {
        process.connecting.pop_front();  // it stays open
      }
    }
    return;
  }
  if (add_open(process, std::move(live))) {
    note_in_flight(process, record.header.tid,
                   {.event = event,
                    .entry_ns = record.header.time_ns,
                    .row = record.row,
                    .new_comm = std::move(comm),
                    .parent = record.parent_comm});
  }
}

void CollectiveTracker::on_nccl_identity(const st_nccl_identity& record) {
  const st_nccl_fields& fields = record.fields;
  if (!stacks::is_possible_identity(fields.hash, fields.rank, fields.nranks)) {
    return;
  }
  const Shown shown{.fields = fields, .calls_before = calls_before(record)};
  ProcessState& process = state_of(record.header);
  const auto known = process.comms.find(record.comm);
  if (known == process.comms.end()) {  // its call follows: that began before, and makes the row
    if (process.shown.size() >= kMostShown) {
      process.shown.clear();
    }
    process.shown.insert_or_assign(record.comm, shown);
    return;
  }
  Comm& comm = known->second;
  Communicator& row = comm.row;
  if (row.comm_id_hash == 0 && row.nccl_comm_hash == 0) {
    learn_from_memory(process, comm, shown);
    sink_.accept(row);
  } else if (row.comm_id_hash == 0 && row.nccl_comm_hash == fields.hash && note_reading(comm, shown.calls_before)) {
    sink_.accept(row);
  }
}

void CollectiveTracker::learn_from_memory(ProcessState& process, Comm& comm, const Shown& shown) {
  Communicator& row = comm.row;
  row.nccl_comm_hash = shown.fields.hash;
  row.rank = shown.fields.rank;
  row.nranks = shown.fields.nranks;
  row.rank_source = RankSource::kMemory;
  (void)note_reading(comm, shown.calls_before);
  process.comm_by_nccl_hash[shown.fields.hash] = row.comm_ptr;
  processes_.learn_rank(row.pid, shown.fields.rank, shown.fields.nranks, RankSource::kMemory);
}

/// Readings within a group show too few, each less than the one before; of others all show the same. The largest counts
/// once it was read twice.
bool CollectiveTracker::note_reading(Comm& comm, std::optional<int64_t> calls_before) {
  if (!calls_before || comm.uncounted || calls_before < comm.largest_reading) {
    return false;
  }
  const std::optional<int64_t> earlier = comm.row.calls_before;
  comm.row.calls_before = calls_before == comm.largest_reading ? calls_before : std::nullopt;
  comm.largest_reading = calls_before;
  return comm.row.calls_before != earlier;
}

/// A number of such a communicator counts calls that NCCL does not: it is none that ranks share.
void CollectiveTracker::note_uncounted(Comm& comm) {
  comm.uncounted = true;
  if (comm.row.calls_before) {
    comm.row.calls_before.reset();
    sink_.accept(comm.row);
  }
}

void CollectiveTracker::comm_made(ProcessState& process, const st_call_return& record, const InFlight& call) {
  const st_call_spec& spec = call_table()[record.row].spec;
  Comm comm;
  comm.row = *call.new_comm;
  comm.row.comm_ptr = spec.kind == ST_CALL_WORLD_INIT ? process.job.mpi_world : record.value;
  if (spec.kind == ST_CALL_COMM_INIT_ALL) {
    comm.row.rank = static_cast<int32_t>(record.comm);
    comm.row.rank_source = RankSource::kInit;
  }
  (void)adopt(process, std::move(comm.row), record.header.time_ns);
}

/// False where the process or its user has too many.
bool CollectiveTracker::adopt(ProcessState& process, Communicator&& made, uint64_t now_ns) {
  const uint64_t pointer = made.comm_ptr;
  forget_comm(process, pointer);  // an earlier one at this address
  process.shown.erase(pointer);
  if (!make_room_for_comm(process, static_cast<int64_t>(now_ns))) {
    return false;
  }
  sink_.accept(made);
  if (made.rank && made.nranks && !made.parent_hash) {
    processes_.learn_rank(made.pid, *made.rank, *made.nranks);
  }
  if (made.nccl_comm_hash != 0) {
    process.comm_by_nccl_hash[made.nccl_comm_hash] = pointer;
  }
  if (made.comm_id_hash != 0) {
    ++members_here_[made.comm_id_hash];
  }
  process.comms[pointer].row = std::move(made);
  return true;
}

/// A communicator of all ranks has no id that could be read. Every rank makes them in the same order, so the job and
/// the position in that order identify it.
void CollectiveTracker::describe_world(ProcessState& process, Communicator& comm) {
  const Process* known = processes_.find(comm.pid);
  if (!known || !known->rank || !known->world_size) {
    return;
  }
  if (!comm.rank) {
    comm.rank = known->rank;
    comm.rank_source = known->rank_source;
    comm.nranks = known->world_size;
  }
  if (process.job.key != 0 && comm.nranks == known->world_size) {
    comm.comm_id_hash = splitmix64_fold(splitmix64_fold(kSplitmixSeed, process.job.key), process.worlds++);
  }
}

/// Ends the set-ups under way: all of them, or that of one communicator, at the latest on its first use.
void CollectiveTracker::end_set_up(ProcessState& process, std::optional<uint64_t> comm, Completion completion,
                                   uint64_t end_ns) {
  std::erase_if(process.connecting, [&](EventId event) {
    const OpenCall* found = process.open.find(event);
    const bool over = found == nullptr || !comm || found->row.comm_ptr == *comm;
    if (over) {
      finish(process, event, completion, end_ns);
    }
    return over;
  });
}

}  // namespace stalltrace::capture
