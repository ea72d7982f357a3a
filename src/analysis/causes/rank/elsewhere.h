// SPDX-License-Identifier: Apache-2.0
// What a late rank did on other communicators: if it waited there for another rank, that rank is judged instead.
#pragma once

#include <cstdint>
#include <string>

#include "analysis/causes/cause.h"

namespace stalltrace::analysis {

/// A call on another communicator that a rank was inside of for most of an interval.
struct Elsewhere {
  uint32_t sequence = 0;
  int64_t number = 0;
  int64_t inside_ns = 0;
};

/// The call that takes most of the window; where the device's start of it is known, from then on. A call of a batch may
/// have been done long before its end.
Elsewhere elsewhere(const AnalysisContext& context, const Stall& stall, MemberIndex member, Interval window);

/// The rank was inside `call` for most of the stall: if it only waited there, for another rank or for ranks that were
/// not recorded, it is not to blame.
void follow(const AnalysisContext& context, const Stall& stall, const Elsewhere& call, Hypothesis& hypothesis);

/// A communicator on which the rank has calls and those of some ranks are not known: the rank may wait there in turn.
/// Null if there is none.
const Group* partly_known_communicator(const AnalysisContext& context, MemberIndex member);

/// The calls that follow() counted in a group's stalls, with the longest as text; empty where there are none.
EvidenceCounter elsewhere_counter(const CauseGroup& group);
std::string elsewhere_text(const CauseGroup& group);

}  // namespace stalltrace::analysis
