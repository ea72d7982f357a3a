// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/competitors.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "capture/discover/identity.h"
#include "capture/discover/sharing_user.h"
#include "capture/host/host_files.h"
#include "model/events/loss_sources.h"

namespace stalltrace::capture {
namespace {

constexpr size_t kFileBytes = 64 << 10;
constexpr size_t kCgroupBytes = 4096;
constexpr int kGenerations = 16;  // shells and wrappers between a rank and its descendant

/// Where the ranks of a job find each other: torchrun gives many jobs one name.
std::string store_of(std::string_view settings) {
  std::string store;
  for (const std::string_view setting : split(settings, '\n')) {
    if (setting.starts_with("MASTER_ADDR=") || setting.starts_with("MASTER_PORT=")) {
      store += setting;
      store += '\n';
    }
  }
  return store;
}

}  // namespace

bool Competitors::is_traced(int32_t pid) const {
  const Process* traced = traced_.find(pid);
  return traced != nullptr && !traced->exit_ns;
}

void Competitors::note(const WaitSpan& wait) {
  const int32_t pid = wait.by_pid;
  if (wait.kind != WaitKind::kRunnable || pid <= 0 || wait.by_waited_ns < kNamedFromNs) {
    return;
  }
  if (const auto found = known_.find(pid); found != known_.end()) {
    Known& known = found->second;
    if (now_ns_ - std::exchange(known.noted_ns, now_ns_) >= kIdleNs) {  // it may run another program since
      check_at(pid, known, now_ns_);
    }
    return;
  }
  if (is_traced(pid) || ignored_.contains(pid) || std::ranges::find(noted_, pid, &Noted::pid) != noted_.end()) {
    return;
  }
  if (noted_.size() >= kMostNoted) {
    lose(pid, kUnknownUser);
    return;
  }
  noted_.push_back({pid, wait.pid});
}

void Competitors::lose(int32_t pid, uint32_t user) {
  if (lost_.insert(pid).second) {
    shares_.lose_for_user(user, UserShares::Kind::kCompetitor);
  }
}

void Competitors::read(int64_t now_ns, const std::function<void()>& between) {
  now_ns_ = now_ns;
  if (now_ns < next_reading_ns_) {
    return;
  }
  next_reading_ns_ = now_ns + kReadEveryNs;
  if (now_ns >= ignored_until_ns_) {
    ignored_.clear();
    lost_.clear();
    ignored_until_ns_ = now_ns + kIgnoredNs;
  }
  for (size_t i = 0; i < kMostChecks && !checks_.empty() && checks_.begin()->first <= now_ns; ++i) {
    check(known_.find(checks_.begin()->second), now_ns);
    between();
  }
  for (size_t i = 0; i < kReadAtOnce && !noted_.empty(); ++i) {
    const Noted noted = noted_.front();
    noted_.pop_front();
    read_process(noted, now_ns);
    between();
  }
}

void Competitors::finish(int64_t now_ns, int64_t end_ns) {
  for (; !noted_.empty() && monotonic_now_ns() < end_ns; noted_.pop_front()) {
    read_process(noted_.front(), now_ns);
  }
  for (const Noted& noted : noted_) {
    lose(noted.pid, kUnknownUser);
  }
  noted_.clear();
}

void Competitors::read_process(Noted noted, int64_t now_ns) {
  const int32_t pid = noted.pid;
  if (is_traced(pid)) {  // by now
    return;
  }
  const uint64_t start_ticks = procfs_.start_ticks(pid);
  auto one = describe(noted, start_ticks, now_ns);
  if (!one || procfs_.start_ticks(pid) != start_ticks) {  // else some of it is of the next process with that number
    return;
  }
  if (const auto before = unwatched_.find(pid); before != unwatched_.end() && before->second == start_ticks) {
    one->row.start_ns = now_ns + node_.clock_offset_ns;  // it has a row, which has ended
  }
  const bool is_user_full = !shares_.has_room_for_user(one->user, UserShares::Kind::kCompetitor);
  if ((is_user_full && !stop_watching_an_idle_one(one->user, now_ns)) ||
      (known_.size() >= kMostKnown && !stop_watching_an_idle_one({}, now_ns))) {
    lose(pid, one->user);
    ignored_.insert(pid);
    return;
  }
  watch(*std::move(one), now_ns);
}

std::optional<Competitors::Known> Competitors::describe(Noted noted, uint64_t start_ticks, int64_t now_ns) {
  const int32_t pid = noted.pid;
  Known one{.row = {.node_id = node_.node_id, .pid = pid}, .start_ticks = start_ticks, .noted_ns = now_ns};
  one.row.cmdline = procfs_.command_line(pid);
  if (start_ticks == 0 || one.row.cmdline.empty()) {  // it has ended, or is a thread of the kernel
    ignored_.insert(pid);
    return std::nullopt;
  }
  one.row.start_ns = start_of_process_ns(procfs_, pid, node_.clock_offset_ns);
  one.row.cgroup = cgroup_of(pid);
  one.row.rank_pid = traced_ancestor_of(pid);
  if (one.row.rank_pid == 0 && is_rank_of_same_job(noted)) {
    one.row.rank_pid = noted.rank_pid;
  }
  one.user = shares_.counted_user(sharing_user(procfs_, pid).value_or(kUnknownUser));
  return one;
}

void Competitors::watch(Known known, int64_t now_ns) {
  const int32_t pid = known.row.pid;
  const auto counted = shares_.take_for_user(known.user, UserShares::Kind::kCompetitor, now_ns);
  if (!counted) {
    ignored_.insert(pid);
    return;
  }
  known.user = *counted;
  unwatched_.erase(pid);
  sink_.accept(known.row);
  known.check_ns = now_ns + kCheckNs;
  checks_.emplace(known.check_ns, pid);
  known_.insert_or_assign(pid, std::move(known));
}

void Competitors::check_at(int32_t pid, Known& known, int64_t time_ns) {
  checks_.erase({known.check_ns, pid});
  known.check_ns = time_ns;
  checks_.emplace(time_ns, pid);
}

void Competitors::stop_watching(AllKnown::iterator known, int64_t now_ns, bool lives) {
  Known& one = known->second;
  if (lives) {
    if (unwatched_.size() >= kMostKnown) {
      unwatched_.clear();
    }
    unwatched_.insert_or_assign(known->first, one.start_ticks);
  }
  one.row.exit_ns = std::max(now_ns + node_.clock_offset_ns, one.row.start_ns);
  sink_.accept(one.row);
  shares_.give_back_for_user(one.user, UserShares::Kind::kCompetitor);
  checks_.erase({one.check_ns, known->first});
  known_.erase(known);
}

bool Competitors::stop_watching_an_idle_one(std::optional<uint32_t> user, int64_t now_ns) {
  auto idle = known_.end();
  for (auto known = known_.begin(); known != known_.end(); ++known) {
    const bool may = known->second.noted_ns <= now_ns - kIdleNs && (!user || known->second.user == *user);
    if (may && (idle == known_.end() || known->second.noted_ns < idle->second.noted_ns)) {
      idle = known;
    }
  }
  if (idle == known_.end()) {
    return false;
  }
  stop_watching(idle, now_ns, true);
  return true;
}

/// A new program of the same process gets a row of its own: waits from before were those of the other.
void Competitors::check(AllKnown::iterator known, int64_t now_ns) {
  const int32_t pid = known->first;
  const uint64_t start_ticks = known->second.start_ticks;
  const bool lives = procfs_.start_ticks(pid) == start_ticks;
  if (!lives || is_traced(pid)) {
    stop_watching(known, now_ns, lives);
    return;
  }
  Known next = known->second;
  next.row.cmdline = procfs_.command_line(pid);
  const bool is_new = !next.row.cmdline.empty() && next.row.cmdline != known->second.row.cmdline;
  if (!is_new || procfs_.start_ticks(pid) != start_ticks) {
    check_at(pid, known->second, now_ns + (now_ns - known->second.noted_ns < kIdleNs ? kCheckNs : kIdleNs));
    return;
  }
  stop_watching(known, now_ns, true);
  next.row.start_ns = std::max(now_ns + node_.clock_offset_ns, next.row.start_ns + 1);
  next.row.cgroup = cgroup_of(pid);
  watch(std::move(next), now_ns);
}

/// That of version 2. In a host with both versions the processes of a container may have one of their own only for the
/// CPU: the longer path is the more precise one.
std::string Competitors::cgroup_of(int32_t pid) const {
  std::string longest;
  for (const CgroupPath& cgroup : parse_cgroups(read_file(procfs_.path(pid, "cgroup"), kFileBytes).value_or(""))) {
    const auto controllers = split(cgroup.controllers, ',');
    const bool of_cpu = cgroup.controllers.empty() || std::ranges::find(controllers, "cpu") != controllers.end();
    if (of_cpu && cgroup.path.size() > longest.size()) {
      longest = cgroup.path;
    }
  }
  longest.resize(std::min(longest.size(), kCgroupBytes));
  return longest;
}

bool Competitors::is_rank_of_same_job(Noted noted) const {
  const Process* rank = traced_.find(noted.rank_pid);
  if (rank == nullptr || rank->job_id.empty()) {
    return false;
  }
  const auto environment = procfs_.environment(noted.pid);
  if (!environment) {
    return false;
  }
  const JobIdentity identity = job_identity(*environment);
  return identity.rank && identity.job_id == rank->job_id && identity.world_size == rank->world_size &&
         store_of(job_settings(*environment)) == store_of(rank->settings);
}

int32_t Competitors::traced_ancestor_of(int32_t pid) const {
  pid_t parent = procfs_.parent(pid);
  for (int i = 0; i < kGenerations && parent > 1; ++i, parent = procfs_.parent(parent)) {
    if (is_traced(parent)) {
      return parent;
    }
  }
  return 0;
}

}  // namespace stalltrace::capture
