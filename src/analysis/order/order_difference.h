// SPDX-License-Identifier: Apache-2.0
// Ranks of one communicator whose logs or dumps end with different calls: whether those that are behind are missing
// from a call that the others began, or only the ends of their logs are. Internal to analysis/order.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "analysis/order/call_order.h"

namespace stalltrace::analysis {

struct OrderDifference {
  const OrderEvidence& evidence;
  const CommOrder& comm;
  OrderMembers away;  // their last call has one number ...
  OrderMembers came;  // ... and these began later ones

  /// The last call of those who are away.
  [[nodiscard]] const LoggedCall& before() const { return away.front()->calls.back(); }
  /// The first one that they did not begin.
  [[nodiscard]] const LoggedCall& missing() const;
  /// True if those who are away are to blame, and not those who came.
  [[nodiscard]] bool minority() const { return away.size() < came.size() || (away.size() == 1 && came.size() == 1); }
};

/// What separates a rank that is missing from a log that ends early.
struct OrderProof {
  const Timeout* timeout = nullptr;  // a watchdog reported the call
  bool left = false;                 // the missing ranks destroyed the communicator
  bool silent = false;               // their logs go on without the call
  bool outside = false;              // the call before has ended
  int64_t begin_ns = 0;              // when the last of the others began the missing call
  int64_t waited_ns = 0;             // from then on to the last that is known
  int64_t longest_pause_ns = 0;      // of the others between two calls before
  [[nodiscard]] bool any() const { return timeout != nullptr || left || silent; }
};

/// Empty: they are missing from the call, and `proof` has what shows it. Else why it shows nothing, as the end of a
/// note. `recorded`: ranks of communicators that recordings show. `ahead`: calls between the first and the last rank.
std::string why_not_missing(const OrderDifference& difference, const std::set<std::pair<CommHash, int32_t>>& recorded,
                            int64_t ahead, OrderProof& proof);

}  // namespace stalltrace::analysis
