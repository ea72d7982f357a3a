// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>

#include "base/file.h"
#include "import/evidence.h"
#include "import/lines.h"
#include "import/nccl_log/log_text.h"

namespace stalltrace::import {
namespace {

constexpr std::string_view kSqlite = "SQLite format 3";
constexpr std::string_view kProfilerMagic = "STBLKBOX";
constexpr size_t kHeadBytes = 4096;
// Of a job's output before NCCL's first line:
constexpr int64_t kMostLinesLookedAt = 200'000;
constexpr uint64_t kMostBytesLookedAt = uint64_t{64} << 20;

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

Result<bool> is_log(const std::string& path, uint64_t most_bytes) {
  ST_ASSIGN(LineReader lines, LineReader::open(path, most_bytes));
  std::string scratch;
  while (const auto line = lines.next()) {
    const std::string_view text = without_escapes(line->text, scratch);
    const LogText read = read_log_text(text);
    if ((read.level != LogText::Level::kNone && (!read.host.empty() || read.level == LogText::Level::kVersion)) ||
        is_timeout(text)) {
      return true;
    }
    if (line->number >= kMostLinesLookedAt) {
      break;
    }
  }
  return false;
}

}  // namespace

std::string_view name_of(Format format) {
  constexpr std::array<std::string_view, 6> kNames{
      "unknown", "recording", "profiler file", "NCCL log", "Flight Recorder dump", "other pickle"};
  return kNames[static_cast<size_t>(format)];
}

Result<Format> detect(const std::string& path) {
  if (auto opened = open_regular(path); !opened) {
    return std::unexpected(std::move(opened.error()));
  }
  ST_ASSIGN(const std::string head, read_file(path, kHeadBytes));
  if (head.starts_with(kSqlite)) {
    return Format::kRecording;
  }
  if (head.starts_with(kProfilerMagic)) {
    return Format::kProfilerFile;
  }
  if (head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5) {
    return is_pickled_dump(head) ? Format::kFlightRecorder : Format::kOtherPickle;
  }
  if (is_json_dump(head)) {
    return Format::kFlightRecorder;
  }
  const bool binary = head.find('\0') != std::string::npos;  // a log can have a few, but it begins as text
  ST_ASSIGN(const bool log, is_log(path, binary ? kHeadBytes : kMostBytesLookedAt));
  return log ? Format::kNcclLog : Format::kUnknown;
}

}  // namespace stalltrace::import
