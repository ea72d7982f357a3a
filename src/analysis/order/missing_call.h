// SPDX-License-Identifier: Apache-2.0
// The finding on ranks that did not begin a call that others began, by the order of calls alone.
#pragma once

#include "analysis/order/order_difference.h"
#include "model/finding.h"

namespace stalltrace::analysis {

/// `proof` is what why_not_missing() filled in.
Finding missing_call(const OrderDifference& difference, const OrderProof& proof);

}  // namespace stalltrace::analysis
