// SPDX-License-Identifier: Apache-2.0
#include "launch/profiler_progress.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/clock.h"

namespace stalltrace::launch {

void ProfilerProgress::find_boxes() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    std::string path = entry.path().string();
    if (entry.path().extension() != ".profiler" || boxes_.contains(path) || left_out_.contains(path)) {
      continue;
    }
    if (auto box = blackbox::BoxReader::open(path)) {
      if (wanted_ && !wanted_(box->layout())) {
        left_out_.insert(std::move(path));
      } else {
        boxes_.emplace(std::move(path), std::move(*box));
      }
    }  // one that is only being made is a box the next time
  }
}

Progress ProfilerProgress::read() {
  find_boxes();
  Progress sum;
  const int64_t utc_offset_ns = measure_utc_offset_ns();
  for (auto box = boxes_.begin(); box != boxes_.end();) {
    if (!box->second.read()) {
      left_out_.insert(box->first);
      box = boxes_.erase(box);
      continue;
    }
    const blackbox::BoxProgress& one = (box++)->second.progress();
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
