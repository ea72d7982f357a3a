// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/collective/captured_streams.h"

namespace stalltrace::capture {

void CapturedStreams::begin(uint64_t stream) {
  end(stream);  // the record of the end was lost: a stream that is being captured can't begin another capture
  if (streams_.size() < kMostStreams) {
    streams_.emplace(stream, ++newest_);
    open_.insert(newest_);
  }
}

void CapturedStreams::end(uint64_t stream) {
  if (const Id capture = of(stream); capture != kNone) {
    open_.erase(capture);
    std::erase_if(streams_, [capture](const auto& entry) { return entry.second == capture; });
  }
}

void CapturedStreams::join(uint64_t stream, Id capture) {
  if (is_open(capture) && streams_.size() < kMostStreams) {
    streams_.try_emplace(stream, capture);
  }
}

CapturedStreams::Id CapturedStreams::of(uint64_t stream) const {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? kNone : found->second;
}

}  // namespace stalltrace::capture
