// SPDX-License-Identifier: Apache-2.0
// Warnings of NCCL that a transfer over InfiniBand or RoCE failed ("Got completion ... status=12"), by the numbers of
// ibv_wc_status (libibverbs). Internal to analysis/order/set_up.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/events/log.h"
#include "model/finding.h"

namespace stalltrace::analysis {

struct TransferError {
  int32_t status = 0;
  std::string_view peer;  // "10.0.0.1<4545>"; empty: not named
  /// It was given up after an earlier one failed.
  [[nodiscard]] bool follows() const { return status == 5; }
};
/// None for all other texts.
std::optional<TransferError> transfer_error_in(std::string_view text);

/// Such a warning, and who printed it: "rank 3 (node1, pid 42)".
struct TransferWarning {
  std::string who;
  const LogLine* row = nullptr;
  TransferError error;
};
/// None without any that does not follow from another. No culprit: the lines do not show which end, or what between
/// them, failed.
std::optional<Finding> judge_transfer_errors(const std::vector<TransferWarning>& warnings);

}  // namespace stalltrace::analysis
