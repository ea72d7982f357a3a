// SPDX-License-Identifier: Apache-2.0
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
constexpr int64_t kMostLinesLookedAt = 200'000;  // of a job's output before NCCL's first line

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

Result<bool> is_log(const std::string& path) {
  ST_ASSIGN(LineReader lines, LineReader::open(path));
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
  constexpr std::array<std::string_view, 5> kNames{"unknown", "recording", "profiler file", "NCCL log",
                                                   "Flight Recorder dump"};
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
  const bool pickle = head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
  if (pickle || is_json_dump(head)) {
    return Format::kFlightRecorder;
  }
  ST_ASSIGN(const bool log, is_log(path));
  return log ? Format::kNcclLog : Format::kUnknown;
}

}  // namespace stalltrace::import
