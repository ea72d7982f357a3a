// SPDX-License-Identifier: Apache-2.0
#include "model/waits/wait_rows.h"

#include <algorithm>

#include "base/hash.h"

namespace stalltrace {
namespace {

uint64_t thread_of(const WaitSpan& row) {
  return uint64_t{static_cast<uint32_t>(row.pid)} << 32 | static_cast<uint32_t>(row.tid);
}

}  // namespace

void WaitRows::Ended::add(const WaitSpan& row) {
  if (begin_ns_ != row.timestamp_ns) {
    begin_ns_ = row.timestamp_ns;
    few_.clear();
    if (!many_.empty()) {
      many_.clear();
    }
  }
  if (few_.size() < kFew) {
    few_.push_back(thread_of(row));
  } else {
    many_.insert(thread_of(row));
  }
}

bool WaitRows::Ended::contains(const WaitSpan& row) const {
  return begin_ns_ == row.timestamp_ns &&
         (std::ranges::find(few_, thread_of(row)) != few_.end() || many_.contains(thread_of(row)));
}

WaitRows::Ended& WaitRows::ended_of(NodeId node) {
  if (newest_.second == nullptr || newest_.first != node) {
    if (ended_.size() >= kMostThreads) {
      ended_.clear();
    }
    newest_ = {node, &ended_[node]};
  }
  return *newest_.second;
}

void WaitRows::add(const WaitSpan& row) {
  const Key key{row.node_id, row.pid, row.tid};
  auto open = open_.empty() ? open_.end() : open_.find(key);
  if (open != open_.end() && open->second.timestamp_ns != row.timestamp_ns) {
    const WaitSpan over = std::move(open->second);
    open_.erase(open);
    open = open_.end();
    visit_(over, row.timestamp_ns);
  }
  Ended& ended = ended_of(row.node_id);
  if (!row.open) {
    if (open != open_.end()) {
      open_.erase(open);
    }
    ended.add(row);
    visit_(row, kForever);
  } else if (open != open_.end()) {
    if (row.window_ns > open->second.window_ns) {
      open->second = row;
    }
  } else if (!ended.contains(row)) {
    if (open_.size() >= kMostThreads) {
      make_room();
    }
    open_.emplace(key, row);
  }
}

size_t WaitRows::KeyHash::operator()(const Key& key) const {
  const auto [node, pid, tid] = key;
  return splitmix64_fold(static_cast<uint64_t>(node) << 32 | static_cast<uint32_t>(pid), static_cast<uint32_t>(tid));
}

/// Threads with an open wait, in the order of their keys.
std::vector<WaitRows::Key> WaitRows::open_threads() const {
  std::vector<Key> open;
  open.reserve(open_.size());
  for (const auto& [key, row] : open_) {
    open.push_back(key);
  }
  std::ranges::sort(open);
  return open;
}

/// Of a wait that is visited here, later rows would say more: it counts as far as it was observed.
void WaitRows::make_room() {
  for (const Key& key : open_threads()) {
    const WaitSpan& open = open_.at(key);
    visit_(open, open.timestamp_ns + open.window_ns);
  }
  open_.clear();
}

void WaitRows::finish() {
  for (const Key& key : open_threads()) {
    visit_(open_.at(key), kForever);
  }
  open_.clear();
}

}  // namespace stalltrace
