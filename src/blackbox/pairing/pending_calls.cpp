// SPDX-License-Identifier: Apache-2.0
#include "blackbox/pairing/pending_calls.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/clock.h"

namespace stalltrace::blackbox {
namespace {

constexpr int64_t kSameTimeNs = 20 * kNsPerUs;           // one clock, read microseconds apart
constexpr int64_t kLaunchedLaterNs = 10 * kNsPerSecond;  // by one of NCCL's own threads, or a stream's host function
constexpr int kNotReturned = 63;                         // length class of a launch that has not returned

constexpr int kLaunchScore = 4;
constexpr int kThreadScore = 2;
constexpr int kNumberScore = 3;
constexpr int kFullScore = kLaunchScore + kThreadScore + kNumberScore;

template <typename T>
bool differ(const std::optional<T>& a, const std::optional<T>& b) {
  return a && b && *a != *b;
}

bool launch_contains(const Collective& probed, int64_t start_ns) {
  return start_ns >= probed.timestamp_ns - kSameTimeNs &&
         (!probed.launch_ns || start_ns <= probed.timestamp_ns + *probed.launch_ns + kSameTimeNs);
}

/// Thread id 0: a pid namespace hides the thread's number on the host.
bool same_thread(const Collective& probed, const Collective& profiled) {
  return profiled.tid == 0 || profiled.tid == probed.tid;
}

}  // namespace

bool is_made_of_transfers(Operation op) {
  return op == Operation::kAllToAll || op == Operation::kGather || op == Operation::kScatter;
}

bool launched_by(const Collective& probed, const Collective& profiled) {
  return launch_contains(probed, profiled.timestamp_ns) && same_thread(probed, profiled);
}

std::optional<int> agreement(const Collective& probed, const Collective& profiled,
                             const CommunicatorIdentity& identity) {
  if (probed.op != profiled.op || differ(probed.peer, profiled.peer) || differ(probed.root, profiled.root) ||
      differ(probed.count, profiled.count) || differ(probed.datatype, profiled.datatype) ||
      profiled.timestamp_ns < probed.called_ns - kSameTimeNs || !identity.may_be_same(probed, profiled)) {
    return std::nullopt;
  }
  int score = 0;
  if (launch_contains(probed, profiled.timestamp_ns)) {
    score += kLaunchScore + (same_thread(probed, profiled) ? kThreadScore : 0);
  }
  if (identity.captures(probed.comm_ptr) && score < kLaunchScore + kThreadScore) {
    return std::nullopt;  // it may be a graph's launch, of which older versions of NCCL do not say so
  }
  const auto number = profiled.seq ? identity.file_number(probed) : std::nullopt;
  if (number && *number == *profiled.seq && profiled.timestamp_ns - probed.called_ns < kLaunchedLaterNs) {
    score += kNumberScore;
  }
  return score >= kNumberScore ? std::optional(score) : std::nullopt;
}

int LaunchIndex::length_class(const Collective& row) {
  if (!row.launch_ns) {
    return kNotReturned;
  }
  const auto length_ns = static_cast<uint64_t>(std::max<int64_t>(*row.launch_ns, 0));
  return std::min(static_cast<int>(std::bit_width(length_ns)), kNotReturned - 1);
}

int64_t LaunchIndex::earliest_start(int64_t start_ns, int length_class) {
  constexpr int kLongest = 61;  // 73 years; prevents overflow
  return length_class > kLongest ? std::numeric_limits<int64_t>::min()
                                 : start_ns - (int64_t{1} << length_class) - kSameTimeNs;
}

int64_t LaunchIndex::latest_start(int64_t start_ns) { return start_ns + kSameTimeNs; }

void LaunchIndex::add(const Collective& row) {
  by_length_[{row.op, length_class(row)}].insert({row.timestamp_ns, row.event_id});
}

void LaunchIndex::remove(const Collective& row) {
  const auto rows = by_length_.find({row.op, length_class(row)});
  if (rows == by_length_.end()) {
    return;
  }
  rows->second.erase({row.timestamp_ns, row.event_id});
  if (rows->second.empty()) {
    by_length_.erase(rows);
  }
}

/// nullopt where the row has no number, or is a Send or Recv without a peer.
std::optional<PendingCalls::NumberKey> PendingCalls::key_of(const Collective& row, uint64_t pointer,
                                                            std::optional<int64_t> number) {
  const bool to_peer = is_point_to_point(row.op);
  if (!number || (to_peer && !row.peer)) {
    return std::nullopt;
  }
  return NumberKey{pointer, row.op, to_peer ? *row.peer : -1, *number};
}

void PendingCalls::index_all() {
  if (!std::exchange(indexed_, true)) {
    for (const auto& [event, row] : rows_) {
      index(row);
    }
  }
}

void PendingCalls::index(const Collective& row) {
  if (const auto key = key_of(row, row.comm_ptr, row.seq)) {
    by_number_.insert({*key, row.event_id});
  }
  by_launch_.add(row);
}

void PendingCalls::unindex(const Collective& row) {
  if (const auto key = key_of(row, row.comm_ptr, row.seq)) {
    by_number_.erase({*key, row.event_id});
  }
  by_launch_.remove(row);
}

/// Where a row is to be written. The node of a row that was removed is used again.
Collective& PendingCalls::slot_of(EventId event) {
  const bool is_newest = rows_.empty() || rows_.rbegin()->first < event;
  const auto at = is_newest ? rows_.end() : rows_.lower_bound(event);
  if (at != rows_.end() && at->first == event) {
    if (indexed_) {
      unindex(at->second);
    }
    return at->second;
  }
  if (spare_.empty()) {
    return rows_.try_emplace(at, event)->second;
  }
  spare_.key() = event;
  return rows_.insert(at, std::move(spare_))->second;
}

bool PendingCalls::put(const Collective& row, bool remember, bool behind) {
  newest_ns_ = std::max(newest_ns_, row.called_ns);
  slot_of(row.event_id) = row;
  if (indexed_) {
    index(row);
  }
  bool all_known = true;
  while (rows_.size() > kMostRows ||
         (!behind && rows_.size() > kFewestRows && newest_ns_ - rows_.begin()->second.called_ns > kRowsKeptNs)) {
    all_known = give_up_oldest(remember, behind) && all_known;
  }
  return all_known;
}

const Collective& PendingCalls::take(EventId event) {
  spare_ = rows_.extract(rows_.begin()->first == event ? rows_.begin() : rows_.find(event));
  if (indexed_) {
    unindex(spare_.mapped());
  }
  return spare_.mapped();
}

/// False if given_up() forgot a call for it that the file may still report: unread records are left in the file, or the
/// call is so recent that the file may not have been read since. Others, as of communicators of one rank, it never
/// does.
bool PendingCalls::give_up_oldest(bool remember, bool behind) {
  const Collective& row = take(rows_.begin()->first);
  const auto key = remember ? key_of(row, row.comm_ptr, row.seq) : std::nullopt;
  if (!key ||
      !given_up_.insert_or_assign(*key, GivenUp{row.event_id, row.comm_id_hash != 0, false, row.called_ns}).second) {
    return true;
  }
  given_up_order_.push_back(*key);
  if (given_up_order_.size() <= kMostGivenUp) {
    return true;
  }
  const auto oldest = given_up_.find(given_up_order_.front());
  const bool may_come = !oldest->second.reported && (behind || newest_ns_ - oldest->second.called_ns < kReadLateNs);
  given_up_.erase(oldest);
  given_up_order_.pop_front();
  return !may_come;
}

const Collective* PendingCalls::match(const Collective& profiled, const CommunicatorIdentity& identity) {
  index_all();
  const Collective* best = nullptr;
  int best_score = 0;
  const auto consider = [&](EventId event) {
    const Collective& probed = rows_.at(event);
    const auto score = agreement(probed, profiled, identity);
    if (score && (best == nullptr || *score > best_score || (*score == best_score && event < best->event_id))) {
      best = &probed;
      best_score = *score;
    }
    return best_score == kFullScore;
  };
  identity.for_each_probed_number(profiled, [&](uint64_t pointer, int64_t number, bool) {
    const auto key = key_of(profiled, pointer, number);
    auto entry = key ? by_number_.lower_bound({*key, 0}) : by_number_.end();
    for (; entry != by_number_.end() && entry->first == *key; ++entry) {
      if (consider(entry->second)) {
        return true;
      }
    }
    return false;
  });
  if (best_score < kFullScore) {
    by_launch_.for_each_at(profiled.op, profiled.timestamp_ns, consider);
  }
  return best;
}

const Collective* PendingCalls::parent(const Collective& profiled) {
  index_all();
  const Collective* parent = nullptr;
  for (const Operation op : {Operation::kAllToAll, Operation::kGather, Operation::kScatter}) {
    by_launch_.for_each_at(op, profiled.timestamp_ns, [&](EventId event) {
      const Collective& row = rows_.at(event);
      if (launched_by(row, profiled) && (parent == nullptr || event < parent->event_id)) {
        parent = &row;
      }
      return false;
    });
  }
  return parent;
}

std::optional<EventId> PendingCalls::given_up(const Collective& profiled, const CommunicatorIdentity& identity) {
  std::optional<EventId> event;
  identity.for_each_probed_number(profiled, [&](uint64_t pointer, int64_t number, bool sure) {
    const auto key = key_of(profiled, pointer, number);
    const auto found = key && sure ? given_up_.find(*key) : given_up_.end();
    if (found != given_up_.end() &&
        (found->second.numbered_by_nccl || identity.first_number(pointer, numbering_of(profiled)))) {
      event = found->second.event;
      found->second.reported = true;
    }
    return event.has_value();
  });
  return event;
}

}  // namespace stalltrace::blackbox
