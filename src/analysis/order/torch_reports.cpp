// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/torch_reports.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>

#include "analysis/advice.h"
#include "analysis/rank_numbers.h"
#include "analysis/thresholds/order.h"
#include "base/text.h"
#include "model/events/imported/torch_report.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kLongestQuote = 300;
constexpr size_t kMostEvidence = 4;
constexpr size_t kMostReports = 10'000;
constexpr size_t kMostDisagreements = 4;  // in which ranks entered different collectives

/// A line that was recorded, and what it says.
struct Printed {
  LogLine row;
  TorchReport report;  // views into row.text
};

/// "ALLREDUCE [20, 10] Float, number 7"
std::string text_of(const TorchFingerprint& print) {
  std::string text(print.op);
  text += print.shape.empty() ? "" : fmt::format(" {}", print.shape);
  text += print.dtypes.empty() ? "" : fmt::format(" {}", print.dtypes);
  return text + (print.number ? fmt::format(", number {}", *print.number) : "");
}

class Reader {
 public:
  explicit Reader(EventSource& source) : source_(source) {}

  Result<std::vector<Finding>> judge() {
    ST_ASSIGN(const std::vector<Node> nodes, source_.nodes());
    for (const Node& node : nodes) {
      names_[node.node_id] = node.name;
    }
    ST_TRY(source_.log_lines({}, [&](const LogLine& row) {
      if (row.kind != LogKind::kWarning || printed_.size() == kMostReports) {
        return;
      }
      auto one = std::make_unique<Printed>(Printed{row, {}});
      if (auto report = read_torch_report(one->row.text)) {
        one->report = std::move(*report);
        printed_.push_back(std::move(one));
      }
    }));
    judge_mismatches();
    judge_unused();
    judge_barriers();
    return std::move(findings_);
  }

 private:
  std::vector<const Printed*> of(TorchReport::Kind kind) const {
    std::vector<const Printed*> found;
    for (const auto& one : printed_) {
      if (one->report.kind == kind) {
        found.push_back(one.get());
      }
    }
    return found;
  }

  /// The ranks of a report are those of a process group; they are the job's if it is known that the one that printed
  /// it has the same number in both: its line has the rank in the job.
  [[nodiscard]] static bool of_job(const std::vector<const Printed*>& reports, size_t speaker) {
    return std::ranges::all_of(reports, [&](const Printed* one) {
      return one->row.rank && speaker < one->report.ranks.size() && *one->row.rank == one->report.ranks[speaker];
    });
  }

  [[nodiscard]] Culprit culprit(int32_t rank, const std::vector<const Printed*>& reports) const {
    Culprit who{"", rank, 0};
    for (const Printed* one : reports) {
      if (one->row.rank == rank) {
        who.pid = one->row.pid;
        who.node = one->row.pid == 0 ? "" : names_.at(one->row.node_id);
      }
    }
    return who;
  }

  Finding finding_of(Cause cause, double confidence, const std::vector<const Printed*>& reports) const {
    Finding finding{.cause = cause, .severity = Severity::kCritical, .confidence = confidence};
    finding.collectives_affected = 1;
    finding.window = {reports.front()->row.timestamp_ns, reports.back()->row.timestamp_ns};
    for (size_t i = 0; i < std::min(reports.size(), kMostEvidence); ++i) {
      finding.evidence.push_back({"log_line", 1, std::string(reports[i]->report.text.substr(0, kLongestQuote)), {}});
    }
    return finding;
  }

  /// By the number of the collective: #7 of one group or run says nothing on #9 of another.
  void judge_mismatches() {
    std::map<std::optional<int64_t>, std::vector<const Printed*>> by_number;
    for (const Printed* one : of(TorchReport::Kind::kMismatch)) {
      by_number[std::ranges::min(one->report.fingerprints, {}, &TorchFingerprint::number).number].push_back(one);
    }
    for (const auto& [number, reports] : by_number) {
      if (findings_.size() == kMostDisagreements) {
        findings_.back().evidence.push_back(
            {"log_line", std::ssize(by_number) - std::ssize(findings_), "later collectives differed, too", {}});
        return;
      }
      judge_mismatch(reports);
    }
  }

