// SPDX-License-Identifier: Apache-2.0
// Evidence that others made, as events: which format a file has, and the reading of all files of a job. docs/import.md
// has what each format shows. The files may be hostile: sizes, lengths and depths are bounded, texts are kept as they
// are (they are made printable where they are laid out).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/events.h"

namespace stalltrace::import {

enum class Format : uint8_t {
  kUnknown,
  kRecording,       // an SQLite file
  kProfilerFile,    // of our NCCL profiler plugin
  kNcclLog,         // NCCL_DEBUG output, alone or in a job's output
  kFlightRecorder,  // PyTorch's, pickle or JSON
  kOtherPickle,     // of anything else
};
/// "recording", "profiler file", "NCCL log", "Flight Recorder dump", "other pickle", "unknown"
std::string_view name_of(Format format);

/// By the file's content. Fails if it can't be read.
Result<Format> detect(const std::string& path);

struct Options {
  /// Of each rank and communicator only the last calls are delivered, about this many rows in all.
  uint64_t most_calls = std::numeric_limits<uint64_t>::max();
};

struct Summary {
  size_t files = 0;
  size_t nodes = 0;
  size_t processes = 0;
  uint64_t calls = 0;       // delivered
  uint64_t calls_left = 0;  // older ones that were not, by Options::most_calls
};

/// What the reader has to know besides the events: "node1.log: line 12: ...".
using Note = std::function<void(const std::string&)>;

/// Logs: reads each file twice. Fails if none can be read.
Result<Summary> import_nccl_logs(std::span<const std::string> paths, EventSink& sink, const Note& note,
                                 const Options& options = {});
/// Dumps of one job, one file per rank. Fails if none can be read.
Result<Summary> import_flight_recorder(std::span<const std::string> paths, EventSink& sink, const Note& note,
                                       const Options& options = {});

}  // namespace stalltrace::import
