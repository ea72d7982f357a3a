// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/clock_offsets/kernel_clocks.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <tuple>
#include <unordered_map>

#include "analysis/thresholds/clocks.h"
#include "base/clock.h"
#include "model/streams/node_streams.h"

namespace stalltrace::analysis {
namespace {

/// More of one node are thinned out: four hours of a reading a minute.
constexpr size_t kMostReadings = 256;
constexpr int64_t kMinuteNs = 60 * kNsPerSecond;
constexpr int64_t kMostMinutes = 1 << 20;  // between readings: two years
/// The kernel calls a clock unsynchronised whose error exceeds this (NTP_PHASE_LIMIT in its ntp.c). No sum of two
/// overflows.
constexpr int64_t kMostErrorNs = 16 * kNsPerSecond;
/// Nor do differences of times and UTC: 18 years.
constexpr int64_t kMostAheadNs = int64_t{1} << 59;
constexpr int64_t kMillionNs = 1'000'000;

int64_t drift_ns(int64_t over_ns, int64_t ppm) { return std::abs(over_ns) / kMillionNs * ppm + ppm; }

/// Evenly spread readings of one node, few of them: of the same minutes on all nodes.
class Thinned {
 public:
  void add(const UtcReading& reading) {
    if (every_ > kMostMinutes || left_out(reading)) {
      return;
    }
    kept_.push_back(reading);
    while (kept_.size() >= kMostReadings && every_ <= kMostMinutes) {
      every_ *= 2;
      std::erase_if(kept_, [this](const UtcReading& one) { return left_out(one); });
    }
  }
  [[nodiscard]] const std::vector<UtcReading>& kept() const { return kept_; }

 private:
  [[nodiscard]] bool left_out(const UtcReading& reading) const { return reading.utc_ns() / kMinuteNs % every_ != 0; }

  std::vector<UtcReading> kept_;
  int64_t every_ = 1;  // minutes
};

}  // namespace

Result<KernelClocks> load_kernel_clocks(EventSource& source, const Clock& clock) {
  std::unordered_map<NodeId, Thinned> nodes;
  ST_TRY(stream_by_node<ClockReading>(source, {}, nullptr, [&](const ClockReading& row) {
    const int64_t ahead_ns = row.utc_ns - row.timestamp_ns;
    if (!row.max_error_ns || *row.max_error_ns > kMostErrorNs || row.window_ns > kMostErrorNs ||
        std::abs(ahead_ns) > kMostAheadNs) {
      return;
    }
    const int64_t shift_ns = clock.shift_ns(row.node_id);
    nodes[row.node_id].add({row.timestamp_ns + shift_ns, ahead_ns - shift_ns, *row.max_error_ns + row.window_ns});
  }));
  KernelClocks hosts;
  for (const auto& [node, readings] : nodes) {
    std::vector<UtcReading>& of_host = hosts[clock.host(node)];
    of_host.insert(of_host.end(), readings.kept().begin(), readings.kept().end());
  }
  for (auto& [host, readings] : hosts) {
    std::ranges::sort(readings, [](const UtcReading& a, const UtcReading& b) {
      return std::tie(a.at_ns, a.ahead_ns, a.error_ns) < std::tie(b.at_ns, b.ahead_ns, b.error_ns);
    });
  }
  return hosts;
}

bool agree(std::span<const UtcReading> readings) {
  for (size_t i = 1; i < readings.size(); ++i) {
    const UtcReading& before = readings[i - 1];
    const UtcReading& after = readings[i];
    if (std::abs(after.ahead_ns - before.ahead_ns) >
        before.error_ns + after.error_ns + drift_ns(after.at_ns - before.at_ns, kMostDriftPpm)) {
      return false;
    }
  }
  return true;
}

std::vector<TimedBounds> bounds_between(std::span<const UtcReading> reference, std::span<const UtcReading> host) {
  std::vector<TimedBounds> bounds;
  if (reference.empty()) {
    return bounds;
  }
  std::vector<UtcReading> by_utc(reference.begin(), reference.end());
  std::ranges::sort(by_utc, {}, &UtcReading::utc_ns);
  for (const UtcReading& own : host) {
    auto nearest = std::ranges::lower_bound(by_utc, own.utc_ns(), {}, &UtcReading::utc_ns);
    if (nearest == by_utc.end() ||
        (nearest != by_utc.begin() && own.utc_ns() - std::prev(nearest)->utc_ns() < nearest->utc_ns() - own.utc_ns())) {
      --nearest;
    }
    const int64_t correction_ns = own.ahead_ns - nearest->ahead_ns;
    const int64_t error_ns =
        own.error_ns + nearest->error_ns + drift_ns(own.utc_ns() - nearest->utc_ns(), kClockDriftPpm);
    bounds.push_back(
        {.at_ns = own.at_ns + correction_ns, .low_ns = correction_ns - error_ns, .high_ns = correction_ns + error_ns});
  }
  return bounds;
}

void narrow_by_kernel_clocks(const KernelClocks& clocks, OffsetBounds& bounds) {
  for (const auto& [host, readings] : clocks) {
    if (!agree(readings)) {
      bounds.doubt_kernel(host, KernelDoubt::kWasSet);
    }
  }
  const auto reference = clocks.find(bounds.reference());
  if (reference == clocks.end() || bounds.bounds(reference->first).doubt != KernelDoubt::kNone) {
    return;
  }
  const auto narrow = [&](bool known) {
    std::vector<size_t> hosts;
    for (const auto& [host, readings] : clocks) {
      if (host != bounds.reference() && bounds.bounds(host).doubt == KernelDoubt::kNone &&
          bounds.bounds(host).known() == known) {
        hosts.push_back(host);
      }
    }
    for (const size_t host : hosts) {
      bounds.narrow_at(host, bounds_between(reference->second, clocks.at(host)));
    }
    return std::ranges::none_of(hosts,
                                [&](size_t host) { return bounds.bounds(host).doubt == KernelDoubt::kContradicts; });
  };
  // Where anything contradicts, the reference's own kernel may be wrong: nothing else would show that of the others.
  if (narrow(true)) {
    (void)narrow(false);
  }
}

}  // namespace stalltrace::analysis
