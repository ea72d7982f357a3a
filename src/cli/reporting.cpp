// SPDX-License-Identifier: Apache-2.0
#include "cli/reporting.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "analysis/explain.h"
#include "analysis/profiles/job_view.h"
#include "base/text.h"
#include "cli/evidence/joined_source.h"
#include "model/memory_source.h"
#include "model/parse/event_name.h"
#include "report/report_text.h"
#include "store/read/reader.h"

namespace stalltrace::cli {
namespace {

/// Of logs, the last calls of each rank decide: a gigabyte of them would not fit in memory.
constexpr uint64_t kMostCallsInMemory = 300'000;

Result<InspectedReport> inspect(EventSource& source, const store::ReadReport& read, std::string_view event,
                                const TimeWindow& window, const analysis::Reference* reference) {
  ExplainOptions options{.window = window};
  options.reference = reference;
  if (!event.empty()) {
    ST_ASSIGN(const std::vector<Node> nodes, source.nodes());
    auto call = event_called(event, nodes);
    if (!call) {
      return with_context("--instance", std::move(call.error()));
    }
    options.instance = *call;
  }
  ST_ASSIGN(ExplainResult result, stalltrace::explain(source, options));
  std::ranges::move(read.notes(), std::back_inserter(result.report.notes));
  result.report.lost_events += read.rows_left_out();
  return InspectedReport{std::move(result.report), std::move(result.inspection).value_or(Inspection{})};
}

Result<InspectedReport> inspect_files(std::span<const std::string> paths, std::string_view event,
                                      const TimeWindow& window, const analysis::Reference* reference) {
  store::ReadReport read;
  ST_ASSIGN(const std::unique_ptr<EventSource> source, store::open_recordings(paths, &read));
  return inspect(*source, read, event, window, reference);
}

/// What was not read of the files that --like takes.
std::vector<std::string> notes_on(const Inputs& inputs, const SortedInputs& sorted, const store::ReadReport& read) {
  std::vector<std::string> notes = inputs.notes;
  std::ranges::copy(sorted.notes, std::back_inserter(notes));
  std::ranges::move(read.notes(), std::back_inserter(notes));
  size_t others = sorted.skipped + sorted.profiler_files.size();
  for (const auto& [format, files] : sorted.evidence) {
    others += files.size();
  }
  if (others > 0) {
    notes.push_back(fmt::format("{} of other formats: not read", count_of(static_cast<int64_t>(others), "file")));
  }
  for (std::string& note : notes) {
    note.insert(0, "--like: ");
  }
  return notes;
}

}  // namespace

Result<InspectedReport> inspect_recordings(std::span<const std::string> paths, std::string_view event,
                                           const TimeWindow& window) {
  return inspect_files(paths, event, window, nullptr);
}

Result<InspectedReport> inspect_inputs(const Inputs& inputs, std::string_view event, const TimeWindow& window,
                                       const ReadReference* like) {
  const analysis::Reference* reference = like == nullptr ? nullptr : &like->reference;
  SortedInputs sorted = sort_inputs(inputs);
  if (sorted.refused) {
    return std::unexpected(*sorted.refused);
  }
  const auto add_notes = [&](Report& report) {
    std::ranges::copy(inputs.notes, std::back_inserter(report.notes));
    std::ranges::copy(sorted.notes, std::back_inserter(report.notes));
    if (like != nullptr) {
      std::ranges::copy(like->notes, std::back_inserter(report.notes));
    }
    report.lost_events += static_cast<int64_t>(sorted.unreadable);
  };
  if (sorted.only_recordings() && !sorted.recordings.empty()) {
    ST_ASSIGN(InspectedReport inspected, inspect_files(sorted.recordings, event, window, reference));
    add_notes(inspected.report);
    return inspected;
  }
  if (sorted.only_recordings() && sorted.unreadable_recording) {
    return std::unexpected(*sorted.unreadable_recording);
  }
  if (sorted.only_recordings()) {
    return fail(
        fmt::format("nothing to explain in {}: no recording, log or dump", count_of(std::ssize(inputs.found), "file")),
        "'stalltrace import --help' lists the formats", ErrorKind::kNotFound);
  }
  store::ReadReport read;
  ST_ASSIGN(const std::unique_ptr<EventSource> recordings, store::open_recordings(sorted.recordings, &read));
  MemorySource imported;
  std::vector<std::string> notes;
  ST_TRY(leave_out_recorded(*recordings, sorted, notes));
  std::vector<std::string> summary;
  ST_TRY(import_inputs(
      sorted, imported, [&](const std::string& note) { notes.push_back(note); }, CommandLines::kRedacted,
      {.most_calls = kMostCallsInMemory}, summary));
  JoinedSource joined(imported, *recordings);
  EventSource& source = sorted.recordings.empty() ? static_cast<EventSource&>(imported) : joined;
  ST_ASSIGN(InspectedReport inspected, inspect(source, read, event, window, reference));
  inspected.report.notes.insert(inspected.report.notes.begin(), summary.begin(), summary.end());
  std::ranges::move(notes, std::back_inserter(inspected.report.notes));
  add_notes(inspected.report);
  if (sorted.skipped > 0) {
    inspected.report.notes.push_back(
        fmt::format("{} of other formats: not read", count_of(static_cast<int64_t>(sorted.skipped), "file")));
  }
  return inspected;
}

Result<ReadReference> read_reference(const Inputs& inputs) {
  const SortedInputs sorted = sort_inputs(inputs);
  if (sorted.refused) {
    return with_context("--like", *sorted.refused);
  }
  if (sorted.recordings.empty()) {
    return sorted.unreadable_recording ? with_context("--like", *sorted.unreadable_recording)
                                       : fail("--like: no recording in what was given",
                                              "stalltrace import makes one of profiler files", ErrorKind::kNotFound);
  }
  store::ReadReport read;
  auto source = store::open_recordings(sorted.recordings, &read);
  if (!source) {
    return with_context("--like", std::move(source.error()));
  }
  auto job = analysis::JobView::load(**source);
  if (!job) {
    return with_context("--like", std::move(job.error()));
  }
  ReadReference like{.reference = analysis::Reference::learn((*job)->timeline(), (*job)->cluster()), .notes = {}};
  if (like.reference.run().collectives == 0) {
    return fail("--like: the recordings hold no collectives", "give those of a run of the same job that was right",
                ErrorKind::kNotFound);
  }
  like.reference.set_files(sorted.recordings);
  like.notes = notes_on(inputs, sorted, read);
  return like;
}

Result<Report> explain_recordings(std::span<const std::string> paths, const TimeWindow& window) {
  ST_ASSIGN(InspectedReport inspected, inspect_recordings(paths, {}, window));
  return std::move(inspected.report);
}

Result<ExplainedRecordings> open_and_explain(std::span<const std::string> paths, const TimeWindow& window) {
  ExplainedRecordings all;
  ST_ASSIGN(all.source, store::open_recordings(paths));
  ST_ASSIGN(analysis::CommonNames names, analysis::CommonNames::read(*all.source));
  all.names = std::make_unique<analysis::CommonNames>(std::move(names));
  ST_ASSIGN(ExplainResult result, stalltrace::explain(*all.source, {.window = window, .stalled_calls = true}));
  all.report = std::move(result.report);
  all.clocks = std::move(result.clocks);
  return all;
}

void print_report(Console& console, const Report& report, bool all) {
  console.out(report::report_to_text(report, {.colour = console.colour_out(), .all = all}));
}

void print_rows(Console& console, std::string_view text) {
  if (!console.shows_out()) {
    console.out(text);
    return;
  }
  std::string shown;
  for (const std::string_view line : split(text, '\n')) {
    shown += (line.data() == text.data() ? "" : "\n") + printable(line);
  }
  console.out(shown);
}

}  // namespace stalltrace::cli
