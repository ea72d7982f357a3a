// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/collective/captured_streams.h"

#include <algorithm>

namespace stalltrace::capture {

void CapturedStreams::begin(uint64_t stream, uint64_t at_ns) {
  end(of(stream));  // the record of the end was lost: a stream that is being captured can't begin another capture
  if (streams_.size() < kMostStreams) {
    streams_[stream] = ++newest_;
    open_.emplace(newest_, at_ns);
  }
}

void CapturedStreams::end(Id capture) {
  if (open_.erase(capture) != 0) {
    std::erase_if(streams_, [capture](const auto& entry) { return entry.second == capture; });
  }
}

void CapturedStreams::end_if_before(Id capture, uint64_t waited_from_ns) {
  if (const auto found = open_.find(capture); found != open_.end() && found->second <= waited_from_ns) {
    end(capture);
  }
}

void CapturedStreams::end_all_before(uint64_t waited_from_ns) {
  std::erase_if(open_, [&](const auto& entry) { return entry.second <= waited_from_ns; });
  std::erase_if(streams_, [&](const auto& entry) { return !open_.contains(entry.second); });
}

void CapturedStreams::join(uint64_t stream, Id capture) {
  if (!is_open(capture) || of(stream) == capture) {
    return;
  }
  take_out(stream);
  if (is_open(capture) && streams_.size() < kMostStreams) {
    streams_.emplace(stream, capture);
  }
}

void CapturedStreams::take_out(uint64_t stream) {
  const Id capture = of(stream);
  streams_.erase(stream);
  if (std::ranges::none_of(streams_, [capture](const auto& entry) { return entry.second == capture; })) {
    open_.erase(capture);
  }
}

CapturedStreams::Id CapturedStreams::of(uint64_t stream) const {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? kNone : found->second;
}

uint64_t CapturedStreams::begun_ns(Id capture) const {
  const auto found = open_.find(capture);
  return found == open_.end() ? 0 : found->second;
}

}  // namespace stalltrace::capture
