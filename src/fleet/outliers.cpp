// SPDX-License-Identifier: Apache-2.0
#include "fleet/outliers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/numbers/median.h"

namespace stalltrace::fleet {
namespace {

std::optional<double> number_of(const Value& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    return static_cast<double>(*integer);
  }
  const auto* real = std::get_if<double>(&value);
  return real != nullptr && std::isfinite(*real) ? std::optional(*real) : std::nullopt;
}

}  // namespace

std::vector<double> robust_z_scores(std::span<const double> values) {
  // Of normally distributed values, the standard deviation over the median and over the mean absolute deviation.
  constexpr double kOfMedian = 1.4826;
  constexpr double kOfMean = 1.2533;
  if (values.empty()) {
    return {};
  }
  const double centre = mean_median({values.begin(), values.end()});
  std::vector<double> distances;
  for (const double value : values) {
    distances.push_back(std::abs(value - centre));
  }
  double scale = kOfMedian * mean_median(distances);
  if (scale == 0) {
    scale = kOfMean * std::accumulate(distances.begin(), distances.end(), 0.0) / static_cast<double>(distances.size());
  }
  std::vector<double> scores;
  for (const double value : values) {
    scores.push_back(scale == 0 ? 0 : (value - centre) / scale);
  }
  return scores;
}

Status OutlierSink::columns(const std::vector<std::string>& names) {
  const auto found = std::ranges::find(names, column_);
  if (found == names.end()) {
    return fail(fmt::format("--outliers: the rows have no column '{}'", column_),
                fmt::format("they have {}", fmt::join(names, ", ")), ErrorKind::kUsage);
  }
  index_ = static_cast<size_t>(found - names.begin());
  names_ = names;
  names_.emplace_back("z");
  return {};
}

Result<bool> OutlierSink::row(std::span<const Value> values) {
  rows_.emplace_back(values.begin(), values.end());
  return true;
}

Status OutlierSink::finish() {
  if (names_.empty()) {
    return {};
  }
  std::vector<double> numbers;
  for (const auto& row : rows_) {
    if (const auto number = number_of(row[index_])) {
      numbers.push_back(*number);
    }
  }
  const std::vector<double> scores = robust_z_scores(numbers);
  auto score = scores.begin();
  for (auto& row : rows_) {
    const bool is_number = number_of(row[index_]).has_value();
    row.emplace_back();
    if (is_number) {
      row.back() = std::round(*score++ * 100) / 100;
    }
  }
  std::ranges::stable_sort(rows_, std::greater(), [](const std::vector<Value>& row) {
    const auto* z = std::get_if<double>(&row.back());
    return z == nullptr ? -1 : std::abs(*z);
  });
  ST_TRY(next_.columns(names_));
  for (const auto& row : rows_) {
    ST_ASSIGN(const bool more, next_.row(row));
    if (!more) {
      break;
    }
  }
  return {};
}

}  // namespace stalltrace::fleet
