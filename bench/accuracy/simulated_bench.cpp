// SPDX-License-Identifier: Apache-2.0
// How often the finding is right in simulated jobs: bench_simulated healthy|faults [--seeds FROM:TO] [--ranks LOW:HIGH]
// [--shape NAME] [--fault CAUSE] [--all]. Generation and analysis in one process, without files. Prints a line for each
// seed whose result is not the expected one (with --all: for each), then tables in Markdown. The true cost of a fault
// is how much longer the job of this seed took than without the fault. With --shift SECONDS: the evidence of each
// recording is moved by that against its collectives, and what the analysis still explains by it is explained falsely.
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
#include <type_traits>
#include <variant>
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
  int64_t shift_ns = 0;
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
    } else if (word == "--shift") {
      request.shift_ns = static_cast<int64_t>(range_of(value).first) * kNsPerSecond;
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

bool right_location(const Finding& finding, const Fault& fault, const JobOptions& options) {
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
  int location = 0;  // right location, another cause
  int unknown = 0;
  int wrong = 0;
  int silent = 0;
  int waiting = 0;
  int costless = 0;  // nothing false, and the fault cost less than kCostlessNs: in no rate
};

/// As in practice runs: one timeout of TCP, or the scatter of a few steps.
constexpr int64_t kCostlessNs = 250 * kNsPerMs;
/// Upper bounds of confidence; the last one is inclusive.
constexpr std::array kConfidence{0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0};
/// Upper bounds of what a fault cost, as a share of the job's time.
constexpr std::array kCostShares{0.02, 0.05, 0.1, 0.2, 1e9};

struct Reliability {
  int findings = 0;
  int right = 0;
  double confidence = 0;  // sum
};

struct Sum {
  std::map<std::string, Row> rows;
  std::array<Reliability, kConfidence.size()> confidence{};
  double brier = 0;
  int scored = 0;
  std::array<std::pair<int, int>, kCostShares.size()> by_cost{};  // faults that slow a job down, of which named
};

void add_confidence(Sum& sum, double confidence, bool right) {
  const auto bound = std::ranges::upper_bound(kConfidence.begin(), kConfidence.end() - 1, confidence);
  Reliability& one = sum.confidence[static_cast<size_t>(bound - kConfidence.begin())];
  ++one.findings;
  one.right += right ? 1 : 0;
  one.confidence += confidence;
  sum.brier += std::pow(confidence - (right ? 1 : 0), 2);
  ++sum.scored;
}

/// How much longer the job took because of its fault; none if it did not end.
struct TrueCost {
  int64_t longer_ns = 0;
  double share = 0;
};
std::optional<TrueCost> cost_of(const Job& job) {
  if (job.history().hung || job.options().faults.empty()) {
    return std::nullopt;
  }
  JobOptions healthy = job.options();
  healthy.faults.clear();
  const Job other(std::move(healthy));
  const auto length = [](const Job& one) { return one.history().ended_ns - one.history().first_step_ns; };
  const int64_t longer_ns = length(job) - length(other);
  return TrueCost{longer_ns, static_cast<double>(longer_ns) / static_cast<double>(length(other))};
}

/// What became of one draw.
std::string judge(const Report& report, const Job& job, Sum& sum) {
  const JobOptions& options = job.options();
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
  bool location = false;
  bool unknown = false;
  bool wrong = false;
  for (const Finding& finding : report.findings) {
    const bool here = right_location(finding, fault, options);
    const bool cause = to_text(finding.cause) == simulation::cause_of(fault.kind);
    right = right || (here && cause);
    location = location || (here && !cause && finding.cause != Cause::kUnknown);
    unknown = unknown || finding.cause == Cause::kUnknown;
    const bool accuses = (finding.culprit || finding.link) && finding.severity != Severity::kWaiting;
    unknown = unknown || (!finding.culprit && !finding.link);  // the cause may be right, the location is not reported
    wrong = wrong || (!here && accuses);
    // One that is `waiting` says that it is not known to be a fault.
    const bool asserts = finding.severity != Severity::kWaiting || (here && cause);
    if (finding.cause != Cause::kUnknown && asserts && (here || accuses)) {
      add_confidence(sum, finding.confidence, here && cause);
    }
  }
  const std::optional<TrueCost> cost = cost_of(job);
  if (cost) {
    const auto bound = std::ranges::upper_bound(kCostShares, cost->share);
    auto& [faults, named] = sum.by_cost[static_cast<size_t>(bound - kCostShares.begin())];
    ++faults;
    named += right && !wrong ? 1 : 0;
  }
  const bool costless = cost && cost->longer_ns < kCostlessNs;
  int& one = wrong      ? row.wrong
             : costless ? row.costless
             : right    ? row.right
             : location ? row.location
             : unknown  ? row.unknown
                        : row.silent;
  ++one;
  const std::string text =
      cost ? fmt::format(" (cost {:.0f} ms, {:.0f} %)", static_cast<double>(cost->longer_ns) / 1e6, 100 * cost->share)
           : "";
  return (wrong      ? "wrong"
          : costless ? "costless"
          : right    ? "right"
          : location ? "other cause"
          : unknown  ? "unknown"
                     : "silent") +
         text;
}

void print_tables(const Sum& sum, bool faults) {
  const std::string_view columns =
      faults
          ? "fault | draws | right | right culprit, other cause | culprit or cause unknown | silent | wrong | costless"
          : "shape | draws | nothing | waiting | false";
  fmt::print("\n| {} |\n|", columns);
  for (auto left = std::ranges::count(columns, '|') + 1; left > 0; --left) {
    fmt::print(" --- |");
  }
  fmt::print("\n");
  Row all;
  const auto print = [&](const std::string& name, const Row& row) {
    if (faults) {
      fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} |\n", name, row.draws, row.right, row.location, row.unknown,
                 row.silent, row.wrong, row.costless);
    } else {
      fmt::print("| {} | {} | {} | {} | {} |\n", name, row.draws, row.draws - row.waiting - row.wrong, row.waiting,
                 row.wrong);
    }
  };
  for (const auto& [name, row] : sum.rows) {
    print(name, row);
    all.draws += row.draws;
    all.right += row.right;
    all.location += row.location;
    all.unknown += row.unknown;
    all.wrong += row.wrong;
    all.silent += row.silent;
    all.waiting += row.waiting;
    all.costless += row.costless;
  }
  print("all", all);
}

