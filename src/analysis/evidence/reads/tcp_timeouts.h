// SPDX-License-Identifier: Apache-2.0
// What samples show of a sender's retransmission timer, beyond the events of its connection.
#pragma once

#include <vector>

#include "analysis/evidence/evidence.h"

namespace stalltrace::analysis {

/// Adds retransmissions that are tail loss probes of a single packet: outside of recovery, with nothing else in flight.
/// The kernel sends such a probe no sooner than the smallest timeout after the packet (net/ipv4/tcp_output.c,
/// tcp_schedule_loss_probe). The sample that a retransmission causes follows it at once.
void add_late_probes(const std::vector<SampleRecord>& samples, const std::vector<Retransmit>& retransmits,
                     std::vector<int64_t>& timeouts);

/// Adds intervals in which a sender held data back right after a timeout: it waits for its timer, which the timeout has
/// doubled. An unchanged sample is not written: the last one is valid until the next. `timeouts` are in time order.
void add_held_back(const std::vector<SampleRecord>& samples, const std::vector<int64_t>& timeouts,
                   std::vector<Interval>& into);

}  // namespace stalltrace::analysis
