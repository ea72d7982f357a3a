// SPDX-License-Identifier: Apache-2.0
#include "blackbox/decode/call.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "blackbox/format/reader.h"

namespace stalltrace::blackbox {
namespace {

constexpr int64_t kMostSequence = 1LL << 40;
constexpr uint64_t kMostCount = 1ULL << 50;

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

/// NCCL's launch event of these two gives the count in bytes; the API call gives it in the caller's datatype.
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

int64_t bytes_of(const Size& size, const Collective& row) {
  const int element = size.datatype ? nccl_datatype_size(*size.datatype) : 0;
  return payload_bytes(row.op, size.count.value_or(0), element, row.nranks.value_or(0));
}

void describe_size(const Size& task, const st_box_event* api, Collective& row) {
  row.bytes = bytes_of(task, row);
  if (api != nullptr) {
    const Size called = size_of(api->u.api.count, api->u.api.datatype);
    row.count = called.count;
    row.datatype = called.datatype;
    row.stream = api->u.api.stream;
    const int64_t bytes = bytes_of(called, row);
    row.bytes = bytes != 0 ? bytes : row.bytes;
  } else if (!counts_bytes(row.op)) {
    row.count = task.count;
    row.datatype = task.datatype;
  }
}

bool is_api(const st_box_event& event) { return event.type == ST_BOX_COLL_API || event.type == ST_BOX_P2P_API; }

/// The call that launched the event; null if unknown.
const st_box_event* api_of(const st_box_event& event, const EventTable& table) {
  const EventTable::Entry* parent = table.find(event.parent);
  return parent != nullptr && is_api(parent->event) ? &parent->event : nullptr;
}

const EventTable::Entry* group_of(const st_box_event& api, const EventTable& table) {
  const EventTable::Entry* group = table.find(api.parent);
  return group != nullptr && group->event.type == ST_BOX_GROUP_API ? group : nullptr;
}

/// When the rank entered the collective: at its API call, or at the end of the group that launches it. NCCL starts the
/// collective's own event only after the launch. The API call of a CUDA graph's collective is its capture, so that the
/// event's own start counts.
uint64_t arrival_of(const st_box_event& event, const st_box_event& api, const EventTable& table) {
  const EventTable::Entry* group = group_of(api, table);
  if ((api.flags & ST_BOX_GRAPH_CAPTURED) != 0 || api.start_ns == 0 || api.start_ns > event.start_ns ||
      (api.parent != 0 && group == nullptr)) {
    return event.start_ns;
  }
  const uint64_t launch_ns = group == nullptr ? 0 : group->event.u.api.end_entered_ns;
  return launch_ns > event.start_ns ? event.start_ns : std::max(api.start_ns, launch_ns);
}

std::optional<int64_t> number_of(uint64_t number) {
  return number <= static_cast<uint64_t>(kMostSequence) ? std::optional(static_cast<int64_t>(number)) : std::nullopt;
}

/// Ordinals count from 1; 0 means none.
std::optional<int64_t> number_of_ordinal(uint64_t ordinal) {
  return ordinal == 0 ? std::nullopt : number_of(ordinal - 1);
}

/// Length from `from_ns` to `to_ns`; nullopt where one of them is unknown or invalid.
std::optional<int64_t> time_between(uint64_t from_ns, uint64_t to_ns) {
  return to_ns >= from_ns && to_ns < kLatestTime ? std::optional(static_cast<int64_t>(to_ns - from_ns)) : std::nullopt;
}

/// Decodes calls of one file on one communicator.
class CallDecoder {
 public:
  CallDecoder(const EventTable& table, const st_box_communicator* communicator, const Owner& owner)
      : table_(table), communicator_(communicator), owner_(owner) {}

