// SPDX-License-Identifier: Apache-2.0
// How often the finding is right in simulated jobs: bench_simulated healthy|faults [--seeds FROM:TO] [--ranks LOW:HIGH]
// [--shape NAME] [--fault CAUSE] [--all]. Generation and analysis in one process, without files. Prints a line for each
// seed whose result is not right (with --all: for each), then the tables of `lab matrix --simulated`, which scores in
// the same way and has fewer choices. With --shift SECONDS: the evidence of each recording is moved by that against its
// collectives, and what the analysis still explains by it is explained falsely.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "analysis/causes/cause.h"
#include "analysis/explain.h"
#include "base/clock.h"
#include "bench/must.h"
#include "lab/cluster/campaign/score.h"
#include "lab/cluster/campaign/shift/shift_score.h"
#include "lab/cluster/campaign/table.h"
#include "lab/cluster/simulated/scored_job.h"
#include "lab/cluster/simulated/truth_of.h"
#include "lab/cluster/truth.h"
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

lab::CostGate gate_of(std::string_view cause) {
  const std::optional<Cause> known = cause_from_text(cause);
  const analysis::Gate gate = known ? analysis::rule_of(*known).gate : analysis::Gate{};
  return {gate.single_ns, gate.total_ns, gate.share, analysis::kShareSpanNs};
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

/// What the shift test asks of the analysis. `findings` gets those of the newest recording.
lab::Judge judge_into(std::vector<Finding>& findings) {
  return [&findings](EventSource& source) -> Result<lab::Judgement> {
    ST_ASSIGN(ExplainResult result, explain(source));
    lab::Judgement judgement{.range = result.report.range};
    for (const analysis::Decision& decision : result.decisions) {
      const analysis::Hypothesis& chosen = decision.hypotheses[decision.chosen];
      judgement.stalls.push_back({chosen.dismissed ? Cause::kUnknown : chosen.cause, decision.stall.window});
    }
    findings = std::move(result.report.findings);
    std::erase_if(findings, [](const Finding& finding) { return finding.severity == Severity::kWaiting; });
    for (const Finding& finding : findings) {
      judgement.findings.push_back(finding.cause);
    }
    return judgement;
  };
}

void run_shifted(const Request& request) {
  std::vector<lab::ShiftResult> results;
  for (uint64_t seed = request.from; seed < request.to; ++seed) {
    const Job job(simulation::draw_faulty(seed, request.kind, request.limits, request.shape));
    MemorySource recorded;
    job.record_all(recorded);
    const lab::TruthRead truth = must(lab::read_truth(lab::to_json(lab::truth_of(job))));
    std::vector<Finding> findings;
    lab::ShiftResult result =
        must(lab::shift_recording(recorded, truth.faults, request.shift_ns, judge_into(findings)));
    result.draw = static_cast<int64_t>(seed);
    for (const Finding& finding : findings) {
      if (lab::is_from_evidence(finding.cause)) {
        fmt::print("explained by moved evidence{}: {}\n    {} {:.2f} {}\n", result.lasting ? ", a lasting fault" : "",
                   lab::text_of(job.options()), to_text(finding.severity), finding.confidence, finding.summary);
      }
    }
    results.push_back(std::move(result));
  }
  fmt::print("\n{}", lab::shift_to_markdown(results, request.shift_ns));
}

void run(const Request& request) {
  std::vector<lab::DrawResult> results;
  for (uint64_t seed = request.from; seed < request.to; ++seed) {
    const JobOptions options = request.faults
                                   ? simulation::draw_faulty(seed, request.kind, request.limits, request.shape)
                                   : simulation::draw_healthy(seed, request.limits, request.shape);
    lab::ScoredJob scored = must(lab::score_simulated(static_cast<int64_t>(seed), options, report_of, gate_of));
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
