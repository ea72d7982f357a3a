// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/files/probe_shares.h"

#include <algorithm>
#include <utility>

namespace stalltrace::capture {
namespace {

constexpr size_t kPidsKept = 256;  // before those that have ended are looked for
constexpr int64_t kWholeNs = static_cast<int64_t>(ProbeShares::kMost) * ProbeShares::kAttemptNs;

}  // namespace

void ProbeShares::fill(Share& share, int64_t now_ns) const {
  share.budget_ns = std::min(share.budget_ns + (share.filled_ns == 0 ? 0 : now_ns - share.filled_ns), kWholeNs);
  share.filled_ns = now_ns;
}

void ProbeShares::forget_ended(Probed& probed) const {
  std::erase_if(probed.pids, [&](pid_t pid) { return !procfs_.exists(pid); });
  probed.prune_at = 2 * probed.pids.size() + kPidsKept;
}

bool ProbeShares::has_room(uid_t owner, int64_t now_ns) {
  Share& share = shares_[owner];
  fill(share, now_ns);
  if (share.budget_ns < kAttemptNs) {
    return false;
  }
  if (share.probed.size() < kMost) {
    return true;
  }
  const auto unused = std::ranges::find_if(share.probed, [&](auto& entry) {
    forget_ended(entry.second);
    return entry.second.pids.empty();
  });
  if (unused == share.probed.end()) {
    return false;
  }
  const Detach detach = std::move(unused->second.detach);
  share.probed.erase(unused);
  detach();
  return true;
}

void ProbeShares::count_attempt(uid_t owner, int64_t now_ns) {
  Share& share = shares_[owner];
  fill(share, now_ns);
  share.budget_ns -= kAttemptNs;
}

void ProbeShares::add(uid_t owner, const FileIdentity& file, pid_t pid, Detach detach) {
  shares_[owner].probed.insert_or_assign(file,
                                         Probed{.pids = {pid}, .prune_at = kPidsKept, .detach = std::move(detach)});
}

void ProbeShares::add_user(uid_t owner, const FileIdentity& file, pid_t pid) {
  const auto share = shares_.find(owner);
  if (share == shares_.end()) {
    return;
  }
  const auto known = share->second.probed.find(file);
  if (known == share->second.probed.end()) {
    return;
  }
  known->second.pids.insert(pid);
  if (known->second.pids.size() >= known->second.prune_at) {
    forget_ended(known->second);
  }
}

}  // namespace stalltrace::capture
