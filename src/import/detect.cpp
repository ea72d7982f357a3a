// SPDX-License-Identifier: Apache-2.0
// Recognises the formats of an evidence file by its first bytes, and of a text by its lines.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <vector>

#include "base/file.h"
#include "base/files/sqlite_magic.h"
#include "base/process/command.h"
#include "import/byte_stream.h"
#include "import/chrome_trace/trace.h"
#include "import/dcgm_health/health_report.h"
#include "import/evidence.h"
#include "import/kernel_log/message.h"
#include "import/lines.h"
#include "import/nccl_inspector/record.h"
#include "import/nccl_log/log_text.h"
#include "import/nccl_log/torchrun.h"
#include "import/nccl_log/tracebacks.h"
#include "import/nccl_ras/report.h"
#include "import/nccl_tests/json_report.h"
#include "import/nccl_tests/table.h"
#include "import/nvidia_smi/gpu_report.h"
#include "import/packet_capture/packets.h"
#include "import/py_spy/dump.h"
#include "import/word_search.h"
#include "model/events/imported/process_report.h"
#include "model/events/imported/torch_report.h"
#include "model/json/autopsy_result.h"

namespace stalltrace::import {
namespace {

constexpr std::string_view kProfilerMagic = "STBLKBOX";
constexpr std::string_view kGzip = "\x1f\x8b";
constexpr size_t kHeadBytes = 4096;
// Of a text from its beginning each line is looked at:
constexpr int64_t kMostLinesSearched = 200'000;
constexpr uint64_t kMostBytesSearched = uint64_t{64} << 20;
// then those with certain words, since a job that fails after days says so at the end of its output:
constexpr uint64_t kMostBytesScanned = uint64_t{1} << 30;
constexpr uint64_t kMostBytesAtEnd = uint64_t{256} << 20;

bool is_json_dump(std::string_view head) {
  const size_t brace = head.find_first_not_of(" \t\r\n");
  if (brace == std::string_view::npos || head[brace] != '{') {
    return false;
  }
  constexpr std::array<std::string_view, 5> kKeys{"\"pg_config\"", "\"pg_status\"", "\"nccl_version\"",
                                                  "\"comm_lib_version\"", "\"entries\""};
  for (const std::string_view key : kKeys) {
    if (head.find(key) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

/// Of PyTorch's pickler or Python's: a dictionary, of which the first keys are known.
bool is_pickled_dump(std::string_view head) {
  constexpr size_t kProtocolBytes = 2;
  constexpr size_t kFrameBytes = 9;  // its opcode and its size
  const size_t top = head.substr(kProtocolBytes).starts_with('\x95') ? kProtocolBytes + kFrameBytes : kProtocolBytes;
  constexpr std::array<std::string_view, 4> kKeys{"version", "pg_config", "pg_status", "entries"};
  return top < head.size() && head[top] == '}' &&
         std::ranges::any_of(kKeys, [&](std::string_view key) { return head.find(key) != std::string_view::npos; });
}

/// Its first member says so.
bool is_autopsy_result(std::string_view head) {
  constexpr size_t kFirstMember = 128;
  const std::string_view first = head.substr(0, kFirstMember);
  const size_t key = first.find(kMadeBy);
  return first.find_first_not_of(" \t\r\n") == first.find('{') && key != std::string_view::npos &&
         first.find(kMadeByAutopsy, key) != std::string_view::npos;
}

/// dcgmi dmon's table of columns, the head of an old dcgmi health -c, and those of dcgmi stats.
bool is_dcgmi_output(std::string_view head) {
  for (size_t at = 0; at < head.size();) {
    const std::string_view line = head.substr(at, head.find('\n', at) - at);
    at += line.size() + 1;
    if (line.starts_with("#Entity ") || line.starts_with("# Entity ")) {
      return true;
    }
    constexpr std::array<std::string_view, 4> kHeads{"Health Monitor Report", "-  Execution Stats  -",
                                                     "Successfully retrieved process info for PID",
                                                     "Successfully retrieved statistics for job"};
    for (const std::string_view words : kHeads) {
      if (line.find(words) != std::string_view::npos) {
        return true;
      }
    }
  }
  return false;
}

bool is_log_line(std::string_view text) {
  const LogText read = read_log_text(text);
  if (read.level == LogText::Level::kVersion && text.find(" compiled with CUDA ") != std::string_view::npos) {
    return false;  // the head of a report of NCCL's RAS
  }
  return (read.level != LogText::Level::kNone && (!read.host.empty() || read.level == LogText::Level::kVersion)) ||
         is_nameless_warning(read) || is_timeout(text) || read_torch_report(text) || is_ranks_traceback(text) ||
         read_process_report(text) || is_torchrun_failure(text);
}

// A single line that looks like the kernel's may have any origin.
constexpr size_t kKernelLines = 8;

/// What lines of NCCL, and of PyTorch's watchdog, checks and tracebacks have, and few others.
constexpr std::array<std::string_view, 21> kLogWords{"NCCL INFO",
                                                     "NCCL WARN",
                                                     "NCCL TRACE",
                                                     "NCCL CALL",
                                                     "NCCL version",
                                                     "RCCL version",
                                                     "Watchdog caught collective operation timeout",
                                                     "detected by watchdog at work",
                                                     "Timeout at NCCL work: ",
                                                     "Timeout at collective: ",
                                                     "dump signal due to a collective timeout",
                                                     "Detected mismatch between collectives",
                                                     "did not receive grad for rank",
                                                     "to pass monitoredBarrier",
                                                     "watchdog got stuck for ",
                                                     "thread terminated with exception: ",
                                                     "what():  CUDA error: ",
                                                     "Connection closed by remote peer ",
                                                     "failed (exitcode: ",
                                                     "Root Cause (first observed failure)",
                                                     "Traceback (most recent call last)"};
constexpr std::array<std::string_view, 1> kTestWords{"nThread "};
constexpr std::array<std::string_view, 10> kKernelWords{
    "NVRM: Xid (", "SXid (PCI:",         "PCIe Bus Error: severity=", "DPC: containment event", "Killed process ",
    "fallen off",  "Kernel panic - not", "GPU reset begin",           "signaled seq=",          "mlx5_core "};
constexpr std::array<std::string_view, 1> kPySpyWords{"\"MainThread\""};
constexpr std::array<std::string_view, 1> kRasWords{"Communicators... ("};
constexpr std::array<std::string_view, 1> kSmiWords{"NVSMI LOG"};
constexpr std::array<std::string_view, 1> kHealthWords{"Health Monitor Report"};

/// A format whose files consist of lines: a job's output may have several.
struct LineFormat {
  Format format;
  bool (*is_line)(std::string_view line);
  std::span<const std::string_view> words;  // by which a line is found in a long output; none: it is not looked for
  size_t least_lines = 1;
};
constexpr std::array kLineFormats{LineFormat{Format::kNcclLog, is_log_line, kLogWords},
                                  LineFormat{Format::kNcclTests, is_benchmark_line, kTestWords},
                                  LineFormat{Format::kKernelLog, is_kernel_message, kKernelWords},
                                  LineFormat{Format::kKernelLog, is_kernel_line, {}, kKernelLines},
                                  LineFormat{Format::kPySpy, is_py_spy_line, kPySpyWords},
                                  LineFormat{Format::kNcclRas, is_ras_line, kRasWords},
                                  LineFormat{Format::kNcclInspector, is_inspector_line, {}},
                                  LineFormat{Format::kNvidiaSmi, is_gpu_report_line, kSmiWords},
                                  LineFormat{Format::kDcgmHealth, is_health_report_line, kHealthWords}};

/// The formats of a text, by its lines.
class FormatSearch {
 public:
  void take(std::string_view line) {
    const std::string_view text = without_escapes(line, scratch_);
    for (size_t i = 0; i < kLineFormats.size(); ++i) {
      const LineFormat& one = kLineFormats[i];
      if (seen_[i] < one.least_lines && one.is_line(text) && ++seen_[i] == one.least_lines) {
        ++found_;
        words_.reset();
      }
    }
  }
  /// The same for a line that has a word of a format that was not found yet.
  void take_if_likely(std::string_view line) {
    if (!words_) {
      std::vector<std::string_view> words;
      for (size_t i = 0; i < kLineFormats.size(); ++i) {
        const LineFormat& one = kLineFormats[i];
        if (seen_[i] < one.least_lines) {
          words.insert(words.end(), one.words.begin(), one.words.end());
        }
      }
      words_.emplace(std::move(words));
    }
    if (words_->any_in(line)) {
      take(line);
    }
  }
  [[nodiscard]] bool complete() const { return found_ == kLineFormats.size(); }
  [[nodiscard]] std::vector<Format> formats() const {
    std::vector<Format> formats;
    for (size_t i = 0; i < kLineFormats.size(); ++i) {
      const bool known = std::ranges::find(formats, kLineFormats[i].format) != formats.end();
      if (seen_[i] == kLineFormats[i].least_lines && !known) {
        formats.push_back(kLineFormats[i].format);
      }
    }
    return formats;
  }

 private:
  std::array<size_t, kLineFormats.size()> seen_{};
  size_t found_ = 0;
  std::optional<WordSearch> words_;  // of formats that were not found
  std::string scratch_;
};

Result<std::vector<Format>> formats_in_head(const std::string& path) {
  FormatSearch search;
  ST_ASSIGN(LineReader lines, LineReader::open(path, kHeadBytes));
  while (const auto line = lines.next()) {
    search.take(line->text);
  }
  return search.formats();
}

Result<std::vector<Format>> formats_in_text(const std::string& path) {
  FormatSearch search;
  ST_ASSIGN(LineReader lines, LineReader::open(path, kMostBytesScanned));
  uint64_t bytes = 0;
  while (const auto line = search.complete() ? std::nullopt : lines.next()) {
    bytes += line->text.size();
    const bool each = line->number <= kMostLinesSearched && bytes <= kMostBytesSearched;
    each ? search.take(line->text) : search.take_if_likely(line->text);
  }
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (!error && size > kMostBytesScanned) {
    const uint64_t from = std::max(kMostBytesScanned, size - std::min<uintmax_t>(size, kMostBytesAtEnd));
    ST_ASSIGN(LineReader end, LineReader::open(path, kMostBytesAtEnd, from));
    end.next();  // the rest of a line
    while (const auto line = search.complete() ? std::nullopt : end.next()) {
      search.take_if_likely(line->text);
    }
  }
  return search.formats();
}

}  // namespace

std::string_view name_of(Format format) {
  constexpr std::array<std::string_view, 17> kNames{
      "unknown",           "recording",           "profiler file",     "NCCL log",       "Flight Recorder dump",
      "nccl-tests output", "kernel log",          "py-spy dump",       "profiler trace", "packet capture",
      "NCCL RAS output",   "NCCL Inspector file", "nvidia-smi report", "autopsy result", "dcgmi output",
      "other pickle",      "DCGM health report"};
  return kNames[static_cast<size_t>(format)];
}

std::optional<Error> not_read(Format format, const std::string& path) {
  if (format == Format::kAutopsy) {
    return Error{ErrorKind::kUsage, path + ": this is an autopsy's result",
                 fmt::format("judge it, alone or with those of other hosts: {}",
                             format_command({"stalltrace", "autopsy", path}))};
  }
  if (format == Format::kDcgmi) {
    return Error{ErrorKind::kUsage, path + ": this is output of dcgmi, which is not read",
                 "give the kernel's log (dmesg has Xids), nvidia-smi -q and dcgmi health -c (DCGM 2 or newer) of that "
                 "host"};
  }
  return std::nullopt;
}

std::span<const Reader> readers() {
  static constexpr std::array kReaders{Reader{Format::kNcclLog, "", import_nccl_logs},
                                       Reader{Format::kFlightRecorder, "", import_flight_recorder},
                                       Reader{Format::kNcclTests, "result", import_nccl_tests},
                                       Reader{Format::kKernelLog, "message", import_kernel_logs},
                                       Reader{Format::kPySpy, "stack", import_py_spy},
                                       Reader{Format::kChromeTrace, "rank", import_chrome_traces},
                                       Reader{Format::kPacketCapture, "flow", import_packet_captures},
                                       Reader{Format::kNcclRas, "report", import_nccl_ras},
                                       Reader{Format::kNcclInspector, "", import_nccl_inspector},
                                       Reader{Format::kNvidiaSmi, "GPU", import_nvidia_smi},
                                       Reader{Format::kDcgmHealth, "GPU", import_dcgm_health}};
  return kReaders;
}

Result<std::vector<Format>> detect(const std::string& path) {
  using Formats = std::vector<Format>;
  if (auto opened = open_regular(path); !opened) {
    return std::unexpected(std::move(opened.error()));
  }
  ST_ASSIGN(const std::string head, read_file(path, kHeadBytes));
  if (head.starts_with(kSqliteMagic)) {
    return Formats{Format::kRecording};
  }
  if (head.starts_with(kProfilerMagic)) {
    return Formats{Format::kProfilerFile};
  }
  if (head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5) {
    return Formats{is_pickled_dump(head) ? Format::kFlightRecorder : Format::kOtherPickle};
  }
  ST_ASSIGN(const std::string plain,
            head.starts_with(kGzip) ? read_uncompressed_head(path, kHeadBytes) : Result<std::string>(head));
  if (is_autopsy_result(plain)) {
    return Formats{Format::kAutopsy};
  }
  if (is_packet_capture(plain)) {
    return Formats{Format::kPacketCapture};
  }
  if (is_chrome_trace(plain)) {
    return Formats{Format::kChromeTrace};
  }
  if (is_benchmark_report(head)) {
    return Formats{Format::kNcclTests};
  }
  if (is_py_spy_json(head)) {
    return Formats{Format::kPySpy};
  }
  if (is_ras_json(head)) {
    return Formats{Format::kNcclRas};
  }
  if (is_json_dump(head)) {
    return Formats{Format::kFlightRecorder};
  }
  const bool binary = head.find('\0') != std::string::npos;  // a log can have a few, but it begins as text
  ST_ASSIGN(Formats formats, binary ? formats_in_head(path) : formats_in_text(path));
  if (formats.empty()) {
    return Formats{is_dcgmi_output(plain) ? Format::kDcgmi : Format::kUnknown};
  }
  return formats;
}

}  // namespace stalltrace::import