  void judge_mismatch(const std::vector<const Printed*>& reports) {
    using Signature = std::tuple<std::string_view, std::string_view, std::string_view, std::optional<int64_t>>;
    std::map<int32_t, const TorchFingerprint*> prints;
    for (const Printed* one : reports) {
      for (size_t i = 0; i < one->report.ranks.size(); ++i) {
        prints.emplace(one->report.ranks[i], &one->report.fingerprints[i]);
      }
    }
    std::map<Signature, std::vector<int32_t>> sides;
    for (const auto& [rank, print] : prints) {
      sides[{print->op, print->shape, print->dtypes, print->number}].push_back(rank);
    }
    const bool in_job = of_job(reports, 0);
    Finding finding = finding_of(Cause::kMismatchedCollective, kLeftConfidence, reports);
    finding.op = operation_of_torch(prints.begin()->second->op);
    std::vector<std::vector<int32_t>> by_size;
    for (auto& [signature, ranks] : sides) {
      by_size.push_back(ranks);
    }
    std::ranges::stable_sort(by_size, std::greater<>(), [](const auto& ranks) { return ranks.size(); });
    const bool odd = by_size.size() == 2 && by_size[1].size() == 1 && by_size[0].size() > 1;
    if (odd && in_job) {
      finding.culprit = culprit(by_size[1].front(), reports);
    }
    std::vector<std::string> texts;
    for (size_t i = 0; i < std::min<size_t>(by_size.size(), 3); ++i) {
      texts.push_back(fmt::format("{} {}", ranks_text(by_size[i]), text_of(*prints.at(by_size[i].front()))));
    }
    const bool one_number = std::ranges::all_of(
        prints, [&](const auto& one) { return one.second->number == prints.begin()->second->number; });
    if (!one_number) {
      finding.confidence = kOrderAloneConfidence;
      finding.evidence.push_back({"log_line",
                                  0,
                                  "their numbers differ: a rank is behind, or took another path through the program, "
                                  "earlier than this call",
                                  {}});
    }
    finding.summary = fmt::format("Ranks{} entered different collectives {}: {}.", in_job ? "" : " of a process group",
                                  one_number ? "under one number" : "at one time", fmt::join(texts, "; "));
    finding.remedy = kCompareCode;
    findings_.push_back(std::move(finding));
  }

  void judge_unused() {
    const auto reports = of(TorchReport::Kind::kUnusedParameters);
    if (reports.empty()) {
      return;
    }
    std::set<int32_t> ranks;
    std::set<std::string_view> parameters;
    for (const Printed* one : reports) {
      ranks.insert(one->report.ranks.front());
      for (const std::string_view name : split(one->report.parameters, ',')) {
        parameters.insert(trim(name));
      }
    }
    Finding finding = finding_of(Cause::kMissingCollective, kOutsideConfidence, reports);
    if (ranks.size() == 1 && of_job(reports, 0)) {
      finding.culprit = culprit(*ranks.begin(), reports);
    }
    constexpr size_t kListed = 4;
    const std::vector<std::string_view> names(parameters.begin(), parameters.end());
    finding.summary = fmt::format(
        "{} did not reduce the gradients of {}: {}{} had none in that iteration, so that the others wait, or all fail.",
        ranks_text({ranks.begin(), ranks.end()}), count_of(std::ssize(names), "parameter"),
        fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kListed)), ", "),
        names.size() > kListed ? ", ..." : "");
    finding.summary[0] = 'R';
    finding.remedy =
        "use these parameters in the loss on every rank and in every iteration, or construct DistributedDataParallel "
        "with find_unused_parameters=True; look for branches of forward() that depend on the data";
    findings_.push_back(std::move(finding));
  }

  void judge_barriers() {
    const auto reports = of(TorchReport::Kind::kBarrier);
    if (reports.empty()) {
      return;
    }
    std::set<int32_t> ranks;
    for (const Printed* one : reports) {
      ranks.insert(one->report.ranks.begin(), one->report.ranks.end());
    }
    Finding finding = finding_of(Cause::kMissingCollective, kOutsideConfidence, reports);
    finding.op = Operation::kBarrier;
    // Rank 0 of the group prints it.
    const bool in_job = std::ranges::all_of(reports, [](const Printed* one) { return one->row.rank == 0; });
    if (ranks.size() == 1 && in_job) {
      finding.culprit = culprit(*ranks.begin(), reports);
    }
    finding.summary =
        fmt::format("{} did not come to a monitored barrier in time.", ranks_text({ranks.begin(), ranks.end()}));
    finding.summary[0] = 'R';
    finding.remedy =
        fmt::format("see where {} is (stalltrace stacks, py-spy dump), and why its process ended if it did",
                    ranks_text({ranks.begin(), ranks.end()}));
    findings_.push_back(std::move(finding));
  }

  EventSource& source_;
  std::map<NodeId, std::string> names_;
  std::vector<std::unique_ptr<Printed>> printed_;
  std::vector<Finding> findings_;
};

}  // namespace

Status add_torch_reports(EventSource& source, std::vector<Finding>& findings) {
  ST_ASSIGN(std::vector<Finding> found, Reader(source).judge());
  for (Finding& finding : found) {
    const auto same = std::ranges::find_if(findings, [&](const Finding& other) {
      return other.cause == finding.cause && other.culprit && finding.culprit && other.culprit->rank &&
             other.culprit->rank == finding.culprit->rank;
    });
    if (same == findings.end()) {
      findings.push_back(std::move(finding));
      continue;
    }
    same->severity = Severity::kCritical;
    same->confidence = std::max(same->confidence, finding.confidence);
    same->evidence.push_back({"log_line", 1, finding.summary, {}});
    std::ranges::move(finding.evidence, std::back_inserter(same->evidence));
  }
  return {};
}

}  // namespace stalltrace::analysis
