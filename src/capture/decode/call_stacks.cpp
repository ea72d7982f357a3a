// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/call_stacks.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/hash.h"

namespace stalltrace::capture {
namespace {

constexpr size_t kCallSitesOfAProcess = 256;
constexpr size_t kDelivered = 65'536;  // remembered rows; older ones may be delivered again, which is harmless

}  // namespace

void CallStacks::note(const st_call_stack& record) {
  const auto pid = static_cast<pid_t>(record.header.tgid);
  auto& call_sites = processes_[pid];
  if (call_sites.contains(record.call_site)) {
    return;
  }
  if (call_sites.size() >= kCallSitesOfAProcess) {
    shares_.lose(pid, UserShares::Kind::kStack);
    return;
  }
  const size_t frames = std::min<size_t>(record.frames, ST_STACK_FRAMES);
  std::vector<uint64_t> addresses(record.addresses, record.addresses + frames);
  // The kernel's walk of frame pointers misses the caller of a function that has not set up its frame yet.
  if (!addresses.empty() && (addresses.size() == 1 || addresses[1] != record.return_address)) {
    addresses.insert(addresses.begin() + 1, record.return_address);
  }
  Stack stack{.frames = names_.describe(pid, addresses, shares_.user_of(pid))};
  if (stack.frames.empty()) {
    call_sites[record.call_site] = 0;
    return;
  }
  stack.stack_id = static_cast<int64_t>(splitmix64_text(stack.frames) >> 1);  // ids are positive
  if (delivered_.size() >= kDelivered) {
    delivered_.clear();
  }
  if (!delivered_.contains(stack.stack_id)) {
    if (!shares_.take(pid, UserShares::Kind::kStack, static_cast<int64_t>(record.header.time_ns))) {
      call_sites[record.call_site] = 0;
      return;
    }
    delivered_.insert(stack.stack_id);
    sink_.accept(stack);
  }
  call_sites[record.call_site] = stack.stack_id;
}

int64_t CallStacks::id_of(pid_t pid, uint64_t call_site) const {
  const auto process = processes_.find(pid);
  if (process == processes_.end()) {
    return 0;
  }
  const auto found = process->second.find(call_site);
  return found == process->second.end() ? 0 : found->second;
}

}  // namespace stalltrace::capture
