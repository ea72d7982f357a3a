// SPDX-License-Identifier: Apache-2.0
// Calls of one number that differ between ranks, by the order of calls alone.
#pragma once

#include <optional>
#include <vector>

#include "analysis/order/call_order.h"
#include "model/finding.h"

namespace stalltrace::analysis {

struct Mismatched {
  bool misaligned = false;  // nothing agrees: the numbers do not mean the same
  std::optional<Finding> finding;
};

/// On the first number whose calls differ. `members` have calls.
Mismatched find_mismatch(const OrderEvidence& evidence, const CommOrder& comm, const OrderMembers& members);

}  // namespace stalltrace::analysis
