// SPDX-License-Identifier: Apache-2.0
// Calls of one number that differ between ranks, by the order of calls alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/order/call_order.h"
#include "model/finding.h"

namespace stalltrace::analysis {

struct Mismatched {
  std::string
      misaligned;  // nothing agrees, so that numbers may not mean the same: the first calls; empty: it is not so
  std::optional<Finding> finding;
};

/// On the first number whose calls differ. `members` have calls.
Mismatched find_mismatch(const OrderEvidence& evidence, const CommOrder& comm, const OrderMembers& members);

}  // namespace stalltrace::analysis
