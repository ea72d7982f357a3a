// SPDX-License-Identifier: Apache-2.0
// How often the finding is right in simulated jobs: bench_simulated healthy|faults [--seeds FROM:TO] [--ranks LOW:HIGH]
// [--shape NAME] [--fault CAUSE] [--all]. Generation and analysis in one process, without files. Prints a line for each
// seed whose result is not right (with --all: for each), then the tables of `lab matrix --simulated`, which scores in
// the same way and has fewer choices. With --shift SECONDS: the evidence of each recording is moved by that against its
// collectives, and what the analysis still explains by it is explained falsely.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "analysis/explain.h"
#include "base/clock.h"
#include "bench/must.h"
#include "lab/cluster/campaign/table.h"
#include "lab/cluster/simulated/scored_job.h"
#include "lab/simulation/draw.h"
#include "lab/simulation/job.h"
#include "lab/simulation/shapes.h"
#include "model/memory_source.h"

namespace stalltrace {
namespace {

using simulation::FaultKind;
using simulation::Job;
using simulation::JobOptions;

Result<Report> report_of(EventSource& source) {
  ST_ASSIGN(ExplainResult result, explain(source));
  return std::move(result.report);
}

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
        fmt::print("explained by moved evidence: {}\n    {} {:.2f} {}\n", lab::text_of(job.options()),
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
  std::vector<lab::DrawResult> results;
  for (uint64_t seed = request.from; seed < request.to; ++seed) {
    const JobOptions options = request.faults
                                   ? simulation::draw_faulty(seed, request.kind, request.limits, request.shape)
                                   : simulation::draw_healthy(seed, request.limits, request.shape);
    lab::ScoredJob scored = must(lab::score_simulated(static_cast<int64_t>(seed), options, report_of));
    const lab::DrawScore& score = scored.result.score;
    if (score.verdict != lab::DrawVerdict::kRight || request.all) {
      fmt::print("{}: {}\n", lab::to_text(score.verdict), lab::text_of(options));
      for (const Finding& finding : scored.report.findings) {
        fmt::print("    {} {:.2f} +{:.1f} s {}\n", to_text(finding.severity), finding.confidence,
                   static_cast<double>(finding.window.from_ns - scored.report.range.from_ns) / 1e9, finding.summary);
      }
      std::fflush(stdout);
    }
    results.push_back(std::move(scored.result));
  }
  fmt::print("\n{}", lab::matrix_to_markdown(results));
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
