// SPDX-License-Identifier: Apache-2.0
// Time as processes that wait for each other count it: what they were stopped for together (Ctrl-Z) is none.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace stalltrace::launch {

/// Ask at least once a second.
class RunningTime {
 public:
  /// Since it was last asked.
  std::chrono::milliseconds passed() {
    constexpr std::chrono::milliseconds kMost{1000};
    const auto now = std::chrono::steady_clock::now();
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(now - last_);
    last_ = now;
    return std::min(passed, kMost);
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// Notices that a worker does not get on.
class SilenceWatch {
 public:
  explicit SilenceWatch(std::chrono::milliseconds limit) : limit_(limit) {}

  /// True once: there was no sign of life for that long.
  bool lasts() {
    silent_ += time_.passed();
    const bool noted = silent_ >= limit_ && !noted_;
    noted_ = noted_ || noted;
    return noted;
  }
  /// A sign of life came. True where lasts() was.
  bool ends() {
    silent_ = std::chrono::milliseconds(0);
    return std::exchange(noted_, false);
  }
  [[nodiscard]] std::chrono::milliseconds limit() const { return limit_; }

 private:
  std::chrono::milliseconds limit_;
  RunningTime time_;
  std::chrono::milliseconds silent_{0};
  bool noted_ = false;
};

}  // namespace stalltrace::launch
