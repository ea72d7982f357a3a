// SPDX-License-Identifier: Apache-2.0
#include "launch/hang_watch.h"

#include <algorithm>
#include <variant>

#include "model/operation.h"

namespace stalltrace::launch {

void ProgressSink::accept(Event event) {
  if (const auto* collective = std::get_if<Collective>(&event);
      collective != nullptr && (moves_data(collective->op) || is_communicator_call(collective->op))) {
    const bool of_nccl = collective->library == Library::kNccl || collective->library == Library::kRccl;
    (of_nccl ? calls_nccl_ : calls_others_) = true;
    const EventId id = collective->event_id;
    const auto open = entered_.find(id);
    if (collective->completion == Completion::kOpen) {
      if (open == entered_.end()) {
        entered_.emplace(id, collective->timestamp_ns);
        by_age_.emplace(collective->timestamp_ns, id);
      }
    } else {
      if (collective->completion != Completion::kUnobserved && collective->completion != Completion::kCaptured) {
        count(id);
      }
      // An unobserved end may be the probes': that of a call which may be in a CUDA graph.
      has_profiler_rows_ |= collective->completion == Completion::kProfiler;
      if (open != entered_.end()) {
        by_age_.erase({open->second, id});
        entered_.erase(open);
      }
    }
  }
  next_.accept(std::move(event));
}

void ProgressSink::count(EventId completed) {
  constexpr size_t kMostCounted = 16384;
  if (!counted_.insert(completed).second) {
    return;
  }
  ++completed_;
  counted_order_.push_back(completed);
  if (counted_order_.size() > kMostCounted) {
    counted_.erase(counted_order_.front());
    counted_order_.pop_front();
  }
}

Progress ProgressSink::progress() const {
  Progress now{.completed = completed_, .open = entered_.size(), .oldest_open_ns = {}};
  if (!by_age_.empty()) {
    now.oldest_open_ns = by_age_.begin()->first;
  }
  return now;
}

HangWatch::News HangWatch::look(const Progress& progress, int64_t now_ns) {
  if (completed_ != progress.completed) {
    const bool reported = next_report_ns_ > limit_ns_;
    still_ns_ = now_ns - unchanged_since_ns_;
    completed_ = progress.completed;
    unchanged_since_ns_ = now_ns;
    next_report_ns_ = limit_ns_;
    return reported ? News::kGoesOn : News::kNone;
  }
  still_ns_ = progress.oldest_open_ns ? now_ns - std::max(*progress.oldest_open_ns, unchanged_since_ns_) : 0;
  if (still_ns_ < next_report_ns_) {
    return News::kNone;
  }
  const bool first = next_report_ns_ == limit_ns_;
  const int64_t longer_ns = std::max(2 * still_ns_, first ? kAgain * limit_ns_ : 0);
  next_report_ns_ = std::min(longer_ns, still_ns_ + std::max(kLongestPauseNs, limit_ns_));
  return first ? News::kStandsStill : News::kStillStands;
}

void HangWatch::explained(int64_t took_ns) {
  next_report_ns_ = std::max(next_report_ns_, still_ns_ + (1 + kPausePerCost) * took_ns);
}

}  // namespace stalltrace::launch
