// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/set_up/log_set_up.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "analysis/order/call_order.h"
#include "analysis/order/set_up/open_set_ups.h"
#include "analysis/order/set_up/transfer_errors.h"
#include "analysis/thresholds/order.h"
#include "base/text.h"
#include "model/events/imported/nccl_return.h"
#include "model/events/imported/process_report.h"
#include "model/events/imported/torch_report.h"

namespace stalltrace::analysis {
namespace {

constexpr ptrdiff_t kMostWarningNotes = 8;
constexpr size_t kMostWarnersNamed = 4;
constexpr size_t kLongestQuote = 200;

/// A rank could not reach an address, or has no interface.
struct SetUpProblem {
  std::string address;  // empty: no interface
  bool no_interface = false;
  bool connecting = false;  // as in a set-up alone; else a connection that there was may have broken
};

std::optional<SetUpProblem> problem_in(std::string_view text) {
  if (text.contains("no socket interface found") || text.contains("no interface found") ||
      text.contains("No interface found") || text.contains("No IP interface found") ||
      text.contains("No usable listening interface found")) {
    return SetUpProblem{.address = "", .no_interface = true};
  }
  const bool failed = text.contains(" failed : ") || text.contains(" returned ") || text.contains("refused") ||
                      text.contains("timed out") || text.contains("No route to host");
  constexpr std::array<std::string_view, 3> kOthers{"onnect to ", "Call to send to ", "Call to recv from "};
  const auto* const other = std::ranges::find_if(kOthers, [&](std::string_view one) { return text.contains(one); });
  if (!failed || other == kOthers.end()) {
    return std::nullopt;
  }
  std::string_view rest = text.substr(text.find(*other) + other->size());
  rest = rest.substr(0, rest.find(' '));
  SetUpProblem problem{.address = "", .connecting = other == kOthers.begin()};
  const size_t port = rest.find('<');  // NCCL writes 10.0.0.1<4545>
  problem.address = port == std::string_view::npos
                        ? std::string(rest)
                        : fmt::format("{}:{}", rest.substr(0, port), rest.substr(port + 1, rest.find('>') - port - 1));
  return problem;
}

struct ProcessWarnings {
  std::vector<LogLine> warnings;
  std::vector<std::string> interfaces;
  bool shows_set_up = false;     // its log has what NCCL prints of set-ups at all
  int64_t last_set_up_ns = -1;   // a set-up ended, or a call began; -1: never
  int64_t begun_set_up_ns = -1;  // a set-up began of which no end is in the log; -1: never
  std::optional<int32_t> rank;
};

std::string who_text(const std::string& node, LoggedProcessKey key, std::optional<int32_t> rank) {
  if (key.second == 0) {  // a line without its process
    return rank ? fmt::format("rank {}", *rank) : "a process that its line does not name";
  }
  return rank ? fmt::format("rank {} ({}, pid {})", *rank, node, key.second)
              : fmt::format("pid {} on {}", key.second, node);
}

Finding finding_of(const std::string& node, LoggedProcessKey key, const ProcessWarnings& process,
                   const LogLine& warning, const SetUpProblem& problem) {
  Finding finding{.cause = Cause::kInitFailure, .severity = Severity::kCritical, .confidence = kOutsideConfidence};
  finding.op = Operation::kCommInitRank;
  finding.window = {warning.timestamp_ns, warning.timestamp_ns};
  const std::string who = who_text(node, key, process.rank);
  if (problem.no_interface) {
    finding.culprit = Culprit{node, process.rank, key.second};
    finding.summary = fmt::format("A communicator could not be set up: {} found no network interface.", who);
    finding.remedy = fmt::format(
        "on {}, compare NCCL_SOCKET_IFNAME with the interfaces that there are (ip addr); it has to match on every node",
        node);
  } else {
    finding.summary = fmt::format("A communicator could not be set up: {} did not reach {}.", who, problem.address);
    finding.remedy = fmt::format(
        "check that {} may connect to {}: whether that process still runs, a firewall on either end, MASTER_ADDR and "
        "MASTER_PORT, the interface chosen by NCCL_SOCKET_IFNAME",
        node, problem.address);
  }
  finding.evidence.push_back({"log_line", 1, warning.text.substr(0, kLongestQuote), {}});
  for (size_t i = 0; i < process.interfaces.size() && i < 2; ++i) {
    finding.evidence.push_back({"log_line", 1, process.interfaces[i].substr(0, kLongestQuote), {}});
  }
  finding.evidence.push_back({"collective", 0, "its log shows neither a set-up that ended nor a call afterwards", {}});
  return finding;
}

/// A warning, and all who printed it.
struct Warned {
  std::string text;
  std::vector<std::string> who;
  int64_t others = 0;
  std::string last;  // that was counted: the lines of a process follow each other
};

void note_warning(const std::string& who, const std::string& text, std::vector<Warned>& warned) {
  constexpr size_t kMostWarned = 256;
  auto known = std::ranges::find(warned, text, &Warned::text);
  if (known == warned.end() && warned.size() == kMostWarned) {
    return;
  }
  if (known == warned.end()) {
    known = warned.insert(known, {text, {}, 0, {}});
  }
  if (std::exchange(known->last, who) == who) {
    return;
  }
  if (known->who.size() < kMostWarnersNamed) {
    known->who.push_back(who);
  } else {
    ++known->others;
  }
}

}  // namespace

Result<LogWarnings> judge_warnings(EventSource& source) {
  std::map<NodeId, std::string> names;
  ST_ASSIGN(const std::vector<Node> nodes, source.nodes());
  for (const Node& node : nodes) {
    names[node.node_id] = node.name;
  }
  std::map<LoggedProcessKey, ProcessWarnings> processes;
  ST_TRY(source.log_lines({}, [&](const LogLine& row) {
    if (row.kind == LogKind::kTransport) {
      processes[{row.node_id, row.pid}].shows_set_up = true;
    }
    if ((row.kind != LogKind::kWarning && row.kind != LogKind::kInterface) || read_torch_report(row.text) ||
        read_process_report(row.text)) {
      return;
    }
    ProcessWarnings& process = processes[{row.node_id, row.pid}];
    process.rank = process.rank ? process.rank : row.rank;
    if (row.kind == LogKind::kInterface) {
      process.interfaces.push_back(row.text);
      process.shows_set_up = true;
    } else {
      process.warnings.push_back(row);
    }
  }));
  ST_TRY(source.collectives({}, [&](const Collective& row) {
    const auto process = processes.find({row.node_id, row.pid});
    if (process == processes.end()) {
      return;
    }
    if (is_communicator_call(row.op) && row.completion == Completion::kOpen) {
      process->second.begun_set_up_ns = std::max(process->second.begun_set_up_ns, row.timestamp_ns);
      return;
    }
    process->second.last_set_up_ns =
        std::max(process->second.last_set_up_ns, row.known_end_ns().value_or(row.timestamp_ns));
  }));
  LogWarnings out;
  std::vector<TransferWarning> transfers;
  std::vector<Warned> warned;
  for (const auto& [key, process] : processes) {
    bool found = false;
    const std::string who = who_text(names[key.first], key, process.rank);
    for (const LogLine& warning : process.warnings) {
      const auto problem = problem_in(warning.text);
      // A log with NCCL_DEBUG=WARN shows no set-up that ends: the interfaces and transports are in those that do.
      const bool shows_set_ups = process.last_set_up_ns < 0 && process.shows_set_up;
      const bool in_set_up = problem && (problem->no_interface || (problem->connecting && shows_set_ups) ||
                                         process.begun_set_up_ns > process.last_set_up_ns);
      if (!found && in_set_up && process.last_set_up_ns < warning.timestamp_ns) {
        out.findings.push_back(finding_of(names[key.first], key, process, warning, *problem));
        found = true;
      } else if (const auto error = transfer_error_in(warning.text)) {
        transfers.push_back({who, &warning, *error});
      } else if (const auto returned = nccl_return_in(warning.text); returned && process.warnings.size() == 1) {
        note_warning(who, fmt::format("a call of NCCL failed, {} ({})", nccl_error_text(*returned), warning.text),
                     warned);
      } else if (!found && !returned) {
        note_warning(who, warning.text, warned);
      }
    }
  }
  if (std::optional<Finding> failed = judge_transfer_errors(transfers)) {
    out.findings.push_back(std::move(*failed));
  } else if (!transfers.empty()) {
    note_warning(transfers.front().who, transfers.front().row->text, warned);
  }
  if (out.findings.empty()) {
    ST_TRY(judge_open_set_ups(source, out.findings, out.notes));
  }
  for (const Warned& one : warned) {
    if (&one - warned.data() == kMostWarningNotes) {
      out.notes.push_back(fmt::format("{} more warnings of NCCL, in log_line", warned.size() - kMostWarningNotes));
      break;
    }
    out.notes.push_back(fmt::format(
        "{}{} warned: {}", fmt::join(one.who, ", "), one.others > 0 ? fmt::format(" and {} more", one.others) : "",
        one.text.empty() ? "its text is on other lines of the log" : one.text.substr(0, kLongestQuote)));
  }
  return out;
}

}  // namespace stalltrace::analysis
