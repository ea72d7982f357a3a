// SPDX-License-Identifier: Apache-2.0
#include "analysis/evidence/reads/evidence_reads.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <type_traits>

#include "analysis/evidence/evidence.h"
#include "analysis/thresholds/bounds.h"
#include "analysis/thresholds/host.h"
#include "analysis/thresholds/steps.h"

namespace stalltrace::analysis {

EvidenceReads EvidenceReads::of(std::vector<Interval> windows, const Cluster& cluster) {
  for (Interval& window : windows) {
    window = {window.from_ns - kEvidenceMarginNs, window.to_ns + kEvidenceMarginNs};
  }
  EvidenceReads reads{.windows = IntervalSet(std::move(windows)), .rows = {0, 0}, .host = {0, 0}};
  if (!reads.windows.empty()) {
    const int64_t slack_ns = cluster.clock().largest_shift_ns();
    const int64_t from_ns = reads.windows.intervals().front().from_ns - slack_ns;
    const int64_t to_ns = reads.windows.intervals().back().to_ns + slack_ns;
    reads.rows = {from_ns, to_ns};
    reads.host = {from_ns - kHostSampleNs, to_ns + kHostSampleNs};
  }
  return reads;
}

template <typename T>
bool NarrowedSource::near_a_stall(const T& row) const {
  const auto shift = shifts_ns_.find(row.node_id);
  if (shift == shifts_ns_.end()) {
    return true;
  }
  const int64_t from_ns = EventTraits<T>::begin_ns(row) + shift->second;
  const int64_t end_ns = EventTraits<T>::end_ns(row);
  const int64_t to_ns = end_ns == kForever ? kFarFutureNs : end_ns + shift->second;
  return windows_.covered_ns({from_ns, std::max(to_ns, from_ns) + 1}) > 0;
}

/// Of samples outside, those count that end a recovery which an event began, or that show one. EvidenceStore takes the
/// first sample after each beginning.
Status NarrowedSource::samples(TimeRange range, const Visitor<TcpSample>& visit) {
  struct Sender {
    std::vector<int64_t> recoveries;  // when they began
    size_t next = 0;                  // that no sample ended yet
    bool recovering = false;          // by the last sample
  };
  std::map<std::pair<NodeId, uint64_t>, Sender> senders;
  ST_TRY(source_.tcp_events(range, [&](const TcpEvent& row) {
    if (row.event == TcpEventKind::kCongestionState && is_recovering(row.state)) {
      senders[{row.node_id, row.cookie}].recoveries.push_back(row.timestamp_ns);
    }
  }));
  bool first = true;
  return source_.tcp_samples(range, [&](const TcpSample& row) {
    Sender& sender = senders[{row.node_id, row.cookie}];
    const bool recovering = is_recovering(row.ca_state);
    bool counts = first || recovering || sender.recovering || near_a_stall(row);
    sender.recovering = recovering;
    while (!recovering && sender.next < sender.recoveries.size() &&
           sender.recoveries[sender.next] < row.timestamp_ns - kSameMomentNs) {
      counts = true;
      ++sender.next;
    }
    first = false;
    if (counts) {
      visit(row);
    }
  });
}

/// WaitRows takes an open row's end from the next row of its thread.
Status NarrowedSource::waits(TimeRange range, const Visitor<WaitSpan>& visit) {
  struct Thread {
    bool open = false;  // by the last row that was delivered
    int64_t ended_begin_ns = std::numeric_limits<int64_t>::min();
  };
  std::map<std::tuple<NodeId, int32_t, int32_t>, Thread> threads;
  return source_.wait_spans(range, [&](const WaitSpan& row) {
    const auto [found, fresh] = threads.try_emplace({row.node_id, row.pid, row.tid});
    Thread& thread = found->second;
    const bool known_to_end = row.open && thread.ended_begin_ns == row.timestamp_ns;
    const bool counts = fresh || (!known_to_end && (thread.open || near_a_stall(row)));
    if (counts) {
      thread.open = row.open;
      visit(row);
    }
    if (!row.open) {
      thread.ended_begin_ns = row.timestamp_ns;
    }
  });
}

Status NarrowedSource::read_stream(TimeRange range, AnyVisitor visitor) {
  return std::visit(
      [&]<typename T>(const Visitor<T>* visit) -> Status {
        if constexpr (std::is_same_v<T, TcpSample>) {
          return samples(range, *visit);
        } else if constexpr (std::is_same_v<T, WaitSpan>) {
          return waits(range, *visit);
        } else if constexpr (std::is_same_v<T, ProxyStep>) {
          return source_.stream<T>(range, [&](const T& row) {
            if (near_a_stall(row)) {
              (*visit)(row);
            }
          });
        } else {
          return source_.stream<T>(range, *visit);
        }
      },
      visitor);
}

}  // namespace stalltrace::analysis
