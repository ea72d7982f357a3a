// SPDX-License-Identifier: Apache-2.0
#include "import/nccl_tests/json_report.h"

#include <charconv>
#include <cmath>
#include <memory>

#include "base/text.h"
#include "import/json.h"

namespace stalltrace::import {
namespace {

constexpr double kLargestNumber = 1e15;
constexpr int64_t kMostBytes = int64_t{1} << 53;

class Report {
 public:
  explicit Report(const ValueTree& tree) : tree_(tree) {}

  [[nodiscard]] std::optional<int64_t> size_in(ValueIndex dict, std::string_view key) const {
    const auto value = tree_.integer(tree_.find(dict, key));
    return value && *value >= 0 && *value <= kMostBytes ? value : std::nullopt;
  }
  [[nodiscard]] std::optional<double> measure_in(ValueIndex dict, std::string_view key) const {
    const auto value = tree_.real(tree_.find(dict, key));
    return value && std::isfinite(*value) && *value >= 0 && *value <= kLargestNumber ? value : std::nullopt;
  }
  [[nodiscard]] bool denies(ValueIndex dict, std::string_view key) const {
    const ValueIndex value = tree_.find(dict, key);
    return tree_.kind(value) == ValueTree::Kind::kBool && tree_.integer(value) == 0;
  }

  [[nodiscard]] std::optional<BenchmarkNumbers> numbers_in(ValueIndex dict) const {
    const auto time = measure_in(dict, "time");
    const auto time_us = time ? time : measure_in(dict, "cpu_time");
    const auto algbw = measure_in(dict, "alg_bw");
    const auto busbw = measure_in(dict, "bus_bw");
    if (!time_us || !algbw || !busbw) {
      return std::nullopt;
    }
    BenchmarkNumbers numbers{*time_us, *algbw, *busbw, std::nullopt};
    if (const auto wrong = measure_in(dict, "nwrong")) {
      numbers.wrong = static_cast<int64_t>(*wrong);
    }
    return numbers;
  }

  [[nodiscard]] std::optional<BenchmarkRow> row_in(ValueIndex dict) const {
    const auto bytes = size_in(dict, "size");
    BenchmarkRow row;
    const ValueIndex out_of_place = tree_.find(dict, "out_of_place");
    row.out_of_place = numbers_in(out_of_place);
    row.in_place = numbers_in(tree_.find(dict, "in_place"));
    const bool left_out = tree_.kind(out_of_place) == ValueTree::Kind::kNone;
    if (!bytes || !row.in_place || (!row.out_of_place && !left_out)) {
      return std::nullopt;
    }
    row.bytes = *bytes;
    row.count = size_in(dict, "count").value_or(0);
    row.datatype = tree_.text(tree_.find(dict, "type"));
    row.reduce_op = tree_.text(tree_.find(dict, "redop"));
    row.reduce_op = row.reduce_op == "none" ? std::string_view() : row.reduce_op;
    const std::string_view root = trim(tree_.text(tree_.find(dict, "root")));
    int32_t number = -1;
    std::from_chars(root.data(), root.data() + root.size(), number);
    row.root = number >= 0 ? std::optional(number) : std::nullopt;
    return row;
  }

 private:
  const ValueTree& tree_;
};

}  // namespace

Result<BenchmarkReport> read_benchmark_report(std::string bytes, const std::function<void(const BenchmarkRank&)>& rank,
                                              const std::function<void(const BenchmarkRow&)>& row) {
  BenchmarkReport out;
  auto tree = std::make_unique<ValueTree>();
  Result<ValueIndex> top = read_json(bytes, *tree);
  if (!top) {
    // Cut off among the results: they end behind the last whole one.
    out.cut = top.error().what;
    tree = std::make_unique<ValueTree>();
    bytes.resize(end_of_items(bytes, "{["));
    bytes += "]}";
    top = read_json(bytes, *tree);
    if (!top) {
      return fail(out.cut, {}, ErrorKind::kCorrupt);
    }
  }
  const Report report(*tree);
  const auto& args = tree->items(tree->find(*top, "args"));
  out.test = args.empty() ? "" : std::string(test_name_in(tree->text(args.front())));
  out.started = std::string(tree->text(tree->find(*top, "start_time")).substr(0, 32));
  const ValueIndex config = tree->find(*top, "config");
  out.most_bytes = report.size_in(config, "maximum_bytes").value_or(0);
  for (const ValueIndex device : tree->items(tree->find(config, "devices"))) {
    const auto number = tree->integer(tree->find(device, "rank"));
    const std::string_view host = tree->text(tree->find(device, "hostname"));
    if (number && *number >= 0 && *number < (1 << 24) && !host.empty() && host.find(' ') == std::string_view::npos) {
      rank({static_cast<int32_t>(*number), host});
    }
  }
  for (const ValueIndex result : tree->items(tree->find(*top, "results"))) {
    if (const auto read = report.row_in(result)) {
      row(*read);
    } else {
      ++out.damaged;
    }
  }
  const ValueIndex average = tree->find(*top, "average_bus_bandwidth");
  out.ended = tree->kind(average) == ValueTree::Kind::kDict;
  out.failed = report.denies(tree->find(*top, "out_of_bounds"), "okay") || report.denies(average, "okay");
  const auto& errors = tree->items(tree->find(*top, "errors"));
  if (!errors.empty() && !trim(tree->text(errors.front())).empty()) {
    out.problem = std::string(trim(tree->text(errors.front())));
    out.failed = true;
  }
  return out;
}

bool is_benchmark_report(std::string_view head) {
  const size_t brace = head.find_first_not_of(" \t\r\n");
  return brace != std::string_view::npos && head[brace] == '{' &&
         head.find("\"start_time\"") != std::string_view::npos && head.find("\"args\"") != std::string_view::npos &&
         !test_name_in(head).empty();
}

}  // namespace stalltrace::import