  /// Decodes a COLL or P2P.
  [[nodiscard]] std::optional<Collective> task(const EventTable::Entry& entry) const {
    const st_box_event& event = entry.event;
    const st_box_coll& coll = event.u.coll;
    const st_box_event* api = api_of(event, table_);
    const uint64_t arrival_ns = api != nullptr ? arrival_of(event, *api, table_) : event.start_ns;
    auto row = begin(event, coll.operation, arrival_ns, api);
    if (!row) {
      return std::nullopt;
    }
    if (event.type == ST_BOX_P2P) {
      row->peer = rank_of(coll.root_or_peer);
    } else {
      name_root(coll.operation, coll.root_or_peer, *row);
    }
    describe_size(size_of(coll.count, coll.datatype), api, *row);
    row->seq = number_of(event.type == ST_BOX_P2P ? coll.sequence : coll.call_number);
    row->launch_ns = coll.enqueued_ns >= event.start_ns ? time_between(arrival_ns, coll.enqueued_ns) : std::nullopt;
    add_kernel(event, entry.open, *row);
    const bool ended = !entry.open && (event.flags & ST_BOX_UNFINISHED) == 0 && event.end_ns >= event.start_ns;
    if (ended && event.end_ns < kLatestTime) {
      row->duration_ns = static_cast<int64_t>(event.end_ns - arrival_ns);
      row->completion = Completion::kProfiler;
    } else if (end_unobserved(event)) {
      row->completion = Completion::kUnobserved;
    }
    return row;
  }

  /// Decodes a CE_COLL. Its event ends at the end of the launch.
  [[nodiscard]] std::optional<Collective> copy(const EventTable::Entry& entry) const {
    const st_box_event& event = entry.event;
    const st_box_ce& ce = event.u.ce;
    const st_box_event* api = api_of(event, table_);
    const uint64_t arrival_ns = api != nullptr ? arrival_of(event, *api, table_) : event.start_ns;
    const auto number = number_of_ordinal(ce.call_ordinal);
    auto row = number ? begin(event, ce.operation, arrival_ns, api) : std::nullopt;
    if (!row) {
      return std::nullopt;
    }
    name_root(ce.operation, ce.root, *row);
    describe_size(size_of(ce.count, ce.datatype), api, *row);
    row->seq = number;
    if (!entry.open) {
      row->launch_ns = time_between(arrival_ns, event.end_ns);
      row->completion = Completion::kUnobserved;
    }
    return row;
  }

  /// Decodes a COLL_API or P2P_API without any other event. It is not launched before its group's end is called, and
  /// never if it is captured into a CUDA graph.
  [[nodiscard]] std::optional<Collective> call(const EventTable::Entry& entry) const {
    const st_box_event& api = entry.event;
    const EventTable::Entry* group = group_of(api, table_);
    const uint64_t launch_ns = group != nullptr ? group->event.u.api.end_entered_ns : 0;
    const bool not_launched = group != nullptr ? group->open && launch_ns == 0 : entry.open;
    const auto number = number_of_ordinal(api.u.api.call_ordinal);
    if (not_launched || table_.has_launched(api.id) || (api.flags & ST_BOX_GRAPH_CAPTURED) != 0 ||
        (api.type == ST_BOX_COLL_API && !number)) {
      return std::nullopt;
    }
    const uint64_t arrival_ns = std::max(api.start_ns, launch_ns);
    auto row = begin(api, api.u.api.operation, arrival_ns, &api);
    if (!row) {
      return std::nullopt;
    }
    if (api.type == ST_BOX_COLL_API) {
      name_root(api.u.api.operation, api.u.api.root, *row);
      row->seq = number;
    }
    describe_size({}, &api, *row);
    if (group == nullptr || !group->open) {
      row->launch_ns = group != nullptr ? time_between(arrival_ns, group->event.end_ns) : std::nullopt;
      row->completion = Completion::kUnobserved;
    }
    return row;
  }

 private:
  static void name_root(uint8_t operation, int32_t root, Collective& row) {
    if (operation_of(operation)->rooted) {
      row.root = rank_of(root);
    }
  }

  /// The GPU's timer has an epoch of its own, so that only its differences count. NCCL's progress thread sees start and
  /// end of a kernel some time afterwards, long afterwards if it did not run: what the GPU took ends with the call at
  /// the latest. Kernels that NCCL reports too early show nothing.
  void add_kernel(const st_box_event& event, bool open, Collective& row) const {
    const st_box_coll& coll = event.u.coll;
    if ((event.flags & ST_BOX_KERNELS_UNTRUE) != 0 || coll.kernel_start_ns < event.start_ns) {
      return;
    }
    row.kernel_start_ns = to_utc(coll.kernel_start_ns, owner_.clock_offset_ns);
    const bool all_ended = !open && coll.kernels_ended == coll.kernels_started;
    const auto executed_ns =
        coll.gpu_start_ns != 0 && all_ended ? time_between(coll.gpu_start_ns, coll.gpu_stop_ns) : std::nullopt;
    const auto launched_ns = to_utc(event.start_ns, owner_.clock_offset_ns);
    const auto end_ns = to_utc(event.end_ns, owner_.clock_offset_ns);
    if (row.kernel_start_ns && executed_ns && launched_ns && end_ns && *end_ns >= *row.kernel_start_ns) {
      row.kernel_start_ns = std::max(std::min(*row.kernel_start_ns, *end_ns - *executed_ns), *launched_ns);
      row.kernel_end_ns = std::min(*row.kernel_start_ns + *executed_ns, *end_ns);
    }
  }