void print_confidence(const Sum& sum) {
  if (sum.scored == 0) {
    return;
  }
  fmt::print("\n| confidence | findings | mean confidence | right |\n| --- | --- | --- | --- |\n");
  double from = 0;
  for (size_t i = 0; i < kConfidence.size(); ++i) {
    if (const Reliability& one = sum.confidence[i]; one.findings > 0) {
      fmt::print("| {:.2f} to {:.2f} | {} | {:.2f} | {:.1f} % |\n", from, kConfidence[i], one.findings,
                 one.confidence / one.findings, 100.0 * one.right / one.findings);
    }
    from = kConfidence[i];
  }
  fmt::print("\nBrier score {:.3f} of {} findings with a cause\n", sum.brier / sum.scored, sum.scored);
  fmt::print("\n| the job took longer by | faults | named |\n| --- | --- | --- |\n");
  double low = 0;
  for (size_t i = 0; i < kCostShares.size(); ++i) {
    const auto [faults, named] = sum.by_cost[i];
    const bool last = i + 1 == kCostShares.size();
    fmt::print("| {} | {} | {} |\n",
               last     ? fmt::format("{:.0f} % or more", 100 * low)
               : i == 0 ? fmt::format("less than {:.0f} %", 100 * kCostShares[i])
                        : fmt::format("{:.0f} to {:.0f} %", 100 * low, 100 * kCostShares[i]),
               faults, named);
    low = kCostShares[i];
  }
}

/// Moves all rows with a time but collectives.
class ShiftedEvidence final : public EventSink {
 public:
  ShiftedEvidence(MemorySource& to, int64_t shift_ns) : to_(to), shift_ns_(shift_ns) {}
  void accept(Event event) override {
    std::visit(
        [&](auto& row) {
          using Type = std::remove_cvref_t<decltype(row)>;
          if constexpr (StreamedType<Type> && !std::is_same_v<Type, Collective>) {
            row.timestamp_ns += shift_ns_;
          }
        },
        event);
    to_.accept(std::move(event));
  }

