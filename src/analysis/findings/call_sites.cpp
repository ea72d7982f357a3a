// SPDX-License-Identifier: Apache-2.0
#include "analysis/findings/call_sites.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "analysis/causes/cause.h"
#include "analysis/thresholds/bounds.h"
#include "base/text.h"
#include "model/streams/node_streams.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kFramesReported = 3;
constexpr size_t kSitesReported = 4;
constexpr size_t kRanksReported = 8;

/// The callers, innermost first; empty if there are none.
std::string callers_of(const std::string& frames) {
  std::vector<std::string> callers;
  for (const std::string_view frame : split(frames, '\n')) {
    callers.emplace_back(frame);
  }
  if (callers.size() < 2) {
    return {};
  }
  callers.erase(callers.begin());
  callers.resize(std::min(callers.size(), kFramesReported));
  return fmt::format("{}", fmt::join(callers, " < "));
}

/// Per rank, the stack id of its first call on the finding's communicator that had not ended when the hang did: calls
/// that only launch queue up behind it.
Result<std::map<MemberIndex, int64_t>> open_calls(EventSource& source, const Cluster& cluster, const Finding& finding) {
  const int64_t slack_ns = cluster.clock().largest_shift_ns() + kEvidenceMarginNs;
  std::map<MemberIndex, int64_t> inside;
  ST_TRY(stream_by_node<Collective>(
      source, {finding.window.from_ns - slack_ns, finding.window.to_ns + slack_ns}, nullptr,
      [&](const Collective& call) {
        const MemberIndex member = cluster.find(call.node_id, call.pid);
        if (call.comm_id_hash != finding.comm_id_hash || member == kNoMember ||
            (finding.attempt && cluster.attempt_of(member) + int64_t{1} != *finding.attempt)) {
          return;
        }
        const auto end_ns = call.end_ns();
        const bool ended = end_ns && cluster.clock().to_common(call.node_id, *end_ns) < finding.window.to_ns;
        if (ended) {
          inside.erase(member);
        } else {
          inside.try_emplace(member, call.stack_id);
        }
      }));
  std::erase_if(inside, [](const auto& entry) { return entry.second == 0; });
  return inside;
}

std::string text_of(const Cluster& cluster, const std::vector<MemberIndex>& members, const std::string& callers) {
  std::vector<std::string> names;
  for (size_t i = 0; i < members.size() && i < kRanksReported; ++i) {
    names.push_back(short_name(cluster, members[i]));
  }
  return fmt::format("{}{} called from {}", fmt::join(names, ", "), members.size() > kRanksReported ? ", ..." : "",
                     callers);
}

bool may_have_open_calls(const Finding& finding) {
  return finding.severity == Severity::kCritical || finding.severity == Severity::kWaiting;
}

}  // namespace

Status add_call_sites(EventSource& source, const Cluster& cluster, std::vector<Finding>& findings) {
  std::map<int64_t, std::string> frames;
  for (Finding& finding : findings) {
    if (!may_have_open_calls(finding) || finding.comm_id_hash == 0) {
      continue;
    }
    ST_ASSIGN(const auto inside, open_calls(source, cluster, finding));
    if (!inside.empty() && frames.empty()) {
      ST_ASSIGN(std::vector<Stack> stacks, source.stacks());
      for (Stack& stack : stacks) {
        frames[stack.stack_id] = std::move(stack.frames);
      }
    }
    std::map<std::string, std::vector<MemberIndex>> sites;
    for (const auto& [member, stack] : inside) {
      if (std::string callers = callers_of(frames[stack]); !callers.empty()) {
        sites[std::move(callers)].push_back(member);
      }
    }
    size_t reported = 0;
    for (auto& [callers, members] : sites) {
      std::ranges::sort(members, {}, [&](MemberIndex member) { return cluster.member(member).rank.value_or(-1); });
      if (reported++ < kSitesReported) {
        finding.evidence.push_back(
            {"stack", static_cast<int64_t>(members.size()), text_of(cluster, members, callers), {}});
      }
    }
  }
  return {};
}

}  // namespace stalltrace::analysis
