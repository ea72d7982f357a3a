// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/files/mapping_tables.h"

#include <algorithm>
#include <utility>

namespace stalltrace::capture {
namespace {

constexpr int64_t kKeptNs = 2 * kNsPerSecond;    // tables of hundreds of ranks take megabytes
constexpr int64_t kForgetNs = kNsPerSecond / 4;  // how often old ones are looked for

}  // namespace

int64_t MappingTables::Read::left_at(int64_t now_ns) const {
  return std::min(left_ns + (now_ns - read_ns) / kShare, kAtOnceNs);
}

void MappingTables::forget_old(int64_t now_ns) {
  if (now_ns - forgot_ns_ < kForgetNs) {
    return;
  }
  forgot_ns_ = now_ns;
  std::erase_if(reads_, [&](const auto& entry) {
    return now_ns - entry.second.read_ns >= kKeptNs && entry.second.left_at(now_ns) == kAtOnceNs;
  });
}

int64_t MappingTables::again_ns(pid_t pid) const {
  const auto known = reads_.find(pid);
  return known == reads_.end() || known->second.left_ns > 0
             ? 0
             : known->second.read_ns + kShare * (1 - known->second.left_ns);
}

Result<MappingTables::Table> MappingTables::read(pid_t pid) {
  const int64_t begun_ns = monotonic_now_ns();
  forget_old(begun_ns);
  auto mappings = procfs_.executable_mappings(pid);
  const int64_t now_ns = monotonic_now_ns();
  const auto known = reads_.try_emplace(pid, Read{.table = nullptr, .read_ns = begun_ns}).first;
  const int64_t left_ns = known->second.left_at(begun_ns) - (now_ns - begun_ns);
  known->second = {.table = nullptr, .read_ns = now_ns, .left_ns = left_ns};
  if (!mappings) {
    return std::unexpected(std::move(mappings.error()));
  }
  known->second.table = std::make_shared<const std::vector<MappedFile>>(std::move(*mappings));
  return known->second.table;
}

MappingTables::Table MappingTables::last(pid_t pid) const {
  const auto known = reads_.find(pid);
  return known == reads_.end() ? nullptr : known->second.table;
}

}  // namespace stalltrace::capture
