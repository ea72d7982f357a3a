// SPDX-License-Identifier: Apache-2.0
// The evidence kinds that each node was able to record. A kind that a kernel can't give is absent from its recording,
// and that absence proves nothing.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "analysis/causes/decision.h"
#include "model/evidence_kind.h"

namespace stalltrace::analysis {

/// An evidence kind that a rank's node does not record.
struct UnrecordedKind {
  EvidenceKind kind{};
  MemberIndex member = kNoMember;  // one of the ranks on that node
};

/// The kinds that the nodes of the stalled communicator's ranks do not record, each once.
std::vector<UnrecordedKind> unrecorded_kinds(const AnalysisContext& context, const Stall& stall);

/// Withdraws `hypotheses` of a rule that relies on the absence of `kinds` if a node did not record one of them.
void distrust_absence(const AnalysisContext& context, const Stall& stall, std::span<const EvidenceKind> kinds,
                      std::span<Hypothesis> hypotheses);

/// "errors of sockets (node2, Linux 5.10.0-32-amd64)"
std::string unrecorded_text(const AnalysisContext& context, const UnrecordedKind& kind);

/// One note for all nodes that lack the same kinds.
std::vector<std::string> notes_on_unrecorded(const std::vector<Node>& nodes);

}  // namespace stalltrace::analysis
