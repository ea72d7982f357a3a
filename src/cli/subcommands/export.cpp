// SPDX-License-Identifier: Apache-2.0
// `stalltrace export`: recordings for timeline viewers and for spreadsheets.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>

#include "analysis/findings/stalled_calls.h"
#include "base/text.h"
#include "cli/export/output.h"
#include "cli/framework/confined_reading.h"
#include "cli/framework/exit_code.h"
#include "cli/framework/time_flag.h"
#include "cli/privacy.h"
#include "cli/reporting.h"
#include "cli/stop_signals.h"
#include "cli/subcommands/subcommands.h"

namespace stalltrace::cli {
namespace {

constexpr size_t kClocksListed = 8;

class ExportSubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {.name = "export",
            .summary = "write recordings for Perfetto, other timeline viewers, or as CSV",
            .example = "stalltrace export node0.db node1.db --out job.pftrace",
            .details =
                "Open the file at https://ui.perfetto.dev, which reads it in the browser and sends it nowhere.\n"
                "A process track per rank, all nodes on one clock, findings with arrows to the calls that waited\n"
                "(docs/export.md)."};
  }
  std::vector<Flag> flags() override {
    return {arguments("FILE", "recordings of the same job, or one merged", &files_),
            choice_flag("--format", "what to write: Perfetto's format, Chrome's JSON, or a folder of CSV files",
                        {"perfetto", "chrome", "csv"}, &format_),
            required(text_flag("--out", "OUT", "the file to make, or the folder for csv; must not exist yet", &out_)),
            time_point_flag("--from", "only what had not ended before this", &window_.from),
            time_point_flag("--to", "only what began before this", &window_.to),
            ranks_flag("--rank", "only this rank of the job, and its node", &ranks_),
            switch_flag("--findings-only", "only what happened while a finding's stalls lasted", &findings_only_),
            privacy_.group_flag(),
            privacy_.readers_flag()};
  }
  Result<int> run(Console& console) override {
    const bool csv = format_ == "csv";
    if (csv && (findings_only_ || !ranks_.empty())) {
      return fail("--rank and --findings-only are not for --format csv",
                  "choose rows with SQL: stalltrace query FILE 'SELECT ...' --format csv", ErrorKind::kUsage);
    }
    while (out_.size() > 1 && out_.ends_with('/')) {
      out_.pop_back();
    }
    ST_TRY(check_nothing_there(out_));
    confine_to_reading(files_, out_, csv ? Makes::kFolder : Makes::kFile);
    ST_ASSIGN(const ExplainedRecordings recordings, open_and_explain(files_, window_));
    const TimeRange range = window_.at(recordings.report.range.from_ns);
    const StopSignals signals;
    const auto stopped = [&signals] {
      pollfd waiting{.fd = signals.descriptor(), .events = POLLIN, .revents = 0};
      return ::poll(&waiting, 1, 0) > 0;
    };
    ST_TRY(csv ? run_csv(recordings, range, stopped, console) : run_trace(recordings, range, stopped, console));
    return kExitDone;
  }

 private:
  Status run_csv(const ExplainedRecordings& recordings, TimeRange range, const std::function<bool()>& stopped,
                 Console& console) {
    ST_ASSIGN(const CsvSummary summary, write_csv_folder(recordings, range, stopped, out_, privacy_.readers()));
    console.note(fmt::format("{}: {} files, {} rows", out_, summary.files, summary.rows));
    return {};
  }

  Status run_trace(const ExplainedRecordings& recordings, TimeRange range, const std::function<bool()>& stopped,
                   Console& console) {
    const trace_export::TraceOptions options{.range = range,
                                             .ranks = ranks_,
                                             .findings_only = findings_only_,
                                             .most_stalled_calls = analysis::kMostStalledCalls,
                                             .stopped = stopped};
    ST_ASSIGN(const trace_export::TraceSummary summary,
              write_trace(recordings, format_ == "chrome" ? TraceFormat::kChrome : TraceFormat::kPerfetto, options,
                          out_, privacy_.readers()));
    console.note(fmt::format("{}: {} slices ({} of them not ended), {} instants, {} counter values, {} flows", out_,
                             summary.slices, summary.unended, summary.instants, summary.counter_values, summary.flows));
    ST_TRY(note_clocks(recordings, console));
    const auto note = [&](uint64_t count, const char* what) {
      if (count > 0) {
        console.note(fmt::format("{} {}", count, what));
      }
    };
    note(summary.reversed, "events end before they begin: shown without a length");
    note(summary.crowded, "events overlap more than 63 others of their kind: shown without a length");
    note(summary.left_out, "events were left out: no number, or more tracks than a viewer can show");
    note(summary.stalls_without_calls, "stalls have no slice and no flows: their findings have more than a file lists");
    if (!summary.absent_ranks.empty()) {
      console.note(fmt::format("not in the recordings: {} {}", summary.absent_ranks.size() == 1 ? "rank" : "ranks",
                               fmt::join(summary.absent_ranks, ", ")));
    }
    if (findings_only_ && recordings.report.findings.empty()) {
      console.note("there are no findings, and so no events: leave --findings-only away");
    }
    return {};
  }

  /// By how much the clocks of other hosts were moved.
  static Status note_clocks(const ExplainedRecordings& recordings, Console& console) {
    ST_ASSIGN(const std::vector<Node> nodes, recordings.source->nodes());
    size_t moved = 0;
    for (const NodeClock& clock : recordings.clocks) {
      if (clock.error_ns == 0 || moved++ >= kClocksListed) {
        continue;
      }
      const auto node = std::ranges::find(nodes, clock.node_id, &Node::node_id);
      console.note(fmt::format("the clock of {} was moved by {}, {}",
                               node == nodes.end() ? std::to_string(clock.node_id) : node->name,
                               format_duration(clock.shift_ns),
                               clock.error_ns ? "known to within " + format_duration(*clock.error_ns)
                                              : "and nothing bounds its distance from the others"));
    }
    if (moved > kClocksListed) {
      console.note(fmt::format("and {} more", count_of(static_cast<int64_t>(moved - kClocksListed), "clock")));
    }
    return {};
  }

  std::vector<std::string> files_;
  std::string format_ = "perfetto";
  std::string out_;
  TimeWindow window_;
  std::vector<int32_t> ranks_;
  bool findings_only_ = false;
  Privacy privacy_;
};

}  // namespace

std::unique_ptr<Subcommand> make_export_subcommand() { return std::make_unique<ExportSubcommand>(); }

}  // namespace stalltrace::cli
