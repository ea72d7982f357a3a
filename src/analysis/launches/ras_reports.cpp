// SPDX-License-Identifier: Apache-2.0
#include "analysis/launches/ras_reports.h"

#include <algorithm>

#include "model/events/imported_evidence.h"

namespace stalltrace::analysis {
namespace {

void take(const RasStatement& statement, RasReportView& report) {
  if (statement.hash == 0) {
    report.processes.push_back({statement.host, statement.pid, statement.gpu, statement.state});
    return;
  }
  RasComm& comm = report.comms[statement.hash];
  comm.hash = statement.hash;
  comm.nranks = std::max(comm.nranks, statement.nranks);
  comm.whole_job = comm.whole_job || statement.whole_job;
  comm.leaving = comm.leaving || statement.state == RasState::kFinalize || statement.state == RasState::kAbort;
  if (!statement.rank) {
    for (const auto& [operation, count] : statement.launched) {
      comm.unnamed[operation][count] += statement.members;
    }
    if (statement.init_error != 0) {
      comm.unnamed_init_errors[statement.init_error] += statement.members;
    }
    if (statement.async_error != 0) {
      comm.unnamed_async_errors[statement.async_error] += statement.members;
    }
    const bool missing = statement.state == RasState::kDead || statement.state == RasState::kUnresponsive;
    comm.unnamed_missing += missing ? statement.members : 0;
    return;
  }
  RasRank& rank = comm.ranks[*statement.rank];
  rank.rank = *statement.rank;
  rank.host = statement.host.empty() ? rank.host : statement.host;
  rank.pid = statement.pid == 0 ? rank.pid : statement.pid;
  rank.gpu = statement.gpu ? statement.gpu : rank.gpu;
  rank.state = statement.state == RasState::kNotStated ? rank.state : statement.state;
  rank.init_error = statement.init_error == 0 ? rank.init_error : statement.init_error;
  rank.async_error = statement.async_error == 0 ? rank.async_error : statement.async_error;
  for (const auto& [operation, count] : statement.launched) {
    rank.launched[operation] = count;
  }
}

}  // namespace

int64_t RasComm::missing() const {
  return std::ranges::count_if(ranks, [](const auto& entry) { return entry.second.missing(); });
}

std::optional<int32_t> RasReportView::job_rank(const RasComm& comm, const RasRank& rank) const {
  if (comm.whole_job) {
    return rank.rank;
  }
  if (rank.host.empty() || rank.pid == 0) {
    return std::nullopt;
  }
  for (const auto& [hash, other] : comms) {
    if (!other.whole_job) {
      continue;
    }
    const auto same = std::ranges::find_if(
        other.ranks, [&](const auto& entry) { return entry.second.identity() == rank.identity(); });
    return same == other.ranks.end() ? std::nullopt : std::optional(same->first);
  }
  return std::nullopt;
}

Result<std::vector<RasReportView>> read_ras_reports(EventSource& source) {
  std::map<NodeId, Node> files;
  ST_ASSIGN(const std::vector<Node> nodes, source.nodes());
  for (const Node& node : nodes) {
    if (node.agent_version == kRasFormat || node.agent_version == kNcclMemoryFormat) {
      files.emplace(node.node_id, node);
    }
  }
  std::vector<RasReportView> all;
  if (files.empty()) {
    return all;
  }
  std::map<NodeId, std::vector<RasReportView>> by_file;
  ST_TRY(source.log_lines({}, [&](const LogLine& row) {
    const auto file = files.find(row.node_id);
    if (file == files.end()) {
      return;
    }
    std::vector<RasReportView>& reports = by_file[row.node_id];
    if (row.kind == LogKind::kVersion) {
      reports.push_back(
          {.file = file->second.name, .text = row.text, .time_ns = row.timestamp_ns, .comms = {}, .processes = {}});
      reports.back().timed = !lacks(file->second, kLacksTimes);
      reports.back().from_memory = file->second.agent_version == kNcclMemoryFormat;
      return;
    }
    const auto statement = ras_statement_from_text(row.text);
    if (statement && !reports.empty()) {
      take(*statement, reports.back());
    }
  }));
  for (auto& [node, reports] : by_file) {
    std::ranges::move(reports, std::back_inserter(all));
  }
  std::ranges::stable_sort(all, {}, &RasReportView::time_ns);
  return all;
}

}  // namespace stalltrace::analysis
