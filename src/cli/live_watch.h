// SPDX-License-Identifier: Apache-2.0
// The live analysis during a trace: events pass through to the recording, and a separate thread examines them about
// once a second. Capture never waits for it: events that do not fit into its queue are skipped and counted. The
// tracer's thread calls all functions; the other thread is internal.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/live/live_findings.h"
#include "model/events.h"

namespace stalltrace::cli {

class LiveWatch final : public EventSink {
 public:
  /// `next` receives every event.
  explicit LiveWatch(EventSink& next);
  /// Ends the thread.
  ~LiveWatch() override;

  /// Starts the thread. Once, and after this process has given up its rights: a thread keeps those that the caller has
  /// then. Events that were accepted before wait for it.
  void start();

  void accept(Event event) override;
  /// Call when all events until `now_ns` (UTC) were accepted.
  void advance(int64_t now_ns);
  /// Call once when the trace has ended and all events were accepted: the last round, which also ends findings that are
  /// over. Afterwards only take(), status() and skipped() may be called.
  void finish(int64_t now_ns);
  /// The findings that began, changed or ended since the last call.
  std::vector<analysis::LiveChange> take();
  /// The error of a round; the watch continues.
  [[nodiscard]] Status status() const;
  /// Number of events that were skipped.
  [[nodiscard]] uint64_t skipped() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stalltrace::cli
