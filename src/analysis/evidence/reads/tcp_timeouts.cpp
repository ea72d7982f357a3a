// SPDX-License-Identifier: Apache-2.0
#include "analysis/evidence/reads/tcp_timeouts.h"

#include <algorithm>
#include <iterator>

#include "analysis/thresholds/network.h"

namespace stalltrace::analysis {
namespace {

/// True for a sender that has data and room at the receiver, has nothing in flight, and sends nothing.
bool holds_back(const SampleRecord& sample) {
  return sample.unacked_bytes == 0 && sample.notsent_bytes > 0 && sample.snd_wnd > 0;
}

}  // namespace

void add_late_probes(const std::vector<SampleRecord>& samples, const std::vector<Retransmit>& retransmits,
                     std::vector<int64_t>& timeouts) {
  for (const Retransmit& repeat : retransmits) {
    const auto sample = std::partition_point(samples.begin(), samples.end(),
                                             [&](const SampleRecord& s) { return s.time_ns < repeat.time_ns; });
    if (sample != samples.end() && sample->time_ns - repeat.time_ns <= kSampleAfterRepeatNs &&
        sample->packets_out == 1 && !is_recovering(sample->ca_state)) {
      timeouts.push_back(repeat.time_ns);
    }
  }
}

int64_t silent_since_ns(const std::vector<SampleRecord>& samples, const std::vector<int64_t>& repaired,
                        int64_t timeout_ns) {
  const int64_t earliest_ns = timeout_ns - kMinimumRtoNs;
  int64_t since_ns = earliest_ns;
  if (const auto later = std::ranges::upper_bound(repaired, timeout_ns); later != repaired.begin()) {
    since_ns = std::max(since_ns, *std::prev(later));
  }
  auto sample = std::ranges::partition_point(samples, [&](const SampleRecord& s) { return s.time_ns <= timeout_ns; });
  while (sample - samples.begin() >= 2 && (sample - 2)->time_ns >= earliest_ns) {
    --sample;
    if (sample->bytes_acked > (sample - 1)->bytes_acked) {
      return std::max(since_ns, sample->time_ns);
    }
  }
  return since_ns;
}

void add_held_back(const std::vector<SampleRecord>& samples, const std::vector<int64_t>& timeouts,
                   std::vector<Interval>& into) {
  for (size_t i = 0; i + 1 < samples.size();) {
    size_t next = i;
    while (next + 1 < samples.size() && holds_back(samples[next]) &&
           samples[next].bytes_acked == samples[i].bytes_acked) {
      ++next;
    }
    const auto later = std::upper_bound(timeouts.begin(), timeouts.end(), samples[i].time_ns);
    if (next > i && later != timeouts.begin() && samples[i].time_ns - *std::prev(later) <= kHeldAfterTimeoutNs) {
      into.push_back({samples[i].time_ns, samples[next].time_ns});
    }
    i = std::max(next, i + 1);
  }
}

}  // namespace stalltrace::analysis
