// SPDX-License-Identifier: Apache-2.0
#include "analysis/evidence/reads/tcp_timeouts.h"

#include <algorithm>

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
