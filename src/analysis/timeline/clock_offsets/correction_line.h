// SPDX-License-Identifier: Apache-2.0
// What is to be added to the times of a host, as a line over time: clocks drift. From bounds, each of which holds at
// one time. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "analysis/timeline/clock_offsets/common_ends.h"
#include "model/time_range.h"

namespace stalltrace::analysis {

/// A correction is at least the one, and at most the other.
struct CorrectionRange {
  int64_t low_ns = std::numeric_limits<int64_t>::min();
  int64_t high_ns = std::numeric_limits<int64_t>::max();
  [[nodiscard]] bool known() const {
    return low_ns != std::numeric_limits<int64_t>::min() && high_ns != std::numeric_limits<int64_t>::max();
  }
};

/// The same where each of the two holds at a time of its own; these are near to each other.
struct CorrectionBounds : CorrectionRange {
  int64_t low_at_ns = 0;
  int64_t high_at_ns = 0;

  /// Narrows it; `last` decides which time counts if bounds are equal: the first or the last one.
  void at_least(int64_t correction_ns, int64_t at_ns, bool last = false);
  void at_most(int64_t correction_ns, int64_t at_ns, bool last = false);
};

struct CorrectionLine {
  int64_t at_ns = 0;          // by the reference's clock, like all times here
  int64_t correction_ns = 0;  // there
  double rate = 0;            // it grows by this with each ns
  int64_t error_ns = 0;       // it is off by no more than this anywhere in the range
  bool fits = true;           // false: no line lies between all bounds
  bool by_ends = false;       // the ends of collectives chose it of the lines that fit

  [[nodiscard]] int64_t at(int64_t time_ns) const {
    return correction_ns + (rate == 0 ? 0 : static_cast<int64_t>(rate * static_cast<double>(time_ns - at_ns)));
  }
};

/// All lines that lie between the bounds, and the one that is chosen of them.
class CorrectionFit {
 public:
  /// `bounds` and `always`, which holds all through `range`: at least one low and one
  /// high bound. If one correction fits all of them, the rate is 0 and the correction the middle of what fits. The
  /// error covers all lines that fit, of up to kClockDriftPpm, or kMostDriftPpm if none of those does. Where no line
  /// fits, it is the one that violates the bounds least. The error is then that violation and the distance to the
  /// farthest bound, each of which reaches no farther than the others let it at the least of the two drifts at which
  /// they don't contradict each other; if they do at both, to the farthest of all. Where the low and the high bounds
  /// lie along lines of one rate, up to kMostDriftPpm, only such rates count, if the error then is smaller or the
  /// chosen rate is another one. A clock may wander from its line as far as the bounds do from theirs: the bounds are
  /// widened by that much, and the error is larger by it.
  CorrectionFit(std::span<const CorrectionBounds> bounds, const CorrectionRange& always, TimeRange range);

  /// This line instead of line(), if it lies between those that fit all through the `range` of the bounds. The error
  /// covers all lines that fit, too; it is still line() if the error would exceed `most_ns` for that alone.
  [[nodiscard]] CorrectionLine leaning_to(const CommonEnds::Line& wanted, TimeRange range, int64_t most_ns) const;

  [[nodiscard]] const CorrectionLine& line() const { return line_; }
  /// Between what the correction is at this time.
  [[nodiscard]] CorrectionRange at(int64_t time_ns) const;

 private:
  /// A line: its value at origin_ns_, less base_ns_, and its rate.
  struct Line {
    double value = 0;
    double rate = 0;
  };
  /// A line's value at origin_ns_ + since_ns is no more than limit (sign 1), or no less (sign -1).
  struct Limit {
    double since_ns = 0;
    double limit = 0;
    double sign = 1;
  };
  struct Band {
    double low = 0;
    double high = 0;
  };
  struct Rates {
    double low = 0;
    double high = 0;
    [[nodiscard]] bool contain(double rate) const { return rate >= low && rate <= high; }
  };
  /// The line that the bounds of one side lie along.
  struct Side {
    double rate = 0;
    double uncertainty = 0;  // the clock's rate is no farther from it, if nothing but the clock moved the bounds
    double scatter_ns = 0;
  };

  void add_limits(std::span<const CorrectionBounds> bounds, const CorrectionRange& always, TimeRange range);
  static Rates up_to(int64_t ppm);
  bool find_lines(const Rates& rates, double slack_ns);
  void cut(const Limit& limit, double slack_ns);
  double find_least_violation();
  [[nodiscard]] CorrectionLine choose(double from_ns, double to_ns, const Rates& rates) const;
  [[nodiscard]] std::optional<Side> side(double sign, double length_ns) const;
  void follow_sides(double from_ns, double to_ns);
  [[nodiscard]] Band band(double since_ns) const;
  [[nodiscard]] std::optional<double> farthest_ns(double from_ns, double to_ns, int64_t most_ppm) const;
  [[nodiscard]] double farthest_bound_ns() const;
  [[nodiscard]] double since(int64_t time_ns) const { return static_cast<double>(time_ns - origin_ns_); }

  int64_t origin_ns_ = 0;
  int64_t base_ns_ = 0;        // what the doubles count from: they hold small numbers exactly
  CorrectionRange all_;        // between what one correction for all times would be
  std::vector<Limit> limits_;  // while it is made
  size_t slice_limits_ = 0;    // the first ones, which are of `bounds`
  std::vector<Line> kept_;     // by cut(): two vectors take turns
  std::vector<Line> corners_;  // of the polygon of all lines that fit: what is between them fits as well
  double wander_ns_ = 0;       // from those lines
  CorrectionLine line_;
};

}  // namespace stalltrace::analysis