 private:
  MemorySource& to_;
  int64_t shift_ns_;
};

/// A cause that only rows other than calls and processes show.
bool is_from_evidence(Cause cause) {
  switch (cause) {
    case Cause::kLateRank:
    case Cause::kSlowDevice:
    case Cause::kDeadRank:
    case Cause::kMissingCollective:
    case Cause::kMismatchedCollective:
    case Cause::kInitFailure:
    case Cause::kUnknown:
      return false;
    default:
      return true;
  }
}

struct ShiftRow {
  int64_t stalls = 0;    // with this cause where the evidence is in its place
  int64_t shifted = 0;   // with this cause where it is moved
  int64_t findings = 0;  // likewise
  int64_t in_moved = 0;
};

/// Stalls of a finding, by the cause of each.
void count_causes(const ExplainResult& result, std::map<Cause, ShiftRow>& rows, int64_t ShiftRow::*stalls,
                  int64_t ShiftRow::*findings) {
  for (const analysis::Decision& decision : result.decisions) {
    const analysis::Hypothesis& chosen = decision.hypotheses[decision.chosen];
    rows[chosen.dismissed ? Cause::kUnknown : chosen.cause].*stalls += 1;
  }
  for (const Finding& finding : result.report.findings) {
    rows[finding.cause].*findings += 1;
  }
}

void run_shifted(const Request& request) {
  std::map<Cause, ShiftRow> rows;
  for (uint64_t seed = request.from; seed < request.to; ++seed) {
    const Job job(simulation::draw_faulty(seed, request.kind, request.limits, request.shape));
    MemorySource recorded;
    job.record_all(recorded);
    count_causes(must(explain(recorded)), rows, &ShiftRow::stalls, &ShiftRow::findings);
    MemorySource moved;
    ShiftedEvidence sink(moved, request.shift_ns);
    job.record_all(sink);
    const ExplainResult result = must(explain(moved));
    count_causes(result, rows, &ShiftRow::shifted, &ShiftRow::in_moved);
    for (const Finding& finding : result.report.findings) {
      if (is_from_evidence(finding.cause) && finding.severity != Severity::kWaiting) {
        fmt::print("explained by moved evidence: {}\n    {} {:.2f} {}\n", text_of(job.options()),
                   to_text(finding.severity), finding.confidence, finding.summary);
      }
    }
  }
  fmt::print("\n| cause | stalls | stalls, evidence moved | findings | findings, evidence moved |\n");
  fmt::print("| --- | --- | --- | --- | --- |\n");
  ShiftRow all;
  int64_t explained = 0;
  int64_t explained_falsely = 0;
  for (const auto& [cause, row] : rows) {
    fmt::print("| {} | {} | {} | {} | {} |\n", to_text(cause), row.stalls, row.shifted, row.findings, row.in_moved);
    all.stalls += row.stalls;
    all.shifted += row.shifted;
    explained += is_from_evidence(cause) ? row.stalls : 0;
    explained_falsely += is_from_evidence(cause) ? row.shifted : 0;
  }
  fmt::print("\nfalse explanations: {} of {} stalls ({:.2f} %), where the evidence in its place explains {}\n",
             explained_falsely, all.shifted,
             100 * static_cast<double>(explained_falsely) / static_cast<double>(std::max<int64_t>(1, all.shifted)),
             explained);
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
    const std::string outcome = judge(result.report, job, sum);
    if (!outcome.starts_with("right") || request.all) {
      fmt::print("{}: {}\n", outcome, text_of(options));
      for (const Finding& finding : result.report.findings) {
        fmt::print("    {} {:.2f} +{:.1f} s {}\n", to_text(finding.severity), finding.confidence,
                   static_cast<double>(finding.window.from_ns - result.report.range.from_ns) / 1e9, finding.summary);
      }
      std::fflush(stdout);
    }
  }
  print_tables(sum, request.faults);
  print_confidence(sum);
}

}  // namespace
}  // namespace stalltrace

int main(int count, char** words) {
  const stalltrace::Request request = stalltrace::request_of(count, words);
  if (request.shift_ns > 0) {
    stalltrace::run_shifted(request);
  } else {
    stalltrace::run(request);
  }
}
