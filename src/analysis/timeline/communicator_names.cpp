// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/communicator_names.h"

#include <set>

namespace stalltrace::analysis {

Result<CommonNames> CommonNames::read(EventSource& source) {
  CommonNames names(source);
  ST_ASSIGN(const std::vector<Communicator> rows, source.communicators());
  std::set<CommHash> by_nccl;  // names that are NCCL's
  for (const Communicator& row : rows) {
    if (row.nccl_comm_hash != 0 && row.comm_id_hash == row.nccl_comm_hash) {
      by_nccl.insert(row.nccl_comm_hash);
    }
  }
  for (const Communicator& row : rows) {
    if (row.comm_id_hash != 0 && row.comm_id_hash != row.nccl_comm_hash && by_nccl.contains(row.nccl_comm_hash)) {
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

Result<std::vector<Communicator>> CommonNames::communicators() {
  ST_ASSIGN(std::vector<Communicator> rows, source_.communicators());
  for (Communicator& row : rows) {
    rename(row.comm_id_hash);
    rename(row.parent_hash);
  }
  return rows;
}

Result<std::vector<Connection>> CommonNames::connections() {
  ST_ASSIGN(std::vector<Connection> rows, source_.connections());
  for (Connection& row : rows) {
    rename(row.comm_id_hash);
  }
  return rows;
}

Status CommonNames::collectives(TimeRange range, const Visitor<Collective>& visit) {
  return source_.collectives(range, [&](const Collective& told) {
    if (!names_.contains(told.comm_id_hash)) {
      return visit(told);
    }
    Collective row = told;
    rename(row.comm_id_hash);
    visit(row);
  });
}

Status CommonNames::proxy_steps(TimeRange range, const Visitor<ProxyStep>& visit) {
  return source_.proxy_steps(range, [&](const ProxyStep& told) {
    ProxyStep row = told;
    rename(row.comm_id_hash);
    visit(row);
  });
}

}  // namespace stalltrace::analysis
