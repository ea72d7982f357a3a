// SPDX-License-Identifier: Apache-2.0
// What `export` makes: a trace file, or a folder of CSV files. Both get their names once they are complete and stored;
// nothing is left of one that could not be finished or was interrupted.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/files/own_folder.h"
#include "base/result.h"
#include "cli/reporting.h"
#include "export/trace_export.h"

namespace stalltrace::cli {

enum class TraceFormat { kPerfetto, kChrome };

/// Error if something is there already: neither a file nor a folder is overwritten.
Status check_nothing_there(const std::string& out);

Result<trace_export::TraceSummary> write_trace(const ExplainedRecordings& recordings, TraceFormat format,
                                               const trace_export::TraceOptions& options, const std::string& out,
                                               Readers readers);

struct CsvSummary {
  size_t files = 0;
  uint64_t rows = 0;
};
/// A file for each table, with the rows that belong to `range`, and those of findings and clocks. `stopped` as in
/// TraceOptions.
Result<CsvSummary> write_csv_folder(const ExplainedRecordings& recordings, TimeRange range,
                                    const std::function<bool()>& stopped, const std::string& out, Readers readers);

}  // namespace stalltrace::cli
