// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/communicator_names.h"

#include <set>

#include "model/events/imported/inspector.h"

namespace stalltrace::analysis {

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
  std::set<CommHash> by_nccl;  // names that NCCL gave
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

void CommonNames::rename(CommHash& hash) const {
  if (const auto found = names_.find(hash); found != names_.end()) {
    hash = found->second;
  }
}

template <typename T>
void CommonNames::rename_in(T& row) const {
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
            if (!names_.contains(recorded.comm_id_hash)) {
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
