// SPDX-License-Identifier: Apache-2.0
// Processes that torchrun saw end: the first is the one to look at, the others it ended itself.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/order/processes/process_lines.h"
#include "analysis/order/processes/take_over.h"
#include "analysis/thresholds/order.h"
#include "base/clock.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kMostEndedNamed = 4;

struct Signal {
  int number;
  std::string_view name;
  std::string_view remedy;
  bool by_itself;  // nothing of its job's communication leads to it
};
constexpr std::array kSignals{
    Signal{SIGKILL, "SIGKILL",
           "look at the kernel log of the host for lack of memory (dmesg | grep -i 'killed process'), and at the "
           "scheduler's limits",
           true},
    Signal{SIGSEGV, "SIGSEGV", "look at its output before it ended, and at a core dump (coredumpctl)", true},
    Signal{SIGBUS, "SIGBUS", "look whether /dev/shm or a file system of the host is full (df -h /dev/shm)", true},
    Signal{SIGILL, "SIGILL", "look at its output before it ended: a library was built for another processor", true},
    Signal{SIGFPE, "SIGFPE", "look at its output before it ended, and at a core dump (coredumpctl)", true},
    Signal{SIGABRT, "SIGABRT",
           "look at its output before it ended: PyTorch's watchdog ends a process so after a failed collective", false},
    Signal{SIGTERM, "SIGTERM", "", false},
};

const Signal* signal_of(const EndedProcess& process) {
  const auto* const found = std::ranges::find(kSignals, -process.exit_code, &Signal::number);
  return found == kSignals.end() ? nullptr : found;
}

std::string who_ended(const EndedProcess& process) {
  const std::string where = process.host.empty() ? fmt::format("pid {}", process.pid)
                                                 : fmt::format("{}, pid {}", printable(process.host), process.pid);
  return process.rank         ? fmt::format("rank {} ({})", *process.rank, where)
         : process.local_rank ? fmt::format("the process with local rank {} ({})", *process.local_rank, where)
                              : fmt::format("the process with {}", where);
}

std::string how_ended(const EndedProcess& process) {
  const Signal* const signal = signal_of(process);
  return process.exit_code >= 0 ? fmt::format("ended with exit code {}", process.exit_code)
         : signal != nullptr    ? fmt::format("was ended by {}", signal->name)
                                : fmt::format("was ended by signal {}", -process.exit_code);
}

std::string capital(std::string text) {
  text[0] = static_cast<char>(text[0] >= 'a' && text[0] <= 'z' ? text[0] - 'a' + 'A' : text[0]);
  return text;
}

/// Of each torchrun the first failure: by its table, else by the line that it prints at once.
ProcessLines first_failures(const ProcessLog& log) {
  const ProcessLines all = log.of(ProcessReport::Kind::kEnded);
  ProcessLines firsts;
  const auto add = [&](const ProcessLine* line) {
    const bool known = std::ranges::any_of(firsts, [&](const ProcessLine* one) {
      return one->report.ended.pid == line->report.ended.pid && (one->row.file == line->row.file);
    });
    if (!known) {
      firsts.push_back(line);
    }
  };
  for (const ProcessLine* line : all) {
    if (line->report.ended.first) {
      add(line);
    }
  }
  for (const ProcessLine* line : all) {
    const bool at_once = !line->report.ended.rank;  // it may be of a torchrun without a table
    const bool table = std::ranges::any_of(
        firsts, [&](const ProcessLine* one) { return one->report.ended.first && one->row.file == line->row.file; });
    if (at_once && !table) {
      add(line);
    }
  }
  return firsts;
}

/// Of a table that was cut off before its root cause: the others may have been ended by torchrun.
void note_without_first(const ProcessLines& lines, std::vector<std::string>& notes) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(lines.size(), kMostEndedNamed); ++i) {
    const EndedProcess& ended = lines[i]->report.ended;
    texts.push_back(fmt::format("{} {}", who_ended(ended), how_ended(ended)));
  }
  if (!texts.empty()) {
    notes.push_back(fmt::format("torchrun saw that {}{}; which process was first is not in the log",
                                fmt::join(texts, "; "), texts.size() < lines.size() ? "; ..." : ""));
  }
}

/// By the host's clock, in ns; none where it is not of the form "2026-05-05_10:00:03".
std::optional<int64_t> time_of(const ProcessLine* line) {
  std::tm time{};
  const std::string text(line->report.ended.time);
  const char* const end = ::strptime(text.c_str(), "%Y-%m-%d_%H:%M:%S", &time);
  return end == nullptr || *end != '\0' ? std::nullopt : std::optional<int64_t>(::timegm(&time) * kNsPerSecond);
}

