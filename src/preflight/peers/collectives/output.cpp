// SPDX-License-Identifier: Apache-2.0
#include "preflight/peers/collectives/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "preflight/peers/collectives/operations.h"

namespace stalltrace::preflight {
namespace {

constexpr size_t kSizeWidth = 9;
constexpr size_t kCellWidth = 14;

/// "0.012", "1.25", "188.3"
std::string short_gigabytes(double gigabytes) {
  return gigabytes < 1    ? fmt::format("{:.3f}", gigabytes)
         : gigabytes < 10 ? fmt::format("{:.2f}", gigabytes)
                          : fmt::format("{:.1f}", gigabytes);
}

std::string cell_of(const CollectiveResults& results, const CollectiveTime& time) {
  return fmt::format("{}/{}", short_gigabytes(algbw(time.bytes, time.average_ns)),
                     short_gigabytes(busbw(time.operation, results.ranks, time.bytes, time.average_ns)));
}

}  // namespace

std::string collectives_text(const CollectiveResults& results) {
  if (results.times.empty()) {
    return {};
  }
  const auto operations = collective_operations();
  const std::vector<int64_t> sizes = collective_sizes(results.max_bytes);
  std::vector<std::vector<std::string>> cells(sizes.size(), std::vector<std::string>(operations.size(), "-"));
  std::vector<size_t> rows(operations.size());  // that an operation has: it ends at a size that takes too long
  for (const CollectiveTime& time : results.times) {
    if (const size_t row = rows[time.operation]++; row < cells.size()) {
      cells[row][time.operation] = cell_of(results, time);
    }
  }
  std::string text = fmt::format("collectives of {} by NCCL {}, {}\n", count_of(results.ranks, "rank"),
                                 results.versions.empty() ? "?" : nccl_version_text(results.versions.begin()->first),
                                 printable(results.library));
  text += fmt::format("{:<{}}", "GB/s", kSizeWidth);
  for (const CollectiveOperation& operation : operations) {
    text += fmt::format("{:>{}}", operation.name, kCellWidth);
  }
  text += "\n";
  for (size_t row = 0; row < *std::ranges::max_element(rows) && row < sizes.size(); ++row) {
    text += fmt::format("{:<{}}", format_size(sizes[row]), kSizeWidth);
    for (const std::string& cell : cells[row]) {
      text += fmt::format("{:>{}}", cell, kCellWidth);
    }
    text += "\n";
  }
  return text + "by the algorithm/on the bus, as nccl-tests has it; -: not measured\n\n";
}

nlohmann::ordered_json collectives_json(const CollectiveResults& results) {
  using Json = nlohmann::ordered_json;
  Json times = Json::array();
  for (const CollectiveTime& time : results.times) {
    times.push_back({{"operation", collective_operations()[time.operation].name},
                     {"bytes", time.bytes},
                     {"calls", time.calls},
                     {"time_ns", time.average_ns},
                     {"min_time_ns", time.least_ns},
                     {"max_time_ns", time.most_ns},
                     {"slowest_rank", time.slowest_rank},
                     {"algbw_gb_per_s", algbw(time.bytes, time.average_ns)},
                     {"busbw_gb_per_s", busbw(time.operation, results.ranks, time.bytes, time.average_ns)}});
  }
  Json wrong = Json::array();
  for (const WrongResults& one : results.wrong) {
    wrong.push_back({{"operation", collective_operations()[one.operation].name},
                     {"bytes", one.bytes},
                     {"rank", one.rank},
                     {"elements", one.elements}});
  }
  Json versions = Json::object();
  for (const auto& [version, ranks] : results.versions) {
    versions[nccl_version_text(version)] = ranks;
  }
  return {{"ranks", results.ranks},           {"library", results.library},
          {"versions", std::move(versions)},  {"max_bytes", results.max_bytes},
          {"connect_ns", results.connect_ns}, {"complete", results.faults.empty() && !results.cut_short},
          {"times", std::move(times)},        {"wrong", std::move(wrong)}};
}

}  // namespace stalltrace::preflight
