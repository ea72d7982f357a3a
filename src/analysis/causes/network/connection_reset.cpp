// SPDX-License-Identifier: Apache-2.0
// connection_reset: a reset or an error ended a connection of the job before any process had ended or given up.
// Processes that end close their connections themselves.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <map>
#include <set>

#include "analysis/causes/cause.h"
#include "analysis/causes/network/common_location.h"
#include "analysis/causes/network/links.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/gates.h"
#include "analysis/thresholds/network.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

enum class Counted : uint8_t { kResets, kErrors };

constexpr std::array kBroken{ECONNRESET, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, ECONNABORTED, EPIPE};

bool breaks(const ConnectionError& error) {
  return error.kind == TcpEventKind::kResetReceived || error.kind == TcpEventKind::kResetSent ||
         (error.kind == TcpEventKind::kSocketError &&
          std::find(kBroken.begin(), kBroken.end(), error.error) != kBroken.end());
}

/// The first time on each host at which a rank of the job ended or gave up its communicators.
class Ends {
 public:
  explicit Ends(const AnalysisContext& context) : clock_(context.cluster.clock()) {
    for (const Member& member : context.cluster.members()) {
      if (member.exit_ns && context.concerns(member)) {
        add(member.node_id, *member.exit_ns);
      }
    }
    for (const CommunicatorCall& call : context.timeline.communicator_calls()) {
      const bool ends = call.op == Operation::kCommAbort || call.op == Operation::kCommDestroy;
      if (ends && context.concerns(context.cluster.member(call.member))) {
        add(context.cluster.member(call.member).node_id, call.arrival_ns);
      }
    }
  }

  /// Events on `node` before this time precede all of these ends, with any clock error.
  [[nodiscard]] int64_t first_ns(NodeId node) const {
    int64_t first_ns = std::numeric_limits<int64_t>::max();
    for (const auto& [host, end_ns] : first_) {
      first_ns = std::min(first_ns, host == clock_.host(node) ? end_ns : end_ns - kDeathToResetNs);
    }
    return first_ns;
  }

 private:
  void add(NodeId node, int64_t time_ns) {
    const auto [found, fresh] = first_.try_emplace(clock_.host(node), time_ns);
    found->second = std::min(found->second, time_ns);
  }

  const Clock& clock_;
  std::map<size_t, int64_t> first_;
};

/// Connections that were never established: a refusal is a reset as well.
std::set<FlowIndex> refused_flows(const EvidenceStore& evidence) {
  std::set<FlowIndex> refused;
  for (const ConnectionError& error : evidence.connection_errors()) {
    if (error.kind == TcpEventKind::kConnectFailed) {
      refused.insert(error.flow);
    }
  }
  return refused;
}

/// True if the process at an end of the connection closed it before the reset, as a process that is about to end does:
/// a close with unread data reaches the peer as a reset. A connection that is ended from outside is reset first.
bool closed_before(const AnalysisContext& context, const ConnectionError& error) {
  const Flow& flow = context.flows.flow(error.flow);
  if (error.kind == TcpEventKind::kResetSent) {
    return flow.closed_ns <= error.time_ns;
  }
  if (flow.reverse == kNoFlow || context.flows.flow(flow.reverse).closed_ns >= error.time_ns) {
    return false;
  }
  const Flow& other = context.flows.flow(flow.reverse);
  const auto& connection_errors = context.evidence.connection_errors();
  return context.cluster.member(other.owner).exit_ns &&
         std::none_of(connection_errors.begin(), connection_errors.end(), [&](const ConnectionError& earlier) {
           return earlier.flow == flow.reverse && earlier.kind == TcpEventKind::kResetSent &&
                  earlier.time_ns <= other.closed_ns;
         });
}

