// SPDX-License-Identifier: Apache-2.0
// The files that a reading subcommand was given: recordings, logs, dumps and folders of them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/process/procfs.h"
#include "base/result.h"
#include "import/evidence.h"
#include "model/source.h"

namespace stalltrace::cli {

struct Inputs {
  std::vector<std::string> named;  // on the command line
  std::vector<std::string> found;  // in folders that were named, sorted
  std::vector<std::string> notes;  // what was not looked at

  [[nodiscard]] std::vector<std::string> all() const;
};

/// Lists the folders among `paths` (their subfolders too) and opens nothing.
Result<Inputs> list_inputs(std::span<const std::string> paths);

/// The files by their format.
struct SortedInputs {
  std::vector<std::string> recordings;  // that can be opened, and all named files of which the format is not known
  std::vector<std::string> profiler_files;
  std::map<import::Format, std::vector<std::string>> evidence;  // of the formats that import::readers() read
  std::vector<std::string>
      unknown;                     // named files that can be read and have no known format: among `recordings` as well
  size_t skipped = 0;              // found files of other formats
  size_t unreadable = 0;           // found recordings that can't be opened, SQLite files of others among them
  std::vector<std::string> notes;  // why
  std::optional<Error> unreadable_recording;  // the first; where there is none, a found file that no reader has
  std::optional<Error> refused;               // a named file of a format that is recognised and not read
  std::set<std::string> named;                // on the command line: these have to be read

  [[nodiscard]] bool only_recordings() const { return profiler_files.empty() && evidence.empty(); }
};

SortedInputs sort_inputs(const Inputs& inputs);

/// "job.log: no line of a format that import reads (NCCL log, ...), ...": for a file without evidence.
std::string no_evidence_in(const std::string& path);

/// Leaves out the profiler files if they are of hosts that the recordings show as well, as in the folder of a run: an
/// agent that ran there has put their content into its recording.
Status leave_out_recorded(EventSource& recordings, SortedInputs& inputs, std::vector<std::string>& notes);

/// Delivers all evidence but recordings. `note` gets what could not be read. Files of one format of which none can be
/// read are an error if one of them was named, or if the folder holds nothing else. `read` gets a line per format.
Status import_inputs(const SortedInputs& inputs, EventSink& sink, const import::Note& note, CommandLines commands,
                     const import::Options& options, std::vector<std::string>& read);

}  // namespace stalltrace::cli
