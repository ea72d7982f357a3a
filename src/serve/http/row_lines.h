// SPDX-License-Identifier: Apache-2.0
// Rows of a query as JSON lines, for programs that read them back exactly:
//
//     {"recording":"node0.db","nodes":["node0"],"columns":["rank","ms"]}    once a recording
//     [3,5.12]                                                              its rows
//     {"end":true,"rows":1,"truncated":false}                               once; without it the answer was cut short
//
// An integer is one in full (also beyond 2^53), a real always has a point or an exponent, NULL is null. What JSON has
// not is an object: {"blob":"00ff"}, {"real":"inf"}.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/table_rows.h"

namespace stalltrace::serve {

struct RowLimits {
  int64_t rows = 100'000;
  int64_t bytes = 16 << 20;
};

/// Collects the lines of one answer. A row beyond a limit ends its query, which is no error.
class RowLines final : public RowSink {
 public:
  explicit RowLines(const RowLimits& limits) : limits_(limits) {}

  /// Before the query of each recording. `runs`: what distinguishes its node runs from all others, in their order.
  void begin_recording(std::string name, std::vector<std::string> nodes, std::vector<std::string> runs);
  Status columns(const std::vector<std::string>& names) override;
  Result<bool> row(std::span<const Value> values) override;
  /// All lines, with the last one.
  std::string take();
  [[nodiscard]] bool truncated() const { return truncated_; }

 private:
  RowLimits limits_;
  std::string recording_;
  std::vector<std::string> nodes_;
  std::vector<std::string> runs_;
  std::string text_;
  int64_t rows_ = 0;
  bool truncated_ = false;
};

/// What a reader of these lines makes of them.
class RowLinesSink {
 public:
  virtual ~RowLinesSink() = default;
  /// Of the recording that follows.
  virtual void runs(std::span<const std::string> /*runs*/) {}
  /// The next rows are of this recording.
  virtual Status recording(std::string_view name, std::span<const std::string> nodes,
                           const std::vector<std::string>& columns) = 0;
  virtual Status row(std::span<const Value> values) = 0;
};

/// Reads a whole answer, which is untrusted. Returns whether it was truncated by its sender. Errors (kCorrupt): a line
/// of another form, a row with more or fewer values than columns, no last line.
Result<bool> read_row_lines(std::string_view text, RowLinesSink& sink);

}  // namespace stalltrace::serve
