// SPDX-License-Identifier: Apache-2.0
// Reports of NCCL's RAS: what `ncclras`, or "STATUS" on its port, prints, as text (NCCL 2.24 to 2.30) or JSON (from
// 2.28.7 on), after src/ras/client_support.cc of NCCL and its user guide. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/events/imported/ras_statement.h"

namespace stalltrace::import {

struct RasReport {
  bool json = false;
  int64_t line = 0;                                          // of its beginning, from 1
  std::string version;                                       // of NCCL; empty: not stated
  std::string time;                                          // "2025-12-19 13:06:53", local time; text has none
  std::optional<int64_t> asked_ns;                           // UTC; of a report that we asked for
  std::vector<std::pair<int64_t, RasStatement>> statements;  // with their lines
  int64_t comms = 0;                                         // communicators
  int64_t comms_at_fault = 0;                                // of them, those that RAS itself does not call OK
  int64_t gpus = 0;                                          // of the job; 0: not stated
  int64_t timeouts = 0;                                      // while RAS collected its data
  bool whole = false;                                        // its end is there
  uint64_t left_out = 0;                                     // statements beyond the limit of a file
};

/// Reports one after the other, as text, JSON or both, amid other output.
struct RasReports {
  std::vector<RasReport> reports;
  uint64_t refused = 0;   // JSON objects that can't be read
  std::string problem;    // of the first of these: "line 12: offset 3: ..."
  uint64_t left_out = 0;  // statements beyond the limit
};
inline constexpr size_t kMostRasStatements = 1'000'000;  // of a file
inline constexpr size_t kMostRasName = 64;               // bytes of a host's address, and of an operation's name

/// `bytes` may be hostile, or end anywhere: time and memory are linear in their number, within the limits above. Lines
/// that belong to no report are skipped. A report without its end has what came before, with `whole` false; JSON that
/// can't be read counts as refused, and reading goes on behind it.
RasReports read_ras_reports(std::string_view bytes);

/// A line that only a report in text has; and the head of a file whose JSON is a report.
bool is_ras_line(std::string_view line);
bool is_ras_json(std::string_view head);

/// One report in JSON, from its first brace to its last, or to where it was cut off. In 2.28.9 a comma is missing
/// before "status" in "missing_ranks"; it is added. Errors: kCorrupt if it is no JSON, or was cut off before its first
/// communicator ends.
Result<RasReport> read_ras_json(std::string_view text);

/// Reads a report line by line.
class RasTextReader {
 public:
  explicit RasTextReader(RasReport& report) : report_(report) {}

  void take(std::string_view line, int64_t number);
  /// After the report's last line.
  void finish() { end_group(); }

 private:
  enum class Section : uint8_t { kNone, kUnresponsiveProcesses, kDeadProcesses, kComm };
  enum class Topic : uint8_t { kNone, kMissing, kState, kLaunches, kInitError, kAsyncError };
  struct Group {  // a row of the table of communicators
    int64_t number = 0;
    int64_t comms = 0;
    int32_t nranks = 0;
    bool leaving = false;  // FINALIZE or ABORT
  };

  bool take_section(std::string_view line);
  bool take_summary(std::string_view line);
  void take_comm(std::string_view line);
  bool take_topic(std::string_view line);
  bool take_group(std::string_view line);
  void take_rank(std::string_view line);
  void take_missing_list(std::string_view line);
  void take_process(std::string_view line);
  bool set_value(std::string_view text, RasStatement& out) const;
  [[nodiscard]] RasStatement of_comm() const;
  void end_group();
  void add(RasStatement statement);

  RasReport& report_;
  int64_t line_ = 0;
  bool in_table_ = false;
  bool totals_follow_ = false;
  std::vector<Group> groups_;
  Section section_ = Section::kNone;
  Topic topic_ = Topic::kNone;
  std::string operation_;  // of Topic::kLaunches
  RasStatement comm_;
  bool leaving_stated_ = false;
  RasStatement value_;        // what the ranks of the list that follows have in common
  int64_t unlisted_ = 0;      // of them
  bool lists_ranks_ = false;  // `value_` is set
};

}  // namespace stalltrace::import
