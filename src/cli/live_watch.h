// SPDX-License-Identifier: Apache-2.0
// The live analysis beside a running trace: events pass by on their way to the recording, a thread of its own looks at
// them about every second. Capture never waits for it: what finds no room in its queue is not looked at, and counted.
// The tracer's thread calls everything here; the other thread is inside.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/live/live_findings.h"
#include "model/events.h"

namespace stalltrace::cli {

class LiveWatch final : public EventSink {
 public:
  /// `next` gets every event.
  explicit LiveWatch(EventSink& next);
  /// Ends the thread.
  ~LiveWatch() override;

  void accept(Event event) override;
  /// All that happened until `now_ns` (UTC) was accepted.
  void advance(int64_t now_ns);
  /// What came, grew and went since the last call.
  std::vector<analysis::LiveChange> take();
  /// What goes wrong with a look; the watch goes on.
  [[nodiscard]] Status status() const;
  /// Events that were not looked at.
  [[nodiscard]] uint64_t skipped() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stalltrace::cli
