// SPDX-License-Identifier: Apache-2.0
// Shared by the targets that import what others wrote.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "analysis/explain.h"
#include "base/clock.h"
#include "base/text.h"
#include "import/evidence.h"
#include "model/memory_source.h"
#include "report/report_json.h"
#include "report/report_text.h"
#include "tests/fuzz/rows.h"

namespace stalltrace::fuzz {

class EvidenceFile {
 public:
  explicit EvidenceFile(const std::string& name) {
    char folder[] = "/dev/shm/stalltrace-fuzz-XXXXXX";
    require(::mkdtemp(folder) != nullptr);
    folder_ = folder;
    path_ = folder_ + "/" + name;
  }
  ~EvidenceFile() { std::filesystem::remove_all(folder_); }
  EvidenceFile(const EvidenceFile&) = delete;
  EvidenceFile& operator=(const EvidenceFile&) = delete;

  void write(std::string_view bytes) const { std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string folder_;
  std::string path_;
};

using Importer = std::function<Result<import::Summary>(std::span<const std::string>, EventSink&, const import::Note&)>;

inline void check_import(const std::string& path, const Importer& import) {
  constexpr int64_t kMostNs = 10 * kNsPerSecond;
  const int64_t begun_ns = monotonic_now_ns();
  require(import::detect(path).has_value());
  MemorySource source;
  size_t notes = 0;
  if (import({&path, 1}, source, [&](const std::string&) { ++notes; })) {
    require(notes < 100);
    (void)source.collectives({}, [](const Collective& row) {
      require(row.timestamp_ns >= 0 && row.duration_ns.value_or(0) >= 0 && row.seq.value_or(0) >= 0 && row.bytes >= 0);
    });
    (void)source.log_lines({}, [](const LogLine& row) { require(row.text.size() <= 1024); });
    const auto result = explain(source);
    if (result) {
      const std::string text = report::report_to_text(result->report, {}) + report::report_to_json(result->report);
      for (const std::string_view line : split(text, '\n')) {
        require(printable(line) == line);
      }
    }
  }
  require(monotonic_now_ns() - begun_ns < kMostNs);
}

}  // namespace stalltrace::fuzz
