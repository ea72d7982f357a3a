// SPDX-License-Identifier: Apache-2.0
// Reports of `dcgmi health -c` as events: a file is a node, since it names no host; each GPU with an incident is a row
// of log_line, at the file's time. The first row of a report says what it is.
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/text.h"
#include "import/dcgm_health/health_report.h"
#include "import/evidence.h"
#include "import/file_node.h"
#include "import/lines.h"
#include "import/read_files.h"
#include "model/events/imported_evidence.h"

namespace stalltrace::import {
namespace {

constexpr int64_t kUntimedReportNs = kNsPerUs;  // between reports, which have no time

class Import {
 public:
  Import(EventSink& sink, const Note& note) : sink_(sink), note_(note) {}

  Status read(const std::string& path) {
    ST_ASSIGN(LineReader lines, LineReader::open(path));
    HealthReportReader reader;
    take_lines(lines, path, note_, [&](const Line& line, std::string_view text) { reader.take(text, line.number); });
    const std::vector<HealthReport> reports = reader.finish();
    if (std::ranges::all_of(reports, [](const HealthReport& one) { return one.overall.empty(); })) {
      return fail(fmt::format("{}: no whole report of dcgmi health -c", path), {}, ErrorKind::kCorrupt);
    }
    deliver(path, reports, reader.left_out());
    ++summary_.files;
    return {};
  }

  void refuse(const std::string& path) {
    Node node = nodes_.make(path, kGpuHealthFormat);
    node.missing_evidence = fmt::format("{} {}", kLacksDurations, kLacksCalls);
    sink_.accept(Loss{node.node_id, "dcgm_health:unreadable_file", 1});
    sink_.accept(std::move(node));
    ++summary_.nodes;
  }
  [[nodiscard]] const Summary& summary() const { return summary_; }

 private:
  void deliver(const std::string& path, const std::vector<HealthReport>& reports, uint64_t left_out) {
    Node node = nodes_.make(path, kGpuHealthFormat);
    const int64_t written_ns = node.started_ns;
    int64_t after = std::ssize(reports);
    for (const HealthReport& report : reports) {
      --after;
      const int64_t time_ns = std::max<int64_t>(written_ns - after * kUntimedReportNs, 0);
      node.started_ns = std::min(node.started_ns, time_ns);
      LogLine row{.node_id = node.node_id, .timestamp_ns = time_ns, .kind = LogKind::kVersion, .line = report.line};
      row.file = path;
      row.text = fmt::format("dcgmi health: {}, {} with incidents", report.overall.empty() ? "cut off" : report.overall,
                             count_of(std::ssize(report.gpus), "GPU"));
      sink_.accept(row);
      for (const auto& [line, gpu] : report.gpus) {
        row.kind = LogKind::kWarning;
        row.line = line;
        row.text = gpu_state_text(gpu);
        sink_.accept(row);
        ++summary_.rows;
      }
    }
    node.missing_evidence = fmt::format("{} {} {} {}", kLacksDurations, kLacksCalls, kLacksTimeZone, kLacksTimes);
    if (left_out > 0) {
      sink_.accept(Loss{node.node_id, "dcgm_health:entities_not_kept", left_out});
    }
    sink_.accept(std::move(node));
    ++summary_.nodes;
  }

  EventSink& sink_;
  const Note& note_;
  Summary summary_;
  FileNodes nodes_;
};

}  // namespace

Result<Summary> import_dcgm_health(std::span<const std::string> paths, EventSink& sink, const Note& note,
                                   const Options& /*options*/) {
  Import import(sink, note);
  ST_TRY(read_files(import, paths, note, "no output of dcgmi health"));
  return import.summary();
}

}  // namespace stalltrace::import
