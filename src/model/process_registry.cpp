// SPDX-License-Identifier: Apache-2.0
#include "model/process_registry.h"

#include "base/clock.h"

namespace stalltrace {
namespace {

constexpr int64_t kKnownAfterExitNs = 60 * kNsPerSecond;

}  // namespace

void ProcessRegistry::add(Process process) {
  sink_.accept(process);
  added_ += !processes_.contains(process.pid);
  processes_.insert_or_assign(process.pid, std::move(process));
}

const Process* ProcessRegistry::find(int32_t pid) const {
  const auto found = processes_.find(pid);
  return found == processes_.end() ? nullptr : &found->second;
}

std::optional<int32_t> ProcessRegistry::rank_of(int32_t pid) const {
  const Process* process = find(pid);
  return process ? process->rank : std::nullopt;
}

void ProcessRegistry::learn_rank(int32_t pid, int32_t rank, int32_t nranks, RankSource source) {
  const auto found = processes_.find(pid);
  if (found == processes_.end()) {
    return;
  }
  Process& process = found->second;
  const bool by_communicator = process.rank_source == RankSource::kInit || process.rank_source == RankSource::kPlugin ||
                               process.rank_source == RankSource::kMemory;
  const bool better =
      process.rank_source == RankSource::kUnknown || (by_communicator && nranks > process.world_size.value_or(0));
  if (better) {
    process.rank = rank;
    process.world_size = nranks;
    process.rank_source = source;
    sink_.accept(process);
  }
}

void ProcessRegistry::oom_killed(int32_t pid) {
  if (const auto found = processes_.find(pid); found != processes_.end()) {
    found->second.oom_killed = true;
    sink_.accept(found->second);
  }
}

void ProcessRegistry::exited(int32_t pid, int64_t exit_ns, std::optional<int32_t> exit_code) {
  const auto found = processes_.find(pid);
  if (found == processes_.end()) {
    return;
  }
  Process& process = found->second;
  process.exit_ns = exit_ns;
  if (const int32_t signal = exit_code.value_or(0) & 0x7f; signal != 0) {
    process.exit_signal = signal;
  } else if (exit_code) {
    process.exit_code = (*exit_code >> 8) & 0xff;
  }
  sink_.accept(process);
  exited_.emplace_back(exit_ns, pid);
  for (; exited_.front().first + kKnownAfterExitNs < exit_ns; exited_.pop_front()) {
    const auto old = processes_.find(exited_.front().second);
    if (old != processes_.end() && old->second.exit_ns == exited_.front().first) {  // its number was not used again
      processes_.erase(old);
    }
  }
}

}  // namespace stalltrace
