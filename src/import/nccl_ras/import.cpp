// SPDX-License-Identifier: Apache-2.0
// Reports of NCCL's RAS as events: a file is a node, and each statement on a rank or process a row of log_line, at the
// time of its report. The first row of a report says what it is.
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "import/evidence.h"
#include "import/file_node.h"
#include "import/nccl_ras/report.h"
#include "import/read_files.h"
#include "model/events/imported_evidence.h"
#include "model/parse/log_time.h"

namespace stalltrace::import {
namespace {

constexpr size_t kLargestFile = size_t{128} << 20;
constexpr int64_t kUntimedReportNs = kNsPerUs;  // between reports that have no time

std::string describe(const RasReport& report) {
  std::string text = fmt::format("report of NCCL's RAS{}: {}", report.version.empty() ? "" : " " + report.version,
                                 count_of(report.comms, "communicator"));
  if (!report.json) {
    text += fmt::format(", {} OK", std::max<int64_t>(report.comms - report.comms_at_fault, 0));
  }
  if (report.timeouts > 0) {
    text += fmt::format(", {} while it was collected", count_of(report.timeouts, "time-out"));
  }
  return text + (report.whole ? "" : ", cut off");
}

class Import {
 public:
  Import(EventSink& sink, const Note& note) : sink_(sink), note_(note) {}

  Status read(const std::string& path) {
    ST_ASSIGN(const std::string bytes, read_whole(path, kLargestFile));
    const RasReports reports = read_ras_reports(bytes);
    if (reports.refused > 0) {
      note_(fmt::format("{}: {} not read: {}", path, count_of(static_cast<int64_t>(reports.refused), "report"),
                        reports.problem));
    }
    if (reports.reports.empty()) {
      return fail(fmt::format("{}: no whole report of NCCL's RAS", path), {}, ErrorKind::kCorrupt);
    }
    deliver(path, reports);
    ++summary_.files;
    return {};
  }

  Status read(std::span<const RasAnswer> answers) {
    RasReports all;
    for (const RasAnswer& answer : answers) {
      RasReports reports = read_ras_reports(answer.text);
      if (reports.reports.empty()) {
        return fail(fmt::format("NCCL's RAS at {}: it answered something else: {}", answer.address,
                                printable(std::string_view(answer.text).substr(0, 80))),
                    "see what listens there", ErrorKind::kCorrupt);
      }
      reports.reports.back().asked_ns = answer.asked_ns;
      all.reports.push_back(std::move(reports.reports.back()));
      all.left_out += reports.left_out;
    }
    if (!answers.empty()) {
      deliver(answers.front().address, all);
      ++summary_.files;
    }
    return {};
  }

  void refuse(const std::string& path) {
    Node node = nodes_.make(path, kRasFormat);
    node.missing_evidence = fmt::format("{} {}", kLacksDurations, kLacksCalls);
    sink_.accept(Loss{node.node_id, "ras:unreadable_file", 1});
    sink_.accept(std::move(node));
    ++summary_.nodes;
  }
  [[nodiscard]] const Summary& summary() const { return summary_; }

 private:
  void deliver(const std::string& path, const RasReports& reports) {
    Node node = nodes_.make(path, kRasFormat);
    const int64_t written_ns = node.started_ns;
    bool timed = true;
    bool in_utc = true;
    int64_t number = std::ssize(reports.reports);
    for (const RasReport& report : reports.reports) {
      --number;
      const auto reported_ns = report.time.empty() ? std::nullopt : find_time(report.time, {written_ns, true});
      const auto own_ns = report.asked_ns ? report.asked_ns : reported_ns;
      in_utc = in_utc && report.asked_ns;
      timed = timed && (own_ns || reports.reports.size() == 1);
      const int64_t time_ns = std::max<int64_t>(own_ns.value_or(written_ns - number * kUntimedReportNs), 0);
      node.started_ns = std::min(node.started_ns, time_ns);
      node.ended_ns = std::max(*node.ended_ns, time_ns);
      LogLine row{.node_id = node.node_id, .timestamp_ns = time_ns, .kind = LogKind::kVersion, .line = report.line};
      row.file = path;
      row.text = describe(report);
      sink_.accept(row);
      for (const auto& [line, statement] : report.statements) {
        deliver(statement, line > 0 ? line : report.line, row);
      }
      ++summary_.rows;
    }
    // A report in text has no time: it is the file's, which is later than the report, and which copying may change.
    node.missing_evidence = fmt::format("{} {}", kLacksDurations, kLacksCalls);
    node.missing_evidence += timed ? "" : fmt::format(" {}", kLacksTimes);
    node.missing_evidence += in_utc ? "" : fmt::format(" {}", kLacksTimeZone);
    const auto cut = std::ranges::count(reports.reports, false, &RasReport::whole);
    for (const auto& [source, count] :
         {std::pair("ras:refused_reports", reports.refused), std::pair("ras:statements_not_kept", reports.left_out),
          std::pair("ras:cut_reports", static_cast<uint64_t>(cut))}) {
      if (count > 0) {
        sink_.accept(Loss{node.node_id, source, count});
      }
    }
    sink_.accept(std::move(node));
    ++summary_.nodes;
  }

  void deliver(const RasStatement& statement, int64_t line, const LogLine& of_report) {
    LogLine row = of_report;
    row.kind = statement.state == RasState::kDead || statement.state == RasState::kUnresponsive ||
                       statement.init_error != 0 || statement.async_error != 0
                   ? LogKind::kWarning
                   : LogKind::kEnd;
    row.pid = statement.pid;
    row.rank = statement.whole_job ? statement.rank : std::nullopt;
    row.line = line;
    row.text = ras_text(statement);
    sink_.accept(std::move(row));
  }

  EventSink& sink_;
  const Note& note_;
  Summary summary_;
  FileNodes nodes_;
};

}  // namespace

Result<Summary> import_ras_answers(std::span<const RasAnswer> answers, EventSink& sink, const Note& note) {
  Import import(sink, note);
  ST_TRY(import.read(answers));
  return import.summary();
}

Result<Summary> import_nccl_ras(std::span<const std::string> paths, EventSink& sink, const Note& note,
                                const Options& /*options*/) {
  Import import(sink, note);
  ST_TRY(read_files(import, paths, note, "no report of NCCL's RAS"));
  return import.summary();
}

}  // namespace stalltrace::import
