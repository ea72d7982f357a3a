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

/// From when a sender whose timer fired at `timeout_ns` received no acknowledgement, as far as that is known: for the
/// smallest timeout, but not while samples show that bytes were acknowledged, nor before it last left recovery, for
/// which an acknowledgement is needed (a host may have a smaller timeout, `rto_min`). Two samples in that time show it:
/// where the earlier one is older, the bytes may have been acknowledged before. `samples` and `repaired`, the times at
/// which the sender left recovery, are in time order.
int64_t silent_since_ns(const std::vector<SampleRecord>& samples, const std::vector<int64_t>& repaired,
                        int64_t timeout_ns);

/// Adds intervals in which a sender held data back right after a timeout: it waits for its timer, which the timeout has
/// doubled. An unchanged sample is not written: the last one is valid until the next. `timeouts` are in time order.
void add_held_back(const std::vector<SampleRecord>& samples, const std::vector<int64_t>& timeouts,
                   std::vector<Interval>& into);

}  // namespace stalltrace::analysis