/// The first of several, where the times of all are there and show that; null: not known.
const ProcessLine* earliest(const ProcessLines& lines) {
  constexpr int64_t kHourNs = 3600 * kNsPerSecond;
  if (lines.size() == 1) {
    return lines.front();
  }
  std::vector<std::pair<int64_t, const ProcessLine*>> times;
  for (const ProcessLine* line : lines) {
    const std::optional<int64_t> time_ns = time_of(line);
    if (!time_ns) {
      return nullptr;
    }
    times.emplace_back(*time_ns, line);
  }
  std::ranges::sort(times, {}, &std::pair<int64_t, const ProcessLine*>::first);
  const bool clear = std::all_of(times.begin() + 1, times.end(), [&](const auto& other) {
    const int64_t later_ns = other.first - times.front().first;
    const bool hours = later_ns > kHourNs / 2 && (later_ns + kNearWholeHoursNs) % kHourNs <= 2 * kNearWholeHoursNs;
    return later_ns > kFailuresApartNs && !hours;
  });
  return clear ? times.front().second : nullptr;
}

}  // namespace

void judge_ended_processes(const ProcessLog& log, std::vector<Finding>& findings, std::vector<std::string>& notes) {
  ProcessLines firsts = first_failures(log);
  const auto asked = std::stable_partition(
      firsts.begin(), firsts.end(), [](const ProcessLine* line) { return line->report.ended.exit_code != -SIGTERM; });
  for (const ProcessLine* line : ProcessLines(asked, firsts.end())) {
    notes.push_back(fmt::format("torchrun: {} was asked to end (SIGTERM), by another node's torchrun or from outside",
                                who_ended(line->report.ended)));
    if (notes.size() > 2 * kMostEndedNamed) {
      break;
    }
  }
  const bool only_asked = asked == firsts.begin() && !firsts.empty();
  firsts.erase(asked, firsts.end());
  if (firsts.empty()) {
    note_without_first(only_asked ? ProcessLines() : log.of(ProcessReport::Kind::kEnded), notes);
    return;
  }
  const ProcessLine* const one = earliest(firsts);
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(firsts.size(), kMostEndedNamed); ++i) {
    const EndedProcess& ended = (one != nullptr ? one : firsts[i])->report.ended;
    texts.push_back(fmt::format("{} {}", who_ended(ended), how_ended(ended)));
    if (one != nullptr) {
      break;
    }
  }
  const std::string text = fmt::format("{}", fmt::join(texts, "; "));
  const auto of_rank = std::ranges::find_if(findings, [&](const Finding& finding) {
    return one != nullptr && finding.culprit && finding.culprit->rank &&
           finding.culprit->rank == one->report.ended.rank;
  });
  if (of_rank != findings.end()) {
    of_rank->evidence.push_back({"log_line", 1, fmt::format("torchrun saw that {} first", text), {}});
    return;
  }
  const EndedProcess& ended = (one != nullptr ? one : firsts.front())->report.ended;
  const Signal* const signal = signal_of(ended);
  const bool by_itself = one != nullptr && signal != nullptr && signal->by_itself;
  const bool blamed = std::ranges::any_of(
      findings, [](const Finding& finding) { return finding.cause != Cause::kUnknown || finding.culprit.has_value(); });
  if (blamed || (!by_itself && log.has_timeouts())) {  // an exit code follows from those as well
    notes.push_back(fmt::format("torchrun saw first that {}", text));
    return;
  }
  Finding finding = finding_on(log, one != nullptr ? ProcessLines{one} : firsts, Cause::kDeadRank,
                               by_itself ? kOutsideConfidence : kOrderAloneConfidence);
  finding.culprit.reset();
  if (one != nullptr && ended.rank) {
    finding.culprit = Culprit{std::string(ended.host), ended.rank, ended.pid};
  }
  finding.summary = one != nullptr ? fmt::format("{}, the first failure that torchrun saw.", capital(text))
                                   : fmt::format("{}; which of them was first is not known.", capital(text));
  finding.remedy = signal != nullptr && one != nullptr
                       ? std::string(signal->remedy)
                       : "look at the traceback or the last lines of that process; torchrun shows it where the program "
                         "has torch.distributed.elastic's @record";
  if (by_itself) {
    take_over_waiting(ranks_of({one}), findings, finding);
  }
  findings.push_back(std::move(finding));
}

}  // namespace stalltrace::analysis
