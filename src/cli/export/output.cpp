// SPDX-License-Identifier: Apache-2.0
#include "cli/export/output.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "base/files/caller.h"
#include "base/files/new_file.h"
#include "export/csv/report_rows.h"
#include "export/encode/chrome_encoder.h"
#include "export/encode/perfetto_encoder.h"
#include "report/query_format.h"
#include "store/read/table_values.h"

namespace stalltrace::cli {
namespace {

using trace_export::TraceSummary;

/// Adds a remedy to an error of the output, which has none of its own.
Status explained(Status status) {
  if (!status && status.error().remedy.empty() && status.error().kind == ErrorKind::kFailed) {
    status.error().remedy = "free some disk space, or choose another folder with --out";
  }
  return status;
}

Status append(NewFile& file, std::string_view bytes) { return explained(file.append(bytes)); }

Result<NewFile> create(const std::string& path, Readers readers) {
  auto file = NewFile::create(path, file_mode(readers));
  if (!file) {
    file.error().remedy = "choose a folder you may write to with --out";
  }
  return file;
}

Status publish(NewFile& file, const std::string& path) {
  (void)hand_to_caller(file.descriptor());
  Status published = file.publish(IfThere::kFail);
  if (!published) {
    ST_TRY(check_nothing_there(path));
  }
  return explained(std::move(published));
}

/// Writes the rows of one CSV file; refuses more once its file has failed or the export was stopped.
class CsvFile final : public RowSink {
 public:
  CsvFile(NewFile file, std::string path, const std::function<bool()>& stopped)
      : file_(std::move(file)), path_(std::move(path)), stopped_(stopped) {}

  Status columns(const std::vector<std::string>& names) override { return formatter_->columns(names); }
  Result<bool> row(std::span<const Value> values) override {
    if (++rows_ % kRowsPerQuestion == 0 && stopped_ && stopped_()) {
      return fail("interrupted: nothing was written", {}, ErrorKind::kInterrupted);
    }
    ST_TRY(formatter_->row(values));
    ST_TRY(status_);
    return true;
  }
  Status finish() {
    ST_TRY(formatter_->finish());
    flush();
    return status_;
  }
  Status give_name() { return publish(file_, path_); }
  [[nodiscard]] uint64_t rows() const { return rows_; }

 private:
  static constexpr size_t kBlockBytes = size_t{1} << 18;
  static constexpr uint64_t kRowsPerQuestion = 4096;

  void flush() {
    if (status_) {
      status_ = append(file_, block_);
    }
    block_.clear();
  }

  NewFile file_;
  std::string path_;
  const std::function<bool()>& stopped_;
  uint64_t rows_ = 0;
  Status status_;
  std::string block_;
  std::unique_ptr<report::QueryFormatter> formatter_ =
      report::make_query_formatter(report::QueryFormat::kCsv, [this](std::string_view text) {
        block_ += text;
        if (block_.size() >= kBlockBytes) {
          flush();
        }
      });
};

/// A new folder with CSV files. Removes what it made unless keep() was called.
class CsvFolder {
 public:
  static Result<CsvFolder> make(const std::string& path, Readers readers) {
    const std::string parent = std::filesystem::path(path).parent_path().string();
    if (!parent.empty() && ::access(parent.c_str(), F_OK) != 0) {
      return fail_errno("create " + path, errno, "choose a folder you may write to with --out");
    }
    ST_ASSIGN(OwnFolder folder, OwnFolder::claim(path, readers));
    if (!folder.created()) {
      ST_TRY(check_nothing_there(path));
    }
    return CsvFolder(std::move(folder));
  }
  CsvFolder(CsvFolder&& other) noexcept = default;
  CsvFolder& operator=(CsvFolder&&) = delete;
  ~CsvFolder() {
    if (folder_ && !kept_) {
      for (const Table& table : tables_) {
        folder_.remove(table.name);
      }
      tables_.clear();  // a file without a name keeps a folder of a file server from being removed
      folder_.remove_itself();
    }
  }

  Result<CsvFile*> add(std::string_view table, const std::function<bool()>& stopped, Readers readers) {
    std::string name = fmt::format("{}.csv", table);
    std::string path = fmt::format("{}/{}", folder_.path(), name);
    ST_ASSIGN(NewFile file, create(path, readers));
    tables_.push_back({std::move(name), std::make_unique<CsvFile>(std::move(file), std::move(path), stopped)});
    return tables_.back().file.get();
  }
  /// Gives all files their names.
  Result<CsvSummary> keep() {
    CsvSummary summary;
    for (const Table& table : tables_) {
      ST_TRY(table.file->finish());
      summary.rows += table.file->rows();
      ++summary.files;
    }
    for (const Table& table : tables_) {
      ST_TRY(table.file->give_name());
    }
    folder_.hand_over();
    kept_ = true;
    return summary;
  }

 private:
  struct Table {
    std::string name;
    std::unique_ptr<CsvFile> file;
  };

  explicit CsvFolder(OwnFolder folder) : folder_(std::move(folder)) {}

  OwnFolder folder_;
  std::vector<Table> tables_;
  bool kept_ = false;
};

}  // namespace

Status check_nothing_there(const std::string& out) {
  struct stat info {};
  return ::lstat(out.c_str(), &info) != 0
             ? Status()
             : fail(out + ": exists already",
                    S_ISDIR(info.st_mode) ? "choose another folder with --out" : "choose another file with --out");
}

Result<TraceSummary> write_trace(const ExplainedRecordings& recordings, TraceFormat format,
                                 const trace_export::TraceOptions& options, const std::string& out, Readers readers) {
  ST_ASSIGN(NewFile file, create(out, readers));
  const auto sink = [&file](std::string_view bytes) { return append(file, bytes); };
  const auto encoder = format == TraceFormat::kPerfetto ? trace_export::make_perfetto_encoder(sink)
                                                        : trace_export::make_chrome_encoder(sink);
  ST_ASSIGN(const TraceSummary summary, trace_export::export_trace(recordings.names->source(), recordings.report,
                                                                   recordings.clocks, options, *encoder));
  ST_TRY(publish(file, out));
  return summary;
}

Result<CsvSummary> write_csv_folder(const ExplainedRecordings& recordings, TimeRange range,
                                    const std::function<bool()>& stopped, const std::string& out, Readers readers) {
  ST_ASSIGN(CsvFolder folder, CsvFolder::make(out, readers));
  for (const std::string_view table : store::tables_of_events()) {
    ST_ASSIGN(CsvFile * file, folder.add(table, stopped, readers));
    ST_TRY(store::read_table(*recordings.source, table, range, *file));
  }
  ST_ASSIGN(CsvFile * findings, folder.add("finding", stopped, readers));
  ST_TRY(trace_export::put_finding_rows(recordings.report.findings, *findings));
  ST_ASSIGN(CsvFile * clocks, folder.add("clock", stopped, readers));
  ST_TRY(trace_export::put_clock_rows(recordings.clocks, *clocks));
  return folder.keep();
}

}  // namespace stalltrace::cli
