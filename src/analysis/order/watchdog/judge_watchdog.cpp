// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/watchdog/judge_watchdog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "analysis/order/watchdog/group_findings.h"
#include "analysis/order/watchdog/group_judge.h"
#include "analysis/rank_numbers.h"
#include "analysis/thresholds/order.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kMostFindings = 8;

/// Ranks of which no line is there: one of them may hold up the others.
void add_silent_ranks(const WatchdogLogs& logs, Finding& finding) {
  const MissingRanks missing = ranks_without_line(logs);
  const int32_t highest = logs.ranks.empty() ? -1 : *logs.ranks.rbegin();
  const bool open = logs.world_size <= highest;  // how many ranks the job has is not known
  if (missing.empty() && !open) {
    return;
  }
  const std::string below = missing.empty() ? "" : missing.text();
  const std::string above = open ? fmt::format("any rank above {}, if the job has more", highest) : "";
  finding.evidence.push_back({"log_line",
                              0,
                              fmt::format("no line of the watchdog of {}{}{}: the cause may be there", below,
                                          below.empty() || above.empty() ? "" : ", nor of ", above),
                              {}});
}

/// Some operations may have other sizes on each rank, so that this is no finding by itself.
void add_sizes(const WatchdogGroup& group, const WatchdogRanks& ranks, Finding& finding) {
  std::map<int64_t, WatchdogRanks> sizes;
  for (const int32_t rank : ranks) {
    const WatchdogState& state = group.ranks.at(rank);
    if (state.elements && state.waits_in == group.ranks.at(ranks.front()).waits_in) {
      sizes[*state.elements].push_back(rank);
    }
  }
  if (sizes.size() < 2) {
    return;
  }
  constexpr size_t kSizesNamed = 3;
  std::vector<std::string> texts;
  for (const auto& [elements, of] : sizes) {
    if (texts.size() < kSizesNamed) {
      texts.push_back(fmt::format("{} {}", ranks_text(of), count_of(elements, "element")));
    }
  }
  finding.evidence.push_back({"log_line",
                              std::ssize(sizes),
                              fmt::format("their sizes differ ({}), which NCCL allows only where the operation has a "
                                          "size for each rank",
                                          fmt::join(texts, "; ")),
                              {}});
}

/// The logs do not show who is behind: the job hung all the same.
void add_all_wait(const WatchdogLogs& logs, const WatchdogGroup& group, const WatchdogWaits& waits,
                  WatchdogVerdicts& out) {
  const GroupFindings findings(logs, group);
  const WatchdogRanks& ranks = waits.ranks;
  Finding finding = findings.finding_of(Cause::kUnknown, kSomeRanksConfidence, ranks);
  const auto waiting =
      std::ranges::find_if(ranks, [&](int32_t rank) { return group.ranks.at(rank).waits_in.has_value(); });
  const int64_t number = *group.ranks.at(*waiting).waits_in;
  finding.summary =
      waits.compared
          ? fmt::format("{} waited in {} until PyTorch's watchdog reported it; {}.", ranks_text(ranks),
                        findings.call_text(number, ranks),
                        ranks.size() > 1 ? "none of them is behind" : "whether another rank is behind is not known")
          : fmt::format(
                "{} waited in collectives until PyTorch's watchdog reported it; which rank is behind is not "
                "known.",
                ranks_text(ranks));
  finding.summary[0] = 'R';
  if (!waits.why.empty()) {
    finding.evidence.push_back({"log_line", 0, waits.why, {}});
  }
  add_sizes(group, ranks, finding);
  add_silent_ranks(logs, finding);
  finding.remedy =
      "give the logs of all ranks; if all wait, look at the transfer: links, NICs and GPUs of these ranks (dmesg: "
      "Xid). "
      "The cause was not recorded: run the job with stalltrace run, or with NCCL_DEBUG=INFO";
  out.findings.push_back(std::move(finding));
}

/// Each group lacks ranks that wait in another one.
void add_crossed(const WatchdogLogs& logs, const std::vector<const WatchdogGroup*>& groups, WatchdogVerdicts& out) {
  WatchdogRanks waiting;
  for (const auto& [rank, state] : groups.front()->ranks) {
    if (state.waits_in) {
      waiting.push_back(rank);
    }
  }
  Finding finding =
      GroupFindings(logs, *groups.front()).finding_of(Cause::kMissingCollective, kSomeRanksConfidence, waiting);
  finding.summary =
      fmt::format("Ranks wait for each other in calls of {}: each of these calls lacks ranks that wait in another one.",
                  count_of(std::ssize(groups), "process group"));
  finding.remedy =
      "compare in which order these ranks call collectives of these process groups: it has to be the same on all of "
      "them";
  out.findings.push_back(std::move(finding));
}

/// A rank that is behind is so in each of its groups.
void join_of_one_rank(std::vector<Finding>& findings) {
  std::vector<Finding> kept;
  for (Finding& finding : findings) {
    const auto same = std::ranges::find_if(kept, [&](const Finding& one) {
      return one.cause == finding.cause && one.culprit && finding.culprit && one.culprit->rank == finding.culprit->rank;
    });
    if (same == kept.end()) {
      kept.push_back(std::move(finding));
    } else {
      same->evidence.push_back({"log_line", 1, finding.summary, {}});
    }
  }
  findings = std::move(kept);
}

}  // namespace

WatchdogVerdicts judge_watchdog(const WatchdogLogs& logs) {
  WatchdogVerdicts out;
  std::pair<const WatchdogGroup*, WatchdogWaits> largest{nullptr, {}};
  std::vector<const WatchdogGroup*> held_up;
  int64_t waiting_groups = 0;
  for (const WatchdogGroup& group : logs.groups) {
    WatchdogWaits waits = GroupJudge(logs, group, out).judge();
    if (waits.held_up) {
      held_up.push_back(&group);
    }
    waiting_groups += waits.ranks.empty() ? 0 : 1;
    if (waits.ranks.size() > largest.second.ranks.size()) {
      largest = {&group, std::move(waits)};
    }
  }
  if (!out.findings.empty()) {
    join_of_one_rank(out.findings);
    out.findings.resize(std::min(out.findings.size(), kMostFindings));
    return out;
  }
  if (largest.first != nullptr) {
    add_all_wait(logs, *largest.first, largest.second, out);
    if (waiting_groups > 1) {
      out.findings.back().evidence.push_back(
          {"log_line",
           waiting_groups,
           fmt::format("{} have calls that did not end", count_of(waiting_groups, "process group")),
           {}});
    }
  } else if (!held_up.empty()) {
    add_crossed(logs, held_up, out);
  } else if (!logs.without_number.empty()) {
    WatchdogGroup unnamed;
    WatchdogRanks ranks;
    for (const auto& [rank, state] : logs.without_number) {
      unnamed.ranks.emplace(rank, state);
      ranks.push_back(rank);
    }
    Finding finding = GroupFindings(logs, unnamed).finding_of(Cause::kUnknown, kSomeRanksConfidence, ranks);
    finding.summary = fmt::format("{} waited in a collective until PyTorch's watchdog reported it.", ranks_text(ranks));
    finding.summary[0] = 'R';
    finding.remedy =
        "this version's lines have no numbers of calls: run the job with stalltrace run, or with NCCL_DEBUG=INFO and "
        "NCCL_DEBUG_SUBSYS=INIT,COLL";
    out.findings.push_back(std::move(finding));
  }
  return out;
}

}  // namespace stalltrace::analysis
