// SPDX-License-Identifier: Apache-2.0
#include "capture/host/clock_reader.h"

namespace stalltrace::capture {
namespace {

constexpr int64_t kMinuteNs = 60 * kNsPerSecond;

}  // namespace

void ClockReader::read() {
  const std::optional<int64_t> error_ns = clock_.utc_error_ns();
  const ClockPair pair = clock_.read();
  minute_ = pair.utc_ns / kMinuteNs;
  sink_.accept(ClockReading{.node_id = node_,
                            .timestamp_ns = pair.monotonic_ns + clock_offset_ns_,
                            .utc_ns = pair.utc_ns,
                            .window_ns = pair.window_ns,
                            .max_error_ns = error_ns});
}

void ClockReader::read_each_minute(int64_t utc_ns) {
  if (utc_ns / kMinuteNs != minute_) {
    read();
  }
}

}  // namespace stalltrace::capture
