// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/set_up/open_set_ups.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "analysis/order/call_order.h"
#include "analysis/rank_numbers.h"
#include "analysis/thresholds/order.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

/// One communicator, by the ranks whose set-up the logs show.
struct SetUps {
  CommHash hash = 0;
  int32_t nranks = 0;
  std::set<int32_t> began;
  std::set<int32_t> ended;  // or called something on it
  std::set<LoggedProcessKey> processes;
  int64_t first_ns = 0;
  int64_t last_ns = 0;

  [[nodiscard]] std::vector<int32_t> waiting() const {
    std::vector<int32_t> ranks;
    std::ranges::set_difference(began, ended, std::back_inserter(ranks));
    return ranks;
  }
};

using SetUpsByComm = std::map<CommHash, SetUps>;

Result<SetUpsByComm> read_set_ups(EventSource& source) {
  SetUpsByComm comms;
  ST_TRY(source.collectives({}, [&](const Collective& row) {
    if (row.comm_id_hash == 0 || !row.rank || *row.rank < 0) {
      return;
    }
    SetUps& comm = comms[row.comm_id_hash];
    comm.hash = row.comm_id_hash;
    comm.nranks = std::max(comm.nranks, row.nranks.value_or(0));
    if (!is_communicator_call(row.op) || row.completion != Completion::kOpen) {
      comm.ended.insert(*row.rank);
    }
    if (is_communicator_call(row.op)) {
      comm.first_ns = comm.began.empty() ? row.timestamp_ns : std::min(comm.first_ns, row.timestamp_ns);
      comm.last_ns = std::max(comm.last_ns, row.timestamp_ns);
      comm.began.insert(*row.rank);
      comm.processes.emplace(row.node_id, row.pid);
    }
  }));
  std::erase_if(comms, [](const auto& one) { return one.second.waiting().empty(); });
  return comms;
}

/// No log has an end that proves a hang: it may have been copied while the job started.
Finding finding_on(const SetUps& comm) {
  const std::vector<int32_t> waiting = comm.waiting();
  std::set<int32_t> shown = comm.began;
  shown.insert(comm.ended.begin(), comm.ended.end());
  const MissingRanks missing(shown, comm.nranks);
  const std::string who = ranks_text(waiting);
  Finding finding{.cause = Cause::kInitFailure, .severity = Severity::kWaiting, .confidence = kSomeRanksConfidence};
  finding.cost_known = false;
  finding.op = Operation::kCommInitRank;
  finding.comm_id_hash = comm.hash;
  finding.window = {comm.first_ns, comm.last_ns};
  if (!missing.empty()) {
    finding.summary =
        fmt::format("{} {} in the set-up of a communicator of {}; no log shows that {} began it.", who,
                    waiting.size() == 1 ? "waits" : "wait", count_of(comm.nranks, "rank"), missing.text());
    finding.remedy = fmt::format(
        "give the logs of {}; if there are none, see whether these processes run and where they are (stalltrace "
        "stacks, "
        "py-spy dump), and whether they reach the address of rank 0",
        missing.text());
  } else if (!comm.ended.empty()) {
    finding.confidence = kOrderAloneConfidence;
    finding.summary = fmt::format("{} did not end the set-up of a communicator of {}, which ended on {}.", who,
                                  count_of(comm.nranks, "rank"), ranks_text({comm.ended.begin(), comm.ended.end()}));
    finding.remedy =
        fmt::format("look at the last lines of the log of {}, and where it is (stalltrace stacks, py-spy dump)", who);
  } else {
    finding.summary = fmt::format("All {} of a communicator began its set-up; it ended on none of them.",
                                  count_of(comm.nranks, "rank"));
    finding.remedy =
        "look at the warnings of NCCL and at the interface that each rank chose (NCCL_SOCKET_IFNAME), and whether a "
        "firewall is between the hosts";
  }
  finding.summary[0] = static_cast<char>(finding.summary[0] == 'r' ? 'R' : finding.summary[0]);
  finding.evidence.push_back(
      {"collective", std::ssize(waiting), fmt::format("the logs of {} show no end of it", who), {}});
  finding.evidence.push_back({"log_line", 0, "a log that was copied while the job started looks the same", {}});
  return finding;
}

}  // namespace

Status judge_open_set_ups(EventSource& source, std::vector<Finding>& findings, std::vector<std::string>& notes) {
  ST_ASSIGN(const SetUpsByComm comms, read_set_ups(source));
  const auto largest = std::ranges::max_element(comms, {}, [](const auto& one) { return one.second.nranks; });
  if (largest == comms.end()) {
    return {};
  }
  const SetUps& comm = largest->second;
  bool cut = false;
  ST_TRY(source.log_lines({}, [&](const LogLine& row) {
    cut = cut || (row.kind == LogKind::kCut && comm.processes.contains({row.node_id, row.pid}));
  }));
  if (cut) {
    notes.push_back(
        fmt::format("{} began the set-up of a communicator of {}; whether it ended is not known, since lines "
                    "of the logs are damaged or cut",
                    ranks_text(comm.waiting()), count_of(comm.nranks, "rank")));
    return {};
  }
  findings.push_back(finding_on(comm));
  return {};
}

}  // namespace stalltrace::analysis