/// Too close to a rank's end to be its cause for certain: a process that ends closes its connections before or at its
/// end.
bool too_close(const AnalysisContext& context, const Ends& ends, const ConnectionError& error) {
  const int64_t end_ns = ends.first_ns(context.flows.flow(error.flow).node_id);
  return error.time_ns >= end_ns || closed_before(context, error);
}

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  if (!stall.hung() && stall.part() != StallPart::kAbsent) {
    return;
  }
  const std::vector<FlowIndex> flows = flows_of(context, stall, kResetBeforeNs);  // a reset closes at once
  const std::set<FlowIndex> refused = refused_flows(context.evidence);
  const Ends ends(context);
  const bool all_recorded = context.timeline.groups()[stall.group].all_took_part;
  Hypothesis hypothesis{.cause = Cause::kConnectionReset};
  std::vector<FaultLocation> locations;
  int64_t first_ns = 0;
  for (const ConnectionError& error : context.evidence.connection_errors()) {
    if (!breaks(error) || error.time_ns < stall.window.from_ns - kResetBeforeNs ||
        error.time_ns >= stall.window.to_ns || too_close(context, ends, error) || refused.contains(error.flow) ||
        !all_recorded ||  // the process at the other end may have ended
        std::find(flows.begin(), flows.end(), error.flow) == flows.end()) {
      continue;
    }
    first_ns = locations.empty() ? error.time_ns : first_ns;
    if (error.time_ns - first_ns > kResetsApartNs) {
      break;
    }
    locations.push_back(link_of(context.flows, error.flow, error.kind == TcpEventKind::kResetSent));
    EvidenceCounter& counter =
        hypothesis.counters.at(error.kind == TcpEventKind::kSocketError ? Counted::kErrors : Counted::kResets);
    ++counter.count;
    counter.events.push_back(error.id);
  }
  if (locations.empty()) {
    return;
  }
  hypothesis.location = locations.front();
  blame_common_end(context, locations, hypothesis.location);
  const int64_t after_ns = stall.window.to_ns - std::max(first_ns, stall.window.from_ns);
  hypothesis.coverage = stall.ended_job() && stall.root().kind == HangKind::kTransfer
                            ? 1
                            : share_of(after_ns, stall.window.length());  // it ended the job, at any delay
  hypothesis.applies = hypothesis.coverage >= kCoverage;
  hypothesis.why = fmt::format("a connection was reset {} before the end of {}", format_duration(after_ns),
                               format_duration(stall.window.length()));
  out.push_back(std::move(hypothesis));
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const EvidenceCounter resets = group.counters.sum(Counted::kResets);
  const EvidenceCounter errors = group.counters.sum(Counted::kErrors);
  const Flow& flow = context.flows.flow(group.location.flow);
  const std::string where =
      group.location.at_one_end() ? "of " + end_text(context, group.location) : link_text(context, group.location);
  finding.summary = fmt::format("A connection {} was reset though no process had ended: {}.", where, cost_text(group));
  finding.link = link_endpoints(context, group.location);
  finding.evidence.push_back({"tcp_receive_reset", resets.count,
                              fmt::format("{} and {} on {} -> {}, before any rank ended or aborted its communicator",
                                          count_of(resets.count, "reset"), count_of(errors.count, "socket error"),
                                          format_endpoint(flow.src), format_endpoint(flow.dst)),
                              resets.events});
  finding.evidence.push_back(waiting_evidence(context, *group.stalls.front()));
  finding.remedy = fmt::format(
      "look for what ends connections between {} and {}: a firewall or load balancer that rejects or forgets them, an "
      "address used twice, ss -K by a user",
      flow.src.address, flow.dst.address);
}

}  // namespace

extern const CauseRule kConnectionResetRule{
    .cause = Cause::kConnectionReset,
    .gate = kHangGate,
    .needs = "it did not hang after a reset or an error of a connection between its ranks",
    .judge = judge,
    .refine = join_by_end,
    .describe = describe,
    .ends_jobs = true};

}  // namespace stalltrace::analysis
