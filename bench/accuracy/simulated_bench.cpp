// SPDX-License-Identifier: Apache-2.0
// How often the finding is right in simulated jobs: bench_simulated healthy|faults [--seeds FROM:TO] [--ranks LOW:HIGH]
// [--shape NAME] [--fault CAUSE] [--all]. Generation and analysis in one process, without files. Prints a line for each
// seed whose result is not the expected one (with --all: for each), then tables in Markdown.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "analysis/explain.h"
#include "bench/must.h"
#include "lab/simulation/draw.h"
#include "lab/simulation/job.h"
#include "lab/simulation/shapes.h"
#include "model/memory_source.h"

namespace stalltrace {
namespace {

using simulation::Fault;
using simulation::FaultKind;
using simulation::Job;
using simulation::JobOptions;

struct Request {
  bool faults = false;
  uint64_t from = 1;
  uint64_t to = 101;
  simulation::DrawLimits limits;
  std::string shape;
  std::optional<FaultKind> kind;
  bool all = false;
};

std::pair<uint64_t, uint64_t> range_of(std::string_view text) {
  uint64_t low = 0;
  uint64_t high = 0;
  const size_t colon = std::min(text.find(':'), text.size());
  std::from_chars(text.data(), text.data() + colon, low);
  std::from_chars(text.data() + std::min(colon + 1, text.size()), text.data() + text.size(), high);
  return {low, high};
}

Request request_of(int count, char** words) {
  Request request;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    const std::string_view value = i + 1 < count ? words[i + 1] : "";
    if (word == "--seeds") {
      std::tie(request.from, request.to) = range_of(value);
    } else if (word == "--ranks") {
      const auto [low, high] = range_of(value);
      request.limits.fewest_ranks = static_cast<int>(low);
      request.limits.most_ranks = static_cast<int>(high);
    } else if (word == "--shape") {
      request.shape = value;
    } else if (word == "--fault") {
      request.kind = must(simulation::parse_fault(value, {})).kind;
    } else if (word == "--all") {
      request.all = true;
    } else if (word == "faults") {
      request.faults = true;
    }
  }
  return request;
}

std::string text_of(const JobOptions& options) {
  std::string text = fmt::format(
      "seed {}, {}, {}x{}, {} steps{}{}{}{}{}{}", options.seed, options.shape, options.nodes, options.ranks_per_node,
      options.steps, options.plugin ? ", plugin" : "", options.attach_share > 0 ? ", attached late" : "",
      options.clock_error_ms > 0 ? fmt::format(", clocks {:.0f} ms", options.clock_error_ms) : "",
      options.cut_share > 0 ? fmt::format(", cut at {:.0f} %", 100 * options.cut_share) : "",
      options.tcp ? ", tcp" : "", options.waits ? "" : ", no waits");
  for (const Fault& fault : options.faults) {
    text += fmt::format(", {} rank {}", simulation::cause_of(fault.kind), fault.rank);
    if (fault.kind == FaultKind::kLateRank || fault.kind == FaultKind::kSlowDevice ||
        fault.kind == FaultKind::kProcessStopped) {
      text += fmt::format(" {:.0f} ms", fault.ms);
    }
  }
  return text;
}

bool right_place(const Finding& finding, const Fault& fault, const JobOptions& options) {
  const auto node_of = [&](int rank) { return rank / options.ranks_per_node; };
  if (simulation::is_of_node(fault.kind)) {
    if (finding.culprit) {
      return finding.culprit->node == Job::node_name(node_of(fault.rank));
    }
    return finding.link && finding.link->src_rank && node_of(*finding.link->src_rank) == node_of(fault.rank);
  }
  return finding.culprit && finding.culprit->rank == fault.rank;
}

struct Row {
  int draws = 0;
  int right = 0;
  int place = 0;  // right place, another cause
  int unknown = 0;
  int wrong = 0;
  int silent = 0;
  int waiting = 0;
};

struct Sum {
  std::map<std::string, Row> rows;
  std::array<std::pair<int, int>, 5> confidence{};  // findings, of which right; by fifth
  double brier = 0;
  int scored = 0;
};

void add_confidence(Sum& sum, double confidence, bool right) {
  auto& [all, good] = sum.confidence[std::min<size_t>(4, static_cast<size_t>(confidence * 5))];
  ++all;
  good += right ? 1 : 0;
  sum.brier += std::pow(confidence - (right ? 1 : 0), 2);
  ++sum.scored;
}

/// What became of one draw.
std::string judge(const Report& report, const JobOptions& options, Sum& sum) {
  if (options.faults.empty()) {
    Row& row = sum.rows[options.shape];
    ++row.draws;
    bool loud = false;
    for (const Finding& finding : report.findings) {
      loud = loud || finding.severity != Severity::kWaiting;
    }
    row.waiting += !report.findings.empty() && !loud ? 1 : 0;
    row.wrong += loud ? 1 : 0;
    return loud ? "wrong" : "right";
  }
  const Fault& fault = options.faults[0];
  std::string name(simulation::cause_of(fault.kind));
  if (fault.kind == FaultKind::kLateRank || fault.kind == FaultKind::kSlowDevice) {
    name += fmt::format(" {:.0f} ms", fault.ms);
  }
  Row& row = sum.rows[name + (options.plugin ? ", plugin" : "")];
  ++row.draws;
  bool right = false;
  bool place = false;
  bool unknown = false;
  bool wrong = false;
  for (const Finding& finding : report.findings) {
    const bool here = right_place(finding, fault, options);
    const bool cause = to_text(finding.cause) == simulation::cause_of(fault.kind);
    right = right || (here && cause);
    place = place || (here && !cause && finding.cause != Cause::kUnknown);
    unknown = unknown || finding.cause == Cause::kUnknown;
    const bool accuses = (finding.culprit || finding.link) && finding.severity != Severity::kWaiting;
    unknown = unknown || (!finding.culprit && !finding.link);  // the cause may be right, the place is not reported
    wrong = wrong || (!here && accuses);
    if (finding.cause != Cause::kUnknown && (here || accuses)) {
      add_confidence(sum, finding.confidence, here && cause);
    }
  }
  int& one = wrong ? row.wrong : right ? row.right : place ? row.place : unknown ? row.unknown : row.silent;
  ++one;
  return wrong ? "wrong" : right ? "right" : place ? "other cause" : unknown ? "unknown" : "silent";
}

void print_tables(const Sum& sum, bool faults) {
  const std::string_view columns =
      faults ? "fault | draws | right | right culprit, other cause | culprit or cause unknown | silent | wrong"
             : "shape | draws | nothing | waiting | false";
  fmt::print("\n| {} |\n|", columns);
  for (auto left = std::ranges::count(columns, '|') + 1; left > 0; --left) {
    fmt::print(" --- |");
  }
  fmt::print("\n");
  Row all;
  const auto print = [&](const std::string& name, const Row& row) {
    if (faults) {
      fmt::print("| {} | {} | {} | {} | {} | {} | {} |\n", name, row.draws, row.right, row.place, row.unknown,
                 row.silent, row.wrong);
    } else {
      fmt::print("| {} | {} | {} | {} | {} |\n", name, row.draws, row.draws - row.waiting - row.wrong, row.waiting,
                 row.wrong);
    }
  };
  for (const auto& [name, row] : sum.rows) {
    print(name, row);
    all.draws += row.draws;
    all.right += row.right;
    all.place += row.place;
    all.unknown += row.unknown;
    all.wrong += row.wrong;
    all.silent += row.silent;
    all.waiting += row.waiting;
  }
  print("all", all);
  if (faults && sum.scored > 0) {
    fmt::print("\n| confidence | findings | right |\n| --- | --- | --- |\n");
    for (size_t i = 0; i < sum.confidence.size(); ++i) {
      const auto [count, good] = sum.confidence[i];
      if (count > 0) {
        fmt::print("| {:.1f} to {:.1f} | {} | {:.0f} % |\n", 0.2 * static_cast<double>(i),
                   0.2 * static_cast<double>(i + 1), count, 100.0 * good / count);
      }
    }
    fmt::print("\nBrier score {:.3f} of {} findings with a cause\n", sum.brier / sum.scored, sum.scored);
  }
}

void run(const Request& request) {
  Sum sum;
  for (uint64_t seed = request.from; seed < request.to; ++seed) {
    const JobOptions options = request.faults
                                   ? simulation::draw_faulty(seed, request.kind, request.limits, request.shape)
                                   : simulation::draw_healthy(seed, request.limits, request.shape);
    const Job job(options);
    MemorySource source;
    job.record_all(source);
    const ExplainResult result = must(explain(source));
    const std::string outcome = judge(result.report, options, sum);
    if (outcome != "right" || request.all) {
      fmt::print("{}: {}\n", outcome, text_of(options));
      for (const Finding& finding : result.report.findings) {
        fmt::print("    {} {:.2f} {}\n", to_text(finding.severity), finding.confidence, finding.summary);
      }
      std::fflush(stdout);
    }
  }
  print_tables(sum, request.faults);
}

}  // namespace
}  // namespace stalltrace

int main(int count, char** words) { stalltrace::run(stalltrace::request_of(count, words)); }