  /// Sets caller, operation and time; nullopt where one of them is invalid.
  [[nodiscard]] std::optional<Collective> begin(const st_box_event& event, uint8_t code, uint64_t arrival_ns,
                                                const st_box_event* api) const {
    const auto operation = operation_of(code);
    const auto start_ns = to_utc(arrival_ns, owner_.clock_offset_ns);
    if (!operation || !start_ns) {
      return std::nullopt;
    }
    Collective row;
    row.node_id = owner_.node_id;
    row.pid = owner_.pid;
    row.tid = static_cast<int32_t>(event.tid & std::numeric_limits<int32_t>::max());
    row.op = operation->operation;
    row.timestamp_ns = *start_ns;
    row.called_ns = *start_ns;
    if (api != nullptr) {
      row.called_ns = std::min(to_utc(api->start_ns, owner_.clock_offset_ns).value_or(*start_ns), *start_ns);
    }
    if (communicator_ != nullptr) {
      row.comm_ptr = communicator_->serial;
      row.comm_id_hash = communicator_->hash;
      row.rank = rank_of(communicator_->rank);
      row.nranks = communicator_->ranks > 0 ? rank_of(communicator_->ranks) : std::nullopt;
    } else if (!is_api(event)) {  // NCCL gives no rank with API calls
      row.rank = rank_of(event.rank);
    }
    row.rank_source = row.rank ? RankSource::kPlugin : RankSource::kUnknown;
    return row;
  }

  const EventTable& table_;
  const st_box_communicator* communicator_;
  const Owner& owner_;
};

std::optional<Collective> decode_row(const EventTable::Entry& entry, const EventTable& table,
                                     const st_box_communicator* communicator, const Owner& owner) {
  const CallDecoder decoder(table, communicator, owner);
  switch (entry.event.type) {
    case ST_BOX_COLL:
    case ST_BOX_P2P:
      return decoder.task(entry);
    case ST_BOX_CE_COLL:
      return decoder.copy(entry);
    case ST_BOX_COLL_API:
    case ST_BOX_P2P_API:
      return decoder.call(entry);
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<ProfilerCall> decode_call(const EventTable::Entry& entry, const EventTable& table,
                                        const st_box_communicator* communicator, const Owner& owner) {
  auto row = decode_row(entry, table, communicator, owner);
  if (!row) {
    return std::nullopt;
  }
  const st_box_event* api = is_api(entry.event) ? &entry.event : api_of(entry.event, table);
  return ProfilerCall{std::move(*row), entry.event.id, api != nullptr ? api->parent : 0, api != nullptr ? api->id : 0,
                      api != nullptr && (api->flags & ST_BOX_GRAPH_CAPTURED) != 0};
}

void number_in_call_order(std::vector<ProfilerCall>& calls) {
  std::vector<ProfilerCall*> members;
  for (ProfilerCall& call : calls) {
    if (call.group != 0 && !call.by_graph && call.row.seq && is_collective(call.row.op)) {
      members.push_back(&call);
    }
  }
  const auto group_of = [](const ProfilerCall* call) { return std::pair(call->row.comm_ptr, call->group); };
  std::ranges::stable_sort(members, {},
                           [&](const ProfilerCall* call) { return std::pair(group_of(call), call->row.called_ns); });
  for (auto first = members.begin(); first != members.end();) {
    const auto last =
        std::find_if(first, members.end(), [&](const auto* call) { return group_of(call) != group_of(*first); });
    if (last - first > 1) {
      std::vector<int64_t> numbers;
      std::ranges::transform(first, last, std::back_inserter(numbers), [](const auto* call) { return *call->row.seq; });
      std::ranges::sort(numbers);
      std::ranges::for_each(first, last,
                            [number = numbers.begin()](ProfilerCall* call) mutable { call->row.seq = *number++; });
    }
    first = last;
  }
}

}  // namespace stalltrace::blackbox
