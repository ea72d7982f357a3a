// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/collective/open_calls.h"

#include <utility>

namespace stalltrace::capture {

void OpenCalls::add(OpenCall call) {
  const EventId event = call.row.event_id;
  not_launched_.insert(event);
  calls_.insert_or_assign(event, std::move(call));
}

OpenCall* OpenCalls::find(EventId event) {
  const auto found = calls_.find(event);
  return found == calls_.end() ? nullptr : &found->second;
}

void OpenCalls::launch(OpenCall& call, int64_t launched_ns, uint64_t request) {
  call.launched = true;
  call.launched_ns = launched_ns;
  call.request = request;
  not_launched_.erase(call.row.event_id);
  launched_.emplace(call.row.event_id, &call);
  if (request != 0) {
    by_request_[request] = call.row.event_id;
  }
}

OpenCall OpenCalls::take(EventId event) {
  OpenCall call = std::move(calls_.extract(event).mapped());
  launched_.erase(event);
  not_launched_.erase(event);
  if (const auto named = by_request_.find(call.request); named != by_request_.end() && named->second == event) {
    by_request_.erase(named);
  }
  return call;
}

bool OpenCalls::too_many() const {
  return launched_.size() >= kMostLaunched || not_launched_.size() >= kMostNotLaunched;
}

EventId OpenCalls::oldest() const {
  const bool not_launched = not_launched_.size() >= kMostNotLaunched || launched_.empty();
  if (not_launched) {
    return not_launched_.empty() ? 0 : *not_launched_.begin();
  }
  return launched_.begin()->first;
}

EventId OpenCalls::begun_as(uint64_t request) const {
  const auto found = by_request_.find(request);
  return found == by_request_.end() ? 0 : found->second;
}

}  // namespace stalltrace::capture
