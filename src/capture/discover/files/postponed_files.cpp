// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/files/postponed_files.h"

#include <algorithm>
#include <utility>

namespace stalltrace::capture {
namespace {

constexpr size_t kMostKept = 4096;  // of those whose time is over

}  // namespace

PostponedFiles::LeftAlone& PostponedFiles::entry_of(const FileKey& key, int64_t now_ns) {
  if (left_alone_.size() >= kMostKept) {
    std::erase_if(left_alone_, [&](const auto& entry) { return entry.second.until_ns <= now_ns; });
  }
  return left_alone_[key];
}

int64_t PostponedFiles::failed(const FileKey& key, int64_t now_ns) {
  LeftAlone& file = entry_of(key, now_ns);
  file.until_ns = now_ns + (kFirstNs << std::min(file.failures, kMostDoublings));
  ++file.failures;
  return file.until_ns;
}

void PostponedFiles::held(const FileKey& key, int64_t now_ns) { entry_of(key, now_ns).until_ns = now_ns + kSilentNs; }

void PostponedFiles::was_silent(const FileKey& key, int64_t now_ns) {
  if (silent_.size() >= kMostKept) {
    std::erase_if(silent_, [&](const auto& entry) { return entry.second <= now_ns; });
  }
  silent_[{key.device_major, key.device_minor, key.user}] = now_ns + kSilentNs;
}

std::optional<int64_t> PostponedFiles::left_alone_until(const FileKey& key, int64_t now_ns) const {
  int64_t until_ns = 0;
  if (const auto known = left_alone_.find(key); known != left_alone_.end()) {
    until_ns = known->second.until_ns;
  }
  if (const auto known = silent_.find({key.device_major, key.device_minor, key.user}); known != silent_.end()) {
    until_ns = std::max(until_ns, known->second);
  }
  return now_ns < until_ns ? std::optional(until_ns) : std::nullopt;
}

bool PostponedFiles::add(LibraryReader::Request request, int64_t until_ns) {
  size_t& count = waiting_of_[request.user];
  if (count >= kMostOfUser) {
    return false;
  }
  ++count;
  waiting_.emplace(until_ns, std::move(request));
  return true;
}

std::vector<LibraryReader::Request> PostponedFiles::take_due(int64_t now_ns) {
  std::vector<LibraryReader::Request> due;
  while (!waiting_.empty() && waiting_.begin()->first <= now_ns && due.size() < kMostAtOnce) {
    due.push_back(std::move(waiting_.begin()->second));
    waiting_.erase(waiting_.begin());
    if (const auto count = waiting_of_.find(due.back().user); --count->second == 0) {
      waiting_of_.erase(count);
    }
  }
  return due;
}

}  // namespace stalltrace::capture
