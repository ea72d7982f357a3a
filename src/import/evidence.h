// SPDX-License-Identifier: Apache-2.0
// Evidence that others made, as events: which format a file has, and the reading of all files of a job. docs/import.md
// has what each format shows. The files may be hostile: sizes, lengths and depths are bounded, texts are kept as they
// are (they are made printable where they are laid out).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
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
  kNcclTests,       // output of all_reduce_perf and the others, text or JSON
  kKernelLog,       // dmesg, journalctl -k, kern.log
  kPySpy,           // py-spy dump, text or JSON
  kChromeTrace,     // of torch.profiler, plain or gzip
  kPacketCapture,   // pcap or pcapng, plain or gzip
  kNcclRas,         // reports of NCCL's RAS, text or JSON
  kNcclInspector,   // lines of NCCL's Inspector
  kNvidiaSmi,       // text of nvidia-smi -q
  kAutopsy,         // the result of stalltrace autopsy: no reader here has it
  kDcgmi,           // output of dcgmi dmon or stats, or of an old dcgmi health: recognised, not read
  kOtherPickle,     // of anything else
  kDcgmHealth,      // text of dcgmi health -c
};
/// "recording", "profiler file", "NCCL log", "Flight Recorder dump", "nccl-tests output", "kernel log", "py-spy
/// dump", "profiler trace", "packet capture", "NCCL RAS output", "NCCL Inspector file",
/// "nvidia-smi report", "DCGM health report", "other pickle", "unknown"
std::string_view name_of(Format format);

/// By the file's content: a job's output can have several formats. At least one; kUnknown only alone. Fails if the file
/// can't be read.
Result<std::vector<Format>> detect(const std::string& path);

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
  uint64_t rows = 0;        // of formats without calls: delivered results or messages
};

/// What the reader has to know besides the events: "node1.log: line 12: ...".
using Note = std::function<void(const std::string&)>;

/// Logs: reads each file twice. Fails if none can be read.
Result<Summary> import_nccl_logs(std::span<const std::string> paths, EventSink& sink, const Note& note,
                                 const Options& options = {});
/// Dumps of one job, one file per rank. Fails if none can be read.
Result<Summary> import_flight_recorder(std::span<const std::string> paths, EventSink& sink, const Note& note,
                                       const Options& options = {});

/// Outputs of nccl-tests. Fails if none can be read.
Result<Summary> import_nccl_tests(std::span<const std::string> paths, EventSink& sink, const Note& note,
                                  const Options& options = {});
/// Kernel logs. Fails if none can be read.
Result<Summary> import_kernel_logs(std::span<const std::string> paths, EventSink& sink, const Note& note,
                                   const Options& options = {});
/// Dumps of py-spy. Fails if none can be read.
Result<Summary> import_py_spy(std::span<const std::string> paths, EventSink& sink, const Note& note,
                              const Options& options = {});
/// Traces of torch.profiler. Fails if none can be read.
Result<Summary> import_chrome_traces(std::span<const std::string> paths, EventSink& sink, const Note& note,
                                     const Options& options = {});
/// Packet captures. Fails if none can be read.
Result<Summary> import_packet_captures(std::span<const std::string> paths, EventSink& sink, const Note& note,
                                       const Options& options = {});

/// Reports of NCCL's RAS. Fails if none can be read.
Result<Summary> import_nccl_ras(std::span<const std::string> paths, EventSink& sink, const Note& note,
                                const Options& options = {});

/// Lines of NCCL's Inspector. Fails if none can be read.
Result<Summary> import_nccl_inspector(std::span<const std::string> paths, EventSink& sink, const Note& note,
                                      const Options& options = {});

/// Text of nvidia-smi -q. Fails if none can be read.
Result<Summary> import_nvidia_smi(std::span<const std::string> paths, EventSink& sink, const Note& note,
                                  const Options& options = {});

/// Text of dcgmi health -c. Fails if none can be read.
Result<Summary> import_dcgm_health(std::span<const std::string> paths, EventSink& sink, const Note& note,
                                   const Options& options = {});

/// What RAS answered to a question of ours.
struct RasAnswer {
  std::string address;
  int64_t asked_ns = 0;  // in UTC: when it was asked
  std::string text;
};
/// The same for answers; those of one address are a node. Fails if one can't be read.
Result<Summary> import_ras_answers(std::span<const RasAnswer> answers, EventSink& sink, const Note& note);

/// Of a format that is recognised and that no reader has: what the file is, and what to do with it.
std::optional<Error> not_read(Format format, const std::string& path);

/// The readers above.
struct Reader {
  Format format = Format::kUnknown;
  std::string_view row;  // what Summary::rows counts: "result"; empty: it delivers calls
  Result<Summary> (*read)(std::span<const std::string> paths, EventSink& sink, const Note& note,
                          const Options& options) = nullptr;
};
std::span<const Reader> readers();

}  // namespace stalltrace::import
