// SPDX-License-Identifier: Apache-2.0
// Which rows are far from the rest.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/table_rows.h"

namespace stalltrace::fleet {

/// The robust z-scores of `values`: (x - median) / (1.4826 * median absolute deviation), which is the ordinary z-score
/// of normally distributed values and is not moved by the outliers themselves. Where more than half of the values are
/// equal, the mean absolute deviation replaces the median's (times 1.2533). All values equal: 0.
std::vector<double> robust_z_scores(std::span<const double> values);

/// Keeps rows, and delivers them with a last column `z`: the robust z-score of `column`, farthest first. Rows whose
/// value is no number have NULL there, and come last.
class OutlierSink final : public RowSink {
 public:
  OutlierSink(std::string column, RowSink& next) : column_(std::move(column)), next_(next) {}

  Status columns(const std::vector<std::string>& names) override;
  Result<bool> row(std::span<const Value> values) override;
  Status finish();

 private:
  std::string column_;
  RowSink& next_;
  std::vector<std::string> names_;
  size_t index_ = 0;
  std::vector<std::vector<Value>> rows_;
};

}  // namespace stalltrace::fleet
