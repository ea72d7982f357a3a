// SPDX-License-Identifier: Apache-2.0
#include "blackbox/losses.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

namespace stalltrace::blackbox {
namespace {

/// By index into st_box_header::lost.
constexpr std::array<const char*, 9> kWriterLosses{
    "profiler:no_slot",       "profiler:lapped",         "profiler:no_communicator",
    "profiler:stale_handle",  "profiler:foreign_handle", "profiler:unknown_type",
    "profiler:unknown_state", "profiler:late_part",      "profiler:evicted"};

constexpr uint64_t kMostCount = std::numeric_limits<int64_t>::max();  // SQLite's largest integer

}  // namespace

void LossCounts::add(std::string_view source, uint64_t count) {
  if (count > 0) {
    uint64_t& sum = counts_[std::string(source)];
    sum += std::min(count, kMostCount - sum);
  }
}

void LossCounts::add(const LossCounts& other) {
  for (const auto& [source, count] : other.counts_) {
    add(source, count);
  }
}

void LossCounts::add_of_user(const LossCounts& other, uint32_t user) {
  for (const auto& [source, count] : other.counts_) {
    add(users_loss(source, user), count);
  }
}

void LossCounts::raise_to(const LossCounts& other) {
  for (const auto& [source, count] : other.counts_) {
    uint64_t& raised = counts_[source];
    raised = std::max(raised, count);
  }
}

uint64_t LossCounts::of(std::string_view source) const {
  const auto found = counts_.find(source);
  return found == counts_.end() ? 0 : found->second;
}

std::vector<Loss> LossCounts::rows(NodeId node) const {
  std::vector<Loss> rows;
  for (const auto& [source, count] : counts_) {
    rows.push_back({node, source, count});
  }
  return rows;
}

LossCounts file_losses(const ProfilerFileContents& contents) {
  LossCounts losses;
  for (size_t reason = 0; reason < kWriterLosses.size(); ++reason) {
    losses.add(kWriterLosses[reason], contents.header.lost[reason]);
  }
  losses.add(kLostOverwritten, contents.overwritten);
  losses.add(kLostTorn, contents.torn);
  return losses;
}

}  // namespace stalltrace::blackbox
