// SPDX-License-Identifier: Apache-2.0
#include "report/report_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "report/benchmark_text.h"
#include "report/capture_text.h"
#include "report/page.h"
#include "report/profile_text.h"

namespace stalltrace::report {
namespace {

constexpr size_t kSizesListed = 4;
constexpr size_t kAttemptsListed = 8;
/// Without TextOptions::all. More findings have a line each, and of still more, of losses and of notes, only the number
/// is given.
constexpr size_t kFindingsInFull = 8;
constexpr size_t kFindingsListed = 24;
constexpr size_t kLossesListed = 12;
constexpr size_t kNotesListed = 16;

int64_t length_ns(const TimeRange& range) { return range.to_ns - range.from_ns; }

/// True if --from and --to select less than the recording.
bool is_part(const Report& report) {
  return report.judged_range.from_ns != report.range.from_ns || report.judged_range.to_ns != report.range.to_ns;
}

/// "+1.718s": the format of --from and --to, in whole milliseconds, rounded down.
std::string offset_text(int64_t offset_ns) {
  const int64_t ms = offset_ns / kNsPerMs;
  return fmt::format("{}{}.{:03}s", offset_ns < 0 ? "-" : "+", std::abs(ms) / 1000, std::abs(ms) % 1000);
}

std::string when_text(const Finding& finding, const Report& report) {
  const auto since_start = [&](int64_t time_ns) { return time_ns - report.range.from_ns; };
  return fmt::format("{} to {} ({} to {} into the recording)", format_utc(finding.window.from_ns),
                     format_utc(finding.window.to_ns), offset_text(since_start(finding.window.from_ns)),
                     offset_text(since_start(finding.window.to_ns) + kNsPerMs - 1));
}

std::string cost_text(const Finding& finding, const Report& report) {
  if (finding.ended_job) {
    return "the job: it ended" + (finding.collectives_affected == 0 ? "" : ", after " + waiting_text(finding));
  }
  if ((report.ends_unknown || !finding.cost_known) && finding.stall_ms <= 0) {
    return "not known: the evidence does not show how long";
  }
  const int64_t judged_ns = report.judged == 0 ? 0 : length_ns(report.judged_range);
  const double whole_ms = static_cast<double>(judged_ns) / static_cast<double>(kNsPerMs);
  return fmt::format("{}{}", waiting_text(finding),
                     whole_ms > 0 ? fmt::format(", {:.0f} % of the {} time", 100 * finding.stall_ms / whole_ms,
                                                is_part(report) ? "judged" : "recorded")
                                  : "");
}

bool has_attempts(const Report& report) { return report.attempts.size() > 1; }

/// The start of a process is known to a tick of the kernel's clock (proc(5), starttime), 10 ms: an attempt that follows
/// another one at once may seem to begin before that ended. The analysis allows for as much (kLivesMeetNs).
constexpr int64_t kStartErrorNs = 20 * kNsPerMs;

/// "4 ranks", "2 job attempts of 2 ranks, one after the other,", "2 jobs of 2 ranks at the same time"
std::string ranks_text(const Report& report) {
  const std::vector<JobAttempt>& attempts = report.attempts;
  if (!has_attempts(report)) {
    return count_of(report.ranks, "rank");
  }
  std::vector<std::string> sizes;
  bool all_apart = true;
  bool all_together = true;
  bool all_equal = true;
  for (size_t i = 0; i < attempts.size(); ++i) {
    sizes.push_back(fmt::format("{}", attempts[i].ranks));
    all_equal = all_equal && attempts[i].ranks == attempts[0].ranks;
    for (size_t j = 0; j < i; ++j) {
      const bool meet = std::max(attempts[i].range.from_ns, attempts[j].range.from_ns) + kStartErrorNs <
                        std::min(attempts[i].range.to_ns, attempts[j].range.to_ns);
      all_apart = all_apart && !meet;
      all_together = all_together && meet;
    }
  }
  const std::string ranks =
      all_equal ? count_of(attempts[0].ranks, "rank")
      : sizes.size() > kSizesListed
          ? count_of(report.ranks, "rank") + " in all"
          : fmt::format("{} and {} ranks", fmt::join(sizes.begin(), sizes.end() - 1, ", "), sizes.back());
  return fmt::format("{} {} of {}{}", attempts.size(), all_together ? "jobs" : "job attempts", ranks,
                     all_apart      ? ", one after the other,"
                     : all_together ? " at the same time"
                                    : ", some at the same time,");
}

std::string looked_at(const Report& report) {
  const std::string whole =
      is_part(report) ? fmt::format(" (of {} in {})", report.collectives, format_duration(length_ns(report.range)))
                      : "";
  return fmt::format("{} of {} on {} in {}{}", count_of(report.judged, "collective"), ranks_text(report),
                     count_of(report.nodes, "node"),
                     format_duration(report.judged == 0 ? 0 : length_ns(report.judged_range)), whole);
}

void write_finding(Page& page, const Report& report, const Finding& finding, size_t number) {
  page.line();
  page.line(fmt::format("{} {} ({}, confidence {:.0f} %)", page.paint(fmt::format("[{}]", number), kBold),
                        page.paint(to_text(finding.cause), severity_colour(finding.severity)),
                        to_text(finding.severity), 100 * finding.confidence));
  page.field("what", printable(finding.summary));
  page.field("where", printable(where_text(finding, has_attempts(report))));
  page.field("when", when_text(finding, report));
  page.field("cost", cost_text(finding, report));
  bool first = true;
  for (const Evidence& evidence : finding.evidence) {
    page.field(first ? "evidence" : "", printable(fmt::format("{} ({})", evidence.text, evidence.kind)));
    first = false;
  }
  page.field("do", printable(finding.remedy));
}

/// Of many attempts only the last few are printed: they show the current state.
void write_attempts(Page& page, const Report& report) {
  if (!has_attempts(report)) {
    return;
  }
  page.line();
  const size_t first = report.attempts.size() - std::min(report.attempts.size(), kAttemptsListed);
  for (size_t i = first; i < report.attempts.size(); ++i) {
    const JobAttempt& attempt = report.attempts[i];
    page.field(i == first ? "attempts" : "",
               printable(fmt::format("{}: {} on {}, {} to {}; {}", attempt.number, count_of(attempt.ranks, "rank"),
                                     count_of(attempt.nodes, "node"),
                                     offset_text(attempt.range.from_ns - report.range.from_ns),
                                     offset_text(attempt.range.to_ns - report.range.from_ns), attempt.end)));
  }
}

/// "[9] late_rank (high): rank 12 on node3, pid 812; 2.02 s of waiting in 55 collectives"
void write_in_short(Page& page, const Report& report, const Finding& finding, size_t number) {
  page.line(printable(fmt::format("[{}] {} ({}): {}; {}", number, to_text(finding.cause), to_text(finding.severity),
                                  where_text(finding, has_attempts(report)), waiting_text(finding))));
}

void write_findings(Page& page, const Report& report, bool all) {
  const size_t count = report.findings.size();
  const size_t in_full = all ? count : std::min(count, kFindingsInFull);
  for (size_t i = 0; i < in_full; ++i) {
    write_finding(page, report, report.findings[i], i + 1);
  }
  if (in_full == count) {
    return;
  }
  page.line();
  const size_t listed = std::min(count, kFindingsListed);
  for (size_t i = in_full; i < listed; ++i) {
    write_in_short(page, report, report.findings[i], i + 1);
  }
  page.line(listed == count ? std::string("--all prints these in full")
                            : fmt::format("{} more; --all prints all in full", count - listed));
}

/// How many are listed, and the line that says so where some are not.
std::pair<size_t, std::string> listed_of(size_t count, size_t most, bool all) {
  return all || count <= most ? std::pair(count, std::string())
                              : std::pair(most, fmt::format("{} more; --all prints them", count - most));
}

void write_reservations(Page& page, const Report& report, bool all) {
  if (!report.losses.empty() || !report.notes.empty()) {
    page.line();
  }
  const auto [losses, more_losses] = listed_of(report.losses.size(), kLossesListed, all);
  for (const Loss& loss : std::span(report.losses).first(losses)) {
    const auto name = report.node_names.find(loss.node_id);
    page.field("lost", printable(fmt::format(
                           "{} from {} ({})", count_of(loss.count, "event"), loss.source,
                           name == report.node_names.end() ? fmt::format("node {}", loss.node_id) : name->second)));
  }
  if (!more_losses.empty()) {
    page.field("lost", more_losses);
  }
  const auto [notes, more_notes] = listed_of(report.notes.size(), kNotesListed, all);
  for (const std::string& note : std::span(report.notes).first(notes)) {
    page.field("note", printable(note));
  }
  if (!more_notes.empty()) {
    page.field("note", more_notes);
  }
}

std::string verdict_without_findings(const Page& page, const Report& report) {
  std::vector<std::string> given;  // what is no job's recording
  for (std::string text : {benchmarks_text(report), profiles_text(report), captures_text(report)}) {
    if (!text.empty()) {
      given.push_back(std::move(text));
    }
  }
  if (report.collectives == 0 && !given.empty()) {
    return page.paint(fmt::format("{}", fmt::join(given, ", ")), kBold) + ".";
  }
  if (report.collectives == 0 && report.has_others_evidence && !report.notes.empty()) {
    return fmt::format("{} no collective was recorded; the notes have what the evidence shows.",
                       page.paint("No finding:", kBold));
  }
  if (report.judged == 0) {
    return fmt::format(
        "{} {}.", page.paint("Nothing to judge:", kBold),
        report.collectives == 0 ? "the recording holds no collectives" : "no collective is between --from and --to");
  }
  if (report.failed_ranks > 0) {
    return fmt::format("{} but no stall worth a finding in {}.",
                       page.paint(count_of(report.failed_ranks, "rank") + " failed,", kBold), looked_at(report));
  }
  if (report.ends_unknown) {
    return fmt::format("{} no finding in {}.", page.paint("When calls ended is not known:", kBold), looked_at(report));
  }
  if (!report.unplaced_waits.empty() && report.unrecorded_ranks.empty()) {
    return fmt::format(
        "{} no finding in {}; see the notes.",
        page.paint("Ranks waited for another, and the clocks of the hosts do not show for which:", kBold),
        looked_at(report));
  }
  if (!report.unseen_graphs.empty() && report.unrecorded_ranks.empty()) {
    return fmt::format("{} no finding in {} outside of them; see the notes.",
                       page.paint("What ran inside CUDA graphs was not seen:", kBold), looked_at(report));
  }
  if (report.like && report.like->comparable == 0 && report.unrecorded_ranks.empty()) {
    return fmt::format("{} no finding in {} judged by themselves; see the notes.",
                       page.paint("Nothing could be compared with the run given by --like:", kBold), looked_at(report));
  }
  return fmt::format("{} no stall worth a finding in {}.",
                     report.health()
                         ? page.paint("Healthy:", kGreen)
                         : page.paint("Ranks were not recorded, and what happened there is not known:", kBold),
                     looked_at(report));
}

}  // namespace

std::string report_to_text(const Report& report, const TextOptions& options) {
  Page page(options.colour);
  if (report.findings.empty()) {
    page.line(verdict_without_findings(page, report));
    write_attempts(page, report);
  } else {
    const Finding& first = report.findings.front();
    page.line(page.paint(printable(first.summary), kBold));
    page.line(fmt::format("{} {}.", count_of(static_cast<int64_t>(report.findings.size()), "finding"),
                          report.collectives == 0
                              ? fmt::format("on {}, where no collective was recorded", count_of(report.nodes, "node"))
                              : "in " + looked_at(report)));
    write_attempts(page, report);
    write_findings(page, report, options.all);
  }
  write_benchmarks(page, report);
  write_profiles(page, report);
  write_captures(page, report);
  write_reservations(page, report, options.all);
  return page.take();
}

}  // namespace stalltrace::report
