// SPDX-License-Identifier: Apache-2.0
#include "analysis/launches/ras_reports.h"

#include <algorithm>

#include "model/events/imported_evidence.h"

namespace stalltrace::analysis {
namespace {

void take(const RasStatement& said, RasReportView& report) {
  if (said.hash == 0) {
    report.processes.push_back({said.host, said.pid, said.gpu, said.state});
    return;
  }
  RasComm& comm = report.comms[said.hash];
  comm.hash = said.hash;
  comm.nranks = std::max(comm.nranks, said.nranks);
  comm.whole_job = comm.whole_job || said.whole_job;
  comm.leaving = comm.leaving || said.state == RasState::kFinalize || said.state == RasState::kAbort;
  if (!said.rank) {
    for (const auto& [operation, count] : said.launched) {
      comm.unnamed[operation][count] += said.members;
    }
    if (said.init_error != 0) {
      comm.unnamed_init_errors[said.init_error] += said.members;
    }
    if (said.async_error != 0) {
      comm.unnamed_async_errors[said.async_error] += said.members;
    }
    const bool missing = said.state == RasState::kDead || said.state == RasState::kUnresponsive;
    comm.unnamed_missing += missing ? said.members : 0;
    return;
  }
  RasRank& rank = comm.ranks[*said.rank];
  rank.rank = *said.rank;
  rank.host = said.host.empty() ? rank.host : said.host;
  rank.pid = said.pid == 0 ? rank.pid : said.pid;
  rank.gpu = said.gpu ? said.gpu : rank.gpu;
  rank.state = said.state == RasState::kUnsaid ? rank.state : said.state;
  rank.init_error = said.init_error == 0 ? rank.init_error : said.init_error;
  rank.async_error = said.async_error == 0 ? rank.async_error : said.async_error;
  for (const auto& [operation, count] : said.launched) {
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
    if (node.agent_version == kRasFormat) {
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
      return;
    }
    const auto said = ras_statement_from_text(row.text);
    if (said && !reports.empty()) {
      take(*said, reports.back());
    }
  }));
  for (auto& [node, reports] : by_file) {
    std::ranges::move(reports, std::back_inserter(all));
  }
  std::ranges::stable_sort(all, {}, &RasReportView::time_ns);
  return all;
}

}  // namespace stalltrace::analysis
