// SPDX-License-Identifier: Apache-2.0
#include "capture/python/python_stacks.h"

#include <algorithm>

#include "base/hash.h"

namespace stalltrace::capture {
namespace {

constexpr int64_t kSampleNs = 100 * kNsPerMs;
constexpr size_t kDelivered = 65'536;  // remembered rows; older ones may be delivered again, which is harmless

}  // namespace

void PythonStacks::deliver(const ReadStack& read) {
  PythonStack row{.node_id = node_.node_id,
                  .timestamp_ns = read.begun_ns + node_.clock_offset_ns,
                  .duration_ns = read.took_ns,
                  .pid = read.pid,
                  .rank_pid = read.rank_pid,
                  .tid = read.tid,
                  .state = read.state,
                  .activity = read.activity,
                  .collecting = read.collecting,
                  .problem = read.problem};
  if (!read.frames.empty()) {
    row.stack_id = static_cast<int64_t>(splitmix64_text(read.frames) >> 1);  // ids are positive
    if (delivered_.size() >= kDelivered) {
      delivered_.clear();
    }
    if (delivered_.insert(row.stack_id).second) {
      sink_.accept(Stack{row.stack_id, read.frames});
    }
  }
  sink_.accept(std::move(row));
}

void PythonStacks::update(const std::function<std::vector<CallStanding>()>& standings, int64_t now_ns) {
  for (const ReadStack& stack : reader_.take(now_ns)) {
    if (stack.pid == stack.rank_pid && stack.frames.empty() && stack.problem.empty()) {
      others_[stack.pid] = now_ns + LateWatch::kLeftOutNs;
    }
    deliver(stack);
  }
  for (const pid_t other : reader_.take_others()) {
    others_[other] = INT64_MAX;
  }
  if (now_ns - sampled_ns_ < (watches_.hurries() ? LateWatch::kHurriedNs : kSampleNs) || reader_.busy()) {
    return;
  }
  sampled_ns_ = now_ns;
  std::vector<CallStanding> ranks = standings();
  std::erase_if(others_, [&](const auto& other) {
    return other.second <= now_ns || std::ranges::find(ranks, other.first, &CallStanding::pid) == ranks.end();
  });
  LateWatches::StandingsOfUsers users;
  for (const CallStanding& standing : ranks) {
    if (!others_.contains(standing.pid)) {
      users[user_of_(standing.pid)].push_back(standing);
    }
  }
  std::vector<ThreadToRead> threads;
  for (const pid_t pid : watches_.choose(users, now_ns + node_.clock_offset_ns)) {
    threads.push_back({pid, std::ranges::find(ranks, pid, &CallStanding::pid)->tid});
  }
  reader_.begin(std::move(threads), now_ns);
}

}  // namespace stalltrace::capture
