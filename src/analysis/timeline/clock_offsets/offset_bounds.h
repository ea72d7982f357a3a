// SPDX-License-Identifier: Apache-2.0
// What bounds the correction of each host's clock: instances, transfers, and what kernels report.
//
// Between hosts causality bounds the offset: no rank completes an instance before every rank arrived, and no Recv ends
// before its Send began.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "analysis/timeline/clock_offsets/common_ends.h"
#include "analysis/timeline/clock_offsets/correction_line.h"
#include "model/node_clock.h"
#include "model/time_range.h"

namespace stalltrace::analysis {

/// 18 years. Times are less than 127 years after 1970 (a source leaves out others), so neither the sum of a time, a
/// shift and a duration nor the difference of two overflows.
inline constexpr int64_t kMostShiftNs = int64_t{1} << 59;

/// What a host's ranks did in one instance, by the host's clock.
struct HostEdge {
  int64_t last_arrival_ns = std::numeric_limits<int64_t>::min();  // minimum: no rank arrived
  int64_t first_end_ns = kForever;                                // kForever: no rank is known to have completed it
  int64_t first_reported_end_ns = kForever;                       // the same, by the profiler plugin
};

/// A Send with its Recv.
struct Transfer {
  int64_t begin_ns = 0;  // when the Send began, or earlier; by the clock of the sender's host
  int64_t end_ns = 0;    // when the Recv had ended, or later; by the clock of the receiver's host
};

/// A correction is between the two at one time, by the reference's clock.
struct TimedBounds {
  int64_t at_ns = 0;
  int64_t low_ns = 0;
  int64_t high_ns = 0;
};

/// Why what a kernel reports of its clock is not used.
enum class KernelDoubt : uint8_t {
  kNone,
  kWasSet,       // its clock was set by more than it had reported it to be off
  kContradicts,  // it, or the kernel of the reference, contradicts what else bounds the clock
};

/// Bounds on the correction of each host's times relative to a reference host: from instances that both took part in,
/// and from transfers, also over other hosts.
class OffsetBounds {
 public:
  /// `span`: when the job ran, by the reference's clock. It is divided into slices, of each of which the narrowest
  /// bounds are kept: together they show how clocks drift.
  OffsetBounds(size_t hosts, size_t reference, TimeRange span = {.from_ns = 0, .to_ns = 0})
      : reference_(reference),
        span_(span),
        bounds_(hosts),
        measured_(hosts),
        ends_(hosts),
        fits_(hosts),
        slices_(span.length() > 0 ? hosts * kSlices : 0) {}

  /// Adds one instance, with one edge per host. In such an instance every rank needs every other: no rank completes it
  /// before the last has arrived.
  void add(const std::vector<HostEdge>& edges);
  /// Notes that the host has calls: only then does it matter whether its clock can be compared.
  void add_host(size_t host) { bounds_[host].has_calls = true; }

  /// Adds transfers from a rank on one host to one on another. To be called when all instances were added.
  void add_transfers(size_t sender, size_t receiver, std::span<const Transfer> transfers);
  /// Narrows the bounds by all transfers, from the hosts that are known best to the others. Leaves out those between
  /// two hosts that contradict each other or the instances by more than drift explains, or make the error no smaller.
  void narrow_by_transfers();

  using Range = CorrectionRange;
  struct Bounds : Range {  // those of all times together
    bool has_calls = false;
    /// What made them as narrow as they are. Where that is more than one source, the last one to do so.
    ClockSource source = ClockSource::kCollectives;
    KernelDoubt doubt = KernelDoubt::kNone;
  };
  [[nodiscard]] const Bounds& bounds(size_t host) const { return bounds_[host]; }
  /// The correction of a host whose bounds are known(), and its error while the job ran.
  /// Of the possible ones the one that the ends of collectives show, if they do.
  [[nodiscard]] CorrectionLine offset(size_t host) const;
  /// Narrows the bounds to [low, high], which hold all through the recording, where they allow it: true if they are
  /// narrower now.
  bool narrow(size_t host, int64_t low_ns, int64_t high_ns);
  /// Narrows the bounds by what kernels report, if the error is smaller then. Contradictions by more than drift
  /// explains are a KernelDoubt instead. Bounds from before or after the span hold in it as well as drift allows.
  void narrow_at(size_t host, std::span<const TimedBounds> found);
  void doubt_kernel(size_t host, KernelDoubt why) { bounds_[host].doubt = why; }
  [[nodiscard]] size_t reference() const { return reference_; }
  [[nodiscard]] size_t hosts() const { return bounds_.size(); }
  /// When the job ran, by the reference's clock.
  [[nodiscard]] TimeRange span() const { return span_; }

 private:
  static constexpr size_t kSlices = CommonEnds::kSlices;
  /// By how much more the times of the second of two hosts are to be corrected than those of the first.
  struct Difference {
    struct Slice {
      int64_t index = 0;  // the times of a host that is far off lie before or after the span
      CorrectionBounds bounds;
    };
    size_t timed_by = 0;        // the host whose clock the times are by
    int64_t first_index = 0;    // of the first transfer
    std::vector<Slice> slices;  // those with transfers, ascending: of many pairs of hosts all would not fit

    /// Times farther from the first transfer than the job is long share the outermost slices.
    CorrectionBounds& slice(int64_t index);
  };
  using Slices = std::span<const CorrectionBounds>;
  void at_most(size_t host, int64_t correction_ns, int64_t at_ns);
  void at_least(size_t host, int64_t correction_ns, int64_t at_ns);
  [[nodiscard]] bool contradicts_own(size_t host, Slices slices, const Range& all) const;
  bool take(size_t host, Slices slices, const Range& all, ClockSource source);
  bool narrow_from(size_t from, const CorrectionFit* known, size_t to, const Difference& difference);
  [[nodiscard]] const CorrectionFit& fit(size_t host) const;
  [[nodiscard]] Slices slices_of(size_t host) const {
    return slices_.empty() ? Slices{} : Slices(slices_).subspan(host * kSlices, kSlices);
  }
  [[nodiscard]] int64_t index_of(int64_t time_ns) const;
  [[nodiscard]] size_t slice_of(int64_t time_ns) const {
    return static_cast<size_t>(std::clamp<int64_t>(index_of(time_ns), 0, kSlices - 1));
  }
  /// Of equal bounds those nearest to the ends of the span say most about how clocks drift.
  [[nodiscard]] bool is_late(int64_t time_ns) const { return time_ns - span_.from_ns > span_.length() / 2; }

  size_t reference_;
  TimeRange span_;
  std::vector<Bounds> bounds_;
  std::vector<Range> measured_;  // what narrow() narrowed them to
  std::vector<CommonEnds> ends_;
  mutable std::vector<std::optional<CorrectionFit>> fits_;       // of hosts that were asked for: they take long
  std::vector<CorrectionBounds> slices_;                         // of each host, one after the other
  std::map<std::pair<size_t, size_t>, Difference> differences_;  // by two hosts with transfers, the lower index first
};

}  // namespace stalltrace::analysis
