// SPDX-License-Identifier: Apache-2.0
#include "capture/user_shares.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "model/events/loss_sources.h"

namespace stalltrace::capture {
namespace {

using Kind = UserShares::Kind;

/// A node has some hundred ranks at most; each has some tens of communicators, and peers and connections by the
/// thousand where all ranks talk to each other.
constexpr std::array<UserShares::Limits, UserShares::kKinds> kLimits{{
    {kLostProcessShare, 0, 1024, 4096, 64},
    {kLostCommunicatorShare, 4096, 32'768, 16'384, 256},
    {kLostPeerShare, 65'536, 524'288, 0, 0},
    {kLostCallShare, 0, 131'072, 0, 0},
    {"share:gpu_event", 131'072, 1'048'576, 0, 0},
    {"share:connection", 16'384, 65'536, 32'768, 1024},
    {"share:step_mark", 16'384, 131'072, 0, 0},
    {"share:stack", 0, 0, 8192, 64},
    {kLostCompetitorShare, 0, 64, 512, 4},
}};

/// Users whose numbers are in losses; beyond, and those that no process is left of, they are one.
constexpr size_t kMostUsers = 1024;
constexpr size_t kMostUnknown = 1024;  // processes

constexpr size_t index(Kind kind) { return static_cast<size_t>(kind); }

/// What one new row costs; 0: rows of this kind are not counted.
constexpr int64_t row_time_ns(const UserShares::Limits& limits, int64_t now_ns) {
  return limits.rows_at_once > 0 && now_ns > 0 ? kNsPerSecond / limits.rows_per_second : 0;
}

}  // namespace

const UserShares::Limits& UserShares::limits(Kind kind) { return kLimits[index(kind)]; }

UserShares::User& UserShares::user(uint32_t number) {
  const auto found = users_.find(number);
  if (found != users_.end()) {
    return found->second;
  }
  if (users_.size() >= kMostUsers) {
    std::erase_if(users_, [](const auto& entry) {
      const auto is_zero = [](uint64_t n) { return n == 0; };
      return entry.second.processes == 0 && std::ranges::all_of(entry.second.lost, is_zero) &&
             std::ranges::all_of(entry.second.held, is_zero);
    });
  }
  return users_[users_.size() < kMostUsers ? number : kOtherUsers];
}

/// Of those that were never looked at nothing says that they have ended: when they are many, all are forgotten.
UserShares::ProcessShare& UserShares::process_of(int32_t pid) {
  if (const auto found = processes_.find(pid); found != processes_.end()) {
    return found->second;
  }
  User& unknown = user(kUnknownUser);
  if (unknown.processes >= kMostUnknown) {
    std::erase_if(processes_, [this](const auto& entry) {
      const bool forget = entry.second.user == kUnknownUser;
      refused_ -= forget && !entry.second.followed ? 1 : 0;
      return forget;
    });
    unknown.processes = 0;
    unknown.held = {};
  }
  ++unknown.processes;
  return processes_[pid];
}

bool UserShares::begin(int32_t pid, uint32_t number, int64_t now_ns, uint64_t start_ticks) {
  const auto known = processes_.find(pid);
  const Counts held = known == processes_.end() ? Counts{} : known->second.held;
  const ProcessShare before = known == processes_.end() ? ProcessShare{} : known->second;
  end(pid);
  User& owner = user(number);
  ProcessShare process{.user = users_.contains(number) ? number : kOtherUsers, .start_ticks = start_ticks};
  const bool was_refused = !before.followed && before.user == process.user && before.start_ticks == start_ticks;
  ++owner.processes;
  const bool again = was_refused && !fits(process, owner, Kind::kProcess, now_ns, 1);  // one loss, however often
  process.followed = !again && take(process, Kind::kProcess, now_ns, 1);
  for (size_t kind = 0; kind < kKinds; ++kind) {
    if (kind != index(Kind::kProcess)) {
      process.held[kind] = held[kind];
      owner.held[kind] += held[kind];
    }
  }
  processes_[pid] = process;
  refused_ += process.followed ? 0 : 1;
  return process.followed;
}

void UserShares::end(int32_t pid) {
  const auto found = processes_.find(pid);
  if (found == processes_.end()) {
    return;
  }
  User& owner = user(found->second.user);
  owner.processes -= std::min<size_t>(owner.processes, 1);
  for (size_t kind = 0; kind < kKinds; ++kind) {
    owner.held[kind] -= std::min(owner.held[kind], found->second.held[kind]);
  }
  refused_ -= found->second.followed ? 0 : 1;
  processes_.erase(found);
}

bool UserShares::is_followed(int32_t pid) const {
  if (refused_ == 0) {
    return true;  // asked for each record
  }
  const auto found = processes_.find(pid);
  return found == processes_.end() || found->second.followed;
}

uint32_t UserShares::user_of(int32_t pid) const {
  const auto found = processes_.find(pid);
  return found == processes_.end() ? kUnknownUser : found->second.user;
}

bool UserShares::fits(const ProcessShare& process, const User& owner, Kind kind, int64_t now_ns, size_t count) {
  const size_t at = index(kind);
  const Limits& most = kLimits[at];
  const int64_t row_ns = row_time_ns(most, now_ns);
  return (most.of_process == 0 || process.held[at] + count <= most.of_process) &&
         (most.of_user == 0 || owner.held[at] + count <= most.of_user) &&
         (row_ns == 0 || owner.paid_until_ns[at] <= now_ns + row_ns * most.rows_at_once);
}

bool UserShares::take(ProcessShare& process, Kind kind, int64_t now_ns, size_t count) {
  const size_t at = index(kind);
  User& owner = user(process.user);
  if (!fits(process, owner, kind, now_ns, count)) {
    owner.lost[at] += count;
    return false;
  }
  if (const int64_t row_ns = row_time_ns(kLimits[at], now_ns); row_ns != 0) {
    owner.paid_until_ns[at] = std::max(owner.paid_until_ns[at], now_ns) + row_ns;
  }
  process.held[at] += count;
  owner.held[at] += count;
  return true;
}

bool UserShares::take(int32_t pid, Kind kind, int64_t now_ns, size_t count) {
  return take(process_of(pid), kind, now_ns, count);
}

bool UserShares::has_room(int32_t pid, Kind kind) {
  const ProcessShare& process = process_of(pid);
  const Limits& most = kLimits[index(kind)];
  return (most.of_process == 0 || process.held[index(kind)] < most.of_process) &&
         (most.of_user == 0 || user(process.user).held[index(kind)] < most.of_user);
}

void UserShares::give_back(int32_t pid, Kind kind, size_t count) {
  const auto found = processes_.find(pid);
  if (found == processes_.end()) {
    return;
  }
  const size_t given = std::min(found->second.held[index(kind)], count);
  found->second.held[index(kind)] -= given;
  size_t& held = user(found->second.user).held[index(kind)];
  held -= std::min(held, given);
}

void UserShares::lose(int32_t pid, Kind kind, uint64_t count) { user(user_of(pid)).lost[index(kind)] += count; }

uint32_t UserShares::counted_user(uint32_t number) {
  user(number);
  return users_.contains(number) ? number : kOtherUsers;
}

bool UserShares::has_room_for_user(uint32_t number, Kind kind) {
  const Limits& most = kLimits[index(kind)];
  return most.of_user == 0 || user(number).held[index(kind)] < most.of_user;
}

void UserShares::lose_for_user(uint32_t number, Kind kind, uint64_t count) { user(number).lost[index(kind)] += count; }

std::optional<uint32_t> UserShares::take_for_user(uint32_t number, Kind kind, int64_t now_ns) {
  ProcessShare none{.user = counted_user(number)};
  return take(none, kind, now_ns, 1) ? std::optional(none.user) : std::nullopt;
}

void UserShares::give_back_for_user(uint32_t number, Kind kind) {
  size_t& held = user(number).held[index(kind)];
  held -= std::min<size_t>(held, 1);
}

std::vector<Loss> UserShares::losses(NodeId node) const {
  std::vector<Loss> rows;
  for (const auto& [number, user] : users_) {
    for (size_t kind = 0; kind < kKinds; ++kind) {
      if (user.lost[kind] > 0) {
        rows.push_back({node, users_loss(kLimits[kind].source, number), user.lost[kind]});
      }
    }
  }
  return rows;
}

}  // namespace stalltrace::capture
