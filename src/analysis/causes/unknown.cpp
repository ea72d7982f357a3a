// SPDX-License-Identifier: Apache-2.0
// unknown: time was lost and no rule covers half of it. Says where it is known, and which evidence is missing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analysis/causes/cause.h"
#include "analysis/wait_graph.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

void judge(const Scene& scene, const Stall& stall, std::vector<Explanation>& out) {
  Explanation opinion{.cause = Cause::kUnknown, .applies = true};
  if (stall.part != StallPart::kTransfer && stall.suspects.size() == 1) {
    opinion.place.culprit = stall.suspects[0];
    opinion.why = fmt::format("{} is the last rank, why is not seen", short_name(scene.cluster, stall.suspects[0]));
  } else if (stall.part == StallPart::kTransfer) {
    const WaitGraph graph = build_wait_graph(scene.flows, scene.evidence, stall.members, stall.examined());
    if (graph.sinks.size() == 1) {
      opinion.place.culprit = graph.sinks[0];
      opinion.why =
          fmt::format("the others wait for {} by their connections", short_name(scene.cluster, graph.sinks[0]));
    }
  }
  out.push_back(std::move(opinion));
}

std::vector<std::string> missing_evidence(const Scene& scene, MemberIndex culprit) {
  const EvidencePresence& presence = scene.evidence.presence();
  std::vector<std::string> missing;
  if (!presence.wait_spans || (culprit != kNoMember && !scene.evidence.has_waits(culprit))) {
    missing.emplace_back("scheduler states of the rank (wait_span)");
  }
  if (!presence.connections) {
    missing.emplace_back("the ranks' connections (connection)");
  }
  if (!presence.tcp_events) {
    missing.emplace_back("retransmissions and congestion states (tcp_events)");
  }
  if (!presence.tcp_samples) {
    missing.emplace_back("connection samples (tcp_sample)");
  }
  return missing;
}

void tell(const Scene& scene, const Folded& group, Finding& finding) {
  const MemberIndex culprit = group.place.culprit;
  const std::string where = culprit == kNoMember
                                ? "Collectives were slow"
                                : fmt::format("The others waited for {}", scene.cluster.describe(culprit));
  const std::vector<std::string> missing = missing_evidence(scene, culprit);
  const auto failed = [&](const Member& member) {
    return member.exit_ns && *member.exit_ns <= finding.window.to_ns &&
           (member.exit_signal || member.exit_code.value_or(0) != 0);
  };
  const bool exited = culprit != kNoMember && failed(scene.cluster.member(culprit));
  finding.summary = fmt::format("{}, and the recording does not show why: {}.", where, cost_text(group));
  if (missing.empty()) {
    finding.evidence.push_back(
        {"rule", 0, "every kind of evidence is there, but none covers half of the stalled time", {}});
  } else {
    finding.evidence.push_back(
        {"missing", static_cast<int64_t>(missing.size()), fmt::format("missing: {}", fmt::join(missing, ", ")), {}});
  }
  for (size_t i = 0; i < scene.cluster.members().size(); ++i) {
    const Member& member = scene.cluster.members()[i];
    if (failed(member)) {
      finding.evidence.push_back(
          {"process_exit",
           1,
           member.exit_signal ? fmt::format("{} was ended by signal {}",
                                            scene.cluster.describe(static_cast<MemberIndex>(i)), *member.exit_signal)
                              : fmt::format("{} ended", scene.cluster.describe(static_cast<MemberIndex>(i))),
           {}});
    }
  }
  finding.remedy = exited ? "see why that process ended (its log, dmesg for the OOM killer) before anything else"
                   : missing.empty()
                       ? "look at the device side (GPU clocks, ECC, NVLink) and at stalltrace query for this window"
                       : "record again with network and scheduler tracing on, on every node (stalltrace check tells "
                         "what this host lacks)";
}

}  // namespace

const CauseRule kUnknownRule{Cause::kUnknown, kUnknownGate, judge, nullptr, tell};

}  // namespace stalltrace::analysis
