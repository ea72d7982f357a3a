// SPDX-License-Identifier: Apache-2.0
#include "launch/profiler_progress.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/clock.h"

namespace stalltrace::launch {

void ProfilerProgress::find_files() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    std::string path = entry.path().string();
    if (entry.path().extension() != blackbox::kProfilerFileSuffix || sessions_.contains(path) ||
        left_out_.contains(path)) {
      continue;
    }
    if (auto session = blackbox::ProfilerSession::open(path, blackbox::Keep::kNothing)) {
      if (wanted_ && !wanted_(session->file())) {
        left_out_.insert(std::move(path));
      } else {
        sessions_.emplace(std::move(path), std::move(*session));
      }
    }  // a file that is being created can be opened the next time
  }
}

Progress ProfilerProgress::read() {
  find_files();
  Progress sum;
  const int64_t utc_offset_ns = measure_utc_offset_ns();
  const auto now_ns = static_cast<uint64_t>(monotonic_now_ns());
  for (auto entry = sessions_.begin(); entry != sessions_.end();) {
    if (!entry->second.read(now_ns)) {
      left_out_.insert(entry->first);
      entry = sessions_.erase(entry);
      continue;
    }
    const blackbox::FileProgress one = (entry++)->second.progress();
    sum.completed += one.completed;
    sum.open += one.open;
    if (one.oldest_open_ns) {
      const int64_t entered_ns = static_cast<int64_t>(*one.oldest_open_ns) + utc_offset_ns;
      sum.oldest_open_ns = std::min(sum.oldest_open_ns.value_or(entered_ns), entered_ns);
    }
  }
  return sum;
}

}  // namespace stalltrace::launch
