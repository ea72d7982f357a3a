// SPDX-License-Identifier: Apache-2.0
// Everything read so far from one profiler file: communicators, calls, steps, signs of life, losses. The live follower,
// the import and the progress display of a job read files through it. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "blackbox/decode/call.h"
#include "blackbox/decode/step.h"
#include "blackbox/decode/values.h"
#include "blackbox/format/event_table.h"
#include "blackbox/format/reader.h"
#include "blackbox/format/slot_table.h"
#include "blackbox/liveness.h"
#include "blackbox/losses.h"

namespace stalltrace::blackbox {

/// Which of a file's events a session keeps.
enum class Keep {
  kNothing,   // counts and communicators only
  kNewCalls,  // events until they are taken, and the newest 2,048 API calls, which later events name. Bounded. A state
              // of an event in which nothing more is expected of it is taken once, however often it is read
  kAll,       // the newest state of every event; for a file that is read once
};

/// A process's progress.
struct FileProgress {
  uint64_t completed = 0;                  // collectives, Sends and Recvs that ended, over all reads
  uint64_t open = 0;                       // entered, not ended
  std::optional<uint64_t> oldest_open_ns;  // CLOCK_MONOTONIC; entry of the call that has been open longest
};

class ProfilerSession {
 public:
  ProfilerSession(ProfilerFileReader reader, Keep keep) : reader_(std::move(reader)), keep_(keep) {}
  static Result<ProfilerSession> open(const std::string& path, Keep keep);

  /// Reads what is new. `now_ns` is the time on the file's CLOCK_MONOTONIC: later times in the file are invalid. An
  /// error means that the file has become unusable.
  Status read(uint64_t now_ns, const ReadBounds& bounds = {});

  [[nodiscard]] const ProfilerFileReader& file() const { return reader_; }
  /// From the last read(); a read() must have succeeded.
  [[nodiscard]] const st_box_header& header() const { return header_; }
  [[nodiscard]] bool has_writer() const { return has_writer_; }
  /// True if the last read left nothing in the ring.
  [[nodiscard]] bool drained() const { return drained_; }
  /// Records of the ring that the last read left.
  [[nodiscard]] uint64_t unread() const { return unread_; }
  [[nodiscard]] FileProgress progress() const { return progress_; }
  /// Losses so far; a count never decreases.
  [[nodiscard]] LossCounts losses() const;

  /// Null for an unknown serial number.
  [[nodiscard]] const st_box_communicator* communicator(uint64_t serial) const;
  /// Number of hosts of the communicator with this NCCL hash; 0 unknown.
  [[nodiscard]] int32_t nodes_of(uint64_t hash) const;
  /// Rows of communicators that are new or have ended since the last call, in the order of the file's table.
  std::vector<Communicator> take_communicators(const Owner& owner);

  /// Ended calls that were not taken before, and the open ones of the last read, numbered in the order of the calls and
  /// sorted by time. A call that ends again, with a late part, is taken again. Calls that began at `before_ns`
  /// (CLOCK_MONOTONIC) or later are kept back. kNewCalls returns only calls that NCCL launched as COLL or P2P, kAll
  /// every call.
  std::vector<ProfilerCall> take_calls(const Owner& owner, uint64_t before_ns = std::numeric_limits<uint64_t>::max());
  /// True if ended calls are kept back.
  [[nodiscard]] bool holds_calls() const { return !ended_calls_.empty(); }
  /// Steps and operations that have ended and were not taken before, steps first.
  std::vector<StepRow> take_steps(const Owner& owner);
  /// Operations that had not ended at the last read, and their wait at `now_ns` (CLOCK_MONOTONIC). Empty where that
  /// read left out open parts.
  [[nodiscard]] std::vector<StepRow> open_steps(const Owner& owner, uint64_t now_ns) const;
  /// Whether the last read included communicators and open events.
  [[nodiscard]] bool read_open_parts() const { return read_open_parts_; }

  /// `alive`: the process still runs.
  [[nodiscard]] ProcessActivity activity(bool alive, int64_t clock_offset_ns) const;

 private:
  void learn_communicators(std::vector<st_box_communicator> table);
  void learn(const st_box_event& event, bool open);
  void learn_news(const st_box_event& event, bool open);
  void learn_call(const st_box_event& event, bool open);
  void note_time(uint64_t time_ns, uint64_t now_ns);
  void note_activity(const st_box_event& event, uint64_t now_ns);
  void count_progress(const ProfilerFileContents& contents);
  void keep_api_call(const st_box_event& event);
  void count_unknown_communicator(const st_box_event& ended);

  ProfilerFileReader reader_;
  Keep keep_;
  st_box_header header_{};
  bool has_writer_ = false;
  bool drained_ = false;
  uint64_t unread_ = 0;
  bool read_open_parts_ = false;
  FileProgress progress_;
  uint64_t last_active_ns_ = 0;                            // CLOCK_MONOTONIC
  std::vector<st_box_communicator> table_;                 // from the last read
  std::map<uint64_t, st_box_communicator> communicators_;  // by serial number; includes some that left the table
  std::vector<uint64_t> changed_communicators_;            // serial numbers
  EventTable events_;                                      // all events, or API calls
  std::deque<uint64_t> api_calls_;                         // ids, oldest first
  bool forgot_api_calls_ = false;
  SlotTable<uint64_t> ends_;               // ends of the events delivered; 0: unobserved
  std::vector<st_box_event> ended_calls_;  // includes those with an unobserved end
  std::vector<st_box_event> open_calls_;
  std::vector<st_box_event> ended_steps_;
  std::vector<st_box_event> open_steps_;
  StepDecoder steps_;
  LossCounts file_losses_;
  LossCounts own_losses_;
};

}  // namespace stalltrace::blackbox
