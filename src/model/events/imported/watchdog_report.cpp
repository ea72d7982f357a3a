// SPDX-License-Identifier: Apache-2.0
#include "model/events/imported/watchdog_report.h"

#include <array>
#include <charconv>

#include "model/parse/log_time.h"

namespace stalltrace {
namespace {

constexpr int64_t kMostNumber = int64_t{1} << 53;
constexpr std::string_view kCaught = "Watchdog caught collective operation timeout";
constexpr std::array<std::string_view, 2> kRepeats{"thread terminated with exception: ",
                                                   "Original reason for failure was: "};
constexpr std::string_view kDumpSignal = "Received a dump signal due to a collective timeout from ";
/// What stands before the number of the call that did not end.
constexpr std::array<std::string_view, 4> kWaitsIn{
    "failure detected by watchdog at work sequence id: ", "detected by watchdog at work: ", "] Timeout at NCCL work: ",
    "Timeout at collective: "};
constexpr std::array<std::string_view, 3> kEnqueued{
    "ast enqueued NCCL work: ", "last enqueued work: ", "ast enqueued collective: "};
constexpr std::array<std::string_view, 3> kCompleted{
    "last completed NCCL work: ", "last completed work: ", "last completed collective: "};

/// The number behind the first of `keys` that the text has.
template <size_t N>
std::optional<int64_t> number_behind(std::string_view text, const std::array<std::string_view, N>& keys) {
  for (const std::string_view key : keys) {
    const size_t at = text.find(key);
    if (at == std::string_view::npos) {
      continue;
    }
    const char* const begin = text.data() + at + key.size();
    int64_t number = 0;
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
    if (error == std::errc() && end != begin && number >= -1 && number <= kMostNumber) {
      return number;
    }
  }
  return std::nullopt;
}

std::optional<int64_t> number_behind(std::string_view text, std::string_view key) {
  return number_behind(text, std::array{key});
}

/// "[PG ID 0 PG GUID 0(default_pg) Rank 3]" from 2.4 on, "[PG 0 Rank 3]" in 2.3.
std::string_view group_in(std::string_view line) {
  for (const std::string_view key : {std::string_view(" PG GUID "), std::string_view("[PG ")}) {
    const size_t at = line.find(key);
    if (at == std::string_view::npos) {
      continue;
    }
    const std::string_view rest = line.substr(at + key.size());
    const size_t end = rest.find(" Rank ");
    if (end != std::string_view::npos && rest.find(']') > end) {
      return rest.substr(0, end);
    }
  }
  return {};
}

}  // namespace

std::optional<WatchdogReport> read_watchdog_report(std::string_view line) {
  // Logs have millions of other lines.
  if (line.find("atchdog") == std::string_view::npos && line.find("Timeout at ") == std::string_view::npos &&
      line.find(kDumpSignal) == std::string_view::npos) {
    return std::nullopt;
  }
  WatchdogReport report{.group = group_in(line)};
  const bool caught = line.find(kCaught) != std::string_view::npos;
  report.waits_in = caught ? number_behind(line, "(SeqNum=") : number_behind(line, kWaitsIn);
  if (report.waits_in && *report.waits_in < 0) {
    report.waits_in.reset();
    report.unnumbered = !caught;
  }
  report.asked = line.find(kDumpSignal) != std::string_view::npos;
  if (!caught && !report.asked && !report.waits_in && !report.unnumbered) {
    return std::nullopt;
  }
  for (const std::string_view repeats : kRepeats) {
    report.repeats = report.repeats || line.find(repeats) != std::string_view::npos;
  }
  report.enqueued = number_behind(line, kEnqueued);
  report.completed = number_behind(line, kCompleted);
  // PyTorch 2.3 printed memory that it had not set.
  if (report.completed && report.enqueued && *report.completed > *report.enqueued) {
    report.completed.reset();
  }
  if (caught) {
    if (const size_t at = line.find("OpType="); at != std::string_view::npos) {
      const std::string_view op = line.substr(at + 7);
      report.op = op.substr(0, op.find_first_of(",)"));
    }
    report.elements = number_behind(line, "NumelIn=");
    report.waited_ms = number_behind(line, " ran for ");
  }
  return report;
}

std::optional<int64_t> time_in_watchdog_line(std::string_view line, int64_t near_ns) {
  const TimeHint hint{near_ns, true};
  const size_t source = line.find(" ProcessGroupNCCL.cpp:");
  const std::string_view head = line.substr(0, source);
  const size_t bracket = source == std::string_view::npos ? source : head.rfind('[');
  if (bracket != std::string_view::npos) {
    if (const auto time_ns = find_time(head.substr(bracket + 1), hint)) {
      return time_ns;
    }
  }
  return find_time(head, hint);
}

}  // namespace stalltrace
