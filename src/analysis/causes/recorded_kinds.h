// SPDX-License-Identifier: Apache-2.0
// Which kinds of evidence the nodes could record at all. What a kernel does not give is absent from its recording, and
// that absence proves nothing.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "analysis/causes/decision.h"
#include "model/evidence_kind.h"

namespace stalltrace::analysis {

/// A kind of evidence that a rank's node does not record.
struct UnrecordedKind {
  EvidenceKind kind{};
  MemberIndex member = kNoMember;  // one of the ranks there
};

/// The kinds that the node of some rank of the stall's communicator does not record, each once.
std::vector<UnrecordedKind> unrecorded_kinds(const AnalysisContext& context, const Stall& stall);

/// Takes back `opinions` whose rule concludes something from the absence of `kinds` where a node did not record them.
void distrust_absence(const AnalysisContext& context, const Stall& stall, std::span<const EvidenceKind> kinds,
                      std::span<Hypothesis> hypotheses);

/// "errors of sockets (node2, Linux 5.10.0-32-amd64)"
std::string unrecorded_text(const AnalysisContext& context, const UnrecordedKind& kind);

/// One note for all nodes that lack the same kinds.
std::vector<std::string> notes_on_unrecorded(const std::vector<Node>& nodes);

}  // namespace stalltrace::analysis
