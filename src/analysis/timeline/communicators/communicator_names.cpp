// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/communicators/communicator_names.h"

#include <set>
#include <type_traits>

#include "analysis/timeline/sequence_table.h"
#include "model/events/imported/inspector.h"

namespace stalltrace::analysis {
namespace {

/// Sends and Recvs have numbers by peer, which NCCL does not count.
bool may_be_counted(const Collective& row) { return row.comm_id_hash == 0 && !is_point_to_point(row.op); }

/// Others are corrupt, and left out later.
bool has_possible_number(const Collective& row) { return row.seq && *row.seq >= 0 && *row.seq <= kMaxSeq; }

}  // namespace

Result<CommonNames> CommonNames::read(EventSource& source) {
  CommonNames names(source);
  ST_ASSIGN(const std::vector<Communicator> rows, source.communicators());
  ST_ASSIGN(const std::vector<Node> nodes, source.nodes());
  std::set<NodeId> by_operation;  // what the Inspector measured has a name for each operation
  for (const Node& node : nodes) {
    if (node.agent_version == kInspectorFormat) {
      by_operation.insert(node.node_id);
    }
  }
  names.find_counted(rows);
  std::set<CommHash> by_nccl;  // names that NCCL gave
  for (const auto& [pointer, counted] : names.counted_) {
    by_nccl.insert(counted.name);
  }
  for (const Communicator& row : rows) {
    if (row.nccl_comm_hash != 0 && row.comm_id_hash == row.nccl_comm_hash) {
      by_nccl.insert(row.nccl_comm_hash);
    }
  }
  for (const Communicator& row : rows) {
    if (row.comm_id_hash != 0 && row.comm_id_hash != row.nccl_comm_hash && !by_operation.contains(row.node_id) &&
        by_nccl.contains(row.nccl_comm_hash)) {
      names.names_[row.nccl_comm_hash] = row.comm_id_hash;
    }
  }
  return names;
}

/// Only where NCCL counted the calls of all ranks that it names so, or may: else those of one would have numbers of
/// their own. A rank that was traced from the start counts calls that NCCL does not, and an address that two
/// communicators had does not show whose a call is.
void CommonNames::find_counted(const std::vector<Communicator>& rows) {
  std::map<Pointer, int> at_address;
  std::set<CommHash> uncounted;
  std::set<std::optional<int32_t>> sizes_without_name;
  for (const Communicator& row : rows) {
    const bool counted =
        row.comm_id_hash == 0 && row.calls_before && *row.calls_before >= 0 && *row.calls_before <= kMaxSeq;
    if (row.nccl_comm_hash != 0 && !counted) {
      uncounted.insert(row.nccl_comm_hash);
    }
    if (row.comm_id_hash == 0) {
      ++at_address[pointer_of(row)];
    }
    if (row.comm_id_hash == 0 && row.nccl_comm_hash == 0) {
      sizes_without_name.insert(row.nranks);
    }
  }
  for (const Communicator& row : rows) {
    if (row.comm_id_hash == 0 && at_address[pointer_of(row)] > 1) {
      uncounted.insert(row.nccl_comm_hash);
    }
  }
  const auto may_lack_a_rank = [&](const Communicator& row) {
    return sizes_without_name.contains(std::nullopt) || sizes_without_name.contains(row.nranks);
  };
  for (const Communicator& row : rows) {
    if (row.comm_id_hash == 0 && row.nccl_comm_hash != 0 && !uncounted.contains(row.nccl_comm_hash) &&
        !may_lack_a_rank(row)) {
      counted_[pointer_of(row)] = {row.nccl_comm_hash, *row.calls_before};
    }
  }
}

const CommonNames::Counted* CommonNames::counted(const Pointer& pointer) const {
  const auto found = counted_.find(pointer);
  return found == counted_.end() ? nullptr : &found->second;
}

void CommonNames::rename(CommHash& hash) const {
  if (const auto found = names_.find(hash); found != names_.end()) {
    hash = found->second;
  }
}

template <typename T>
bool CommonNames::changes(const T& row) const {
  if constexpr (std::is_same_v<T, Collective>) {
    if (!counted_.empty() && may_be_counted(row)) {
      return counted(pointer_of(row)) != nullptr;
    }
  }
  return names_.contains(row.comm_id_hash);
}

template <typename T>
void CommonNames::rename_in(T& row) const {
  if constexpr (std::is_same_v<T, Collective>) {
    const Counted* found = may_be_counted(row) ? counted(pointer_of(row)) : nullptr;
    if (found != nullptr) {
      row.comm_id_hash = found->name;
      if (has_possible_number(row)) {
        *row.seq += found->calls_before;
      }
    }
  } else if constexpr (std::is_same_v<T, Communicator>) {
    const Counted* found = row.comm_id_hash == 0 ? counted(pointer_of(row)) : nullptr;
    row.comm_id_hash = found == nullptr ? row.comm_id_hash : found->name;
  }
  rename(row.comm_id_hash);
  if constexpr (requires { row.parent_hash; }) {
    rename(row.parent_hash);
  }
}

Status CommonNames::read_state(AnyRows rows) {
  ST_TRY(source_.read_state(rows));
  std::visit(
      [this]<typename T>(std::vector<T>* all) {
        if constexpr (requires(T & row) { row.comm_id_hash; }) {
          for (T& row : *all) {
            rename_in(row);
          }
        }
      },
      rows);
  return {};
}

template <typename Read>
Status CommonNames::rename_all(AnyVisitor visitor, Read read) const {
  return std::visit(
      [&]<typename T>(const Visitor<T>* visit) -> Status {
        if constexpr (requires(T & row) { row.comm_id_hash; }) {
          const Visitor<T> renaming = [&](const T& recorded) {
            if (!changes(recorded)) {
              return (*visit)(recorded);
            }
            T row = recorded;
            rename_in(row);
            (*visit)(row);
          };
          return read(AnyVisitor(&renaming));
        } else {
          return read(AnyVisitor(visit));
        }
      },
      visitor);
}

Status CommonNames::read_stream(TimeRange range, AnyVisitor visitor) {
  return rename_all(visitor, [&](AnyVisitor renaming) { return source_.read_stream(range, renaming); });
}

Status CommonNames::read_by_node(TimeRange range, const std::set<NodeId>* nodes, AnyVisitor visitor) {
  return rename_all(visitor,
                    [&](AnyVisitor renaming) { return stalltrace::read_by_node(source_, range, nodes, renaming); });
}

}  // namespace stalltrace::analysis
