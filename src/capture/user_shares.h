// SPDX-License-Identifier: Apache-2.0
// What the processes of one user may have the agent keep, and how many rows of the tables that are never pruned they
// may fill. Any user of the host can make processes, communicators and connections without end: of each kind a user has
// a share, far above what jobs take. What is beyond is counted as that user's loss. Pure; one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "model/events.h"
#include "model/events/loss_sources.h"

namespace stalltrace::capture {

class UserShares {
 public:
  enum class Kind : uint8_t {
    kProcess,
    kCommunicator,
    kPeer,      // a communicator's, of Sends and Recvs
    kCall,      // not ended
    kGpuEvent,  // a call that a GPU event comes after
    kConnection,
    kStepMark,  // a connection in the profiler plugin's marks
    kStack,
    kCompetitor,  // of no process that is followed: see take_for_user()
  };
  static constexpr size_t kKinds = 9;
  struct Limits {
    const char* source;  // of the loss, before the user
    size_t of_process;   // held at a time; 0: without a bound of its own
    size_t of_user;
    int64_t rows_at_once;  // new ones, which are rows that are never pruned; 0: they are none
    int64_t rows_per_second;
  };
  static const Limits& limits(Kind kind);

  /// The process is this user's, with all that it holds by now. False where the user has too many: it is not followed,
  /// is_followed() says so until end(), or until another call finds room: its loss is counted once. Times are
  /// CLOCK_MONOTONIC; `start_ticks` distinguishes the processes of one number.
  bool begin(int32_t pid, uint32_t user, int64_t now_ns, uint64_t start_ticks = 0);
  /// All that it holds is given back.
  void end(int32_t pid);
  /// False only for a process that begin() refused last.
  [[nodiscard]] bool is_followed(int32_t pid) const;
  [[nodiscard]] uint32_t user_of(int32_t pid) const;

  /// `count` more of a kind, or none of them. False where the process or its user has too many, or has made too many of
  /// late: that is its loss, and is counted.
  bool take(int32_t pid, Kind kind, int64_t now_ns = 0, size_t count = 1);
  /// Whether one more would be given; without counting a loss, and without regard to rates.
  [[nodiscard]] bool has_room(int32_t pid, Kind kind);
  void give_back(int32_t pid, Kind kind, size_t count = 1);
  void lose(int32_t pid, Kind kind, uint64_t count = 1);

  /// For whom what is of no followed process counts: `user`, or those that no table has room for.
  uint32_t counted_user(uint32_t user);
  /// One more of a kind for a process that is not followed, and for whom it counts. None where that user has too many:
  /// its loss, and counted.
  std::optional<uint32_t> take_for_user(uint32_t user, Kind kind, int64_t now_ns);
  /// The other functions for users: as take_for_user() or counted_user() returned it.
  void give_back_for_user(uint32_t user, Kind kind);
  /// As has_room().
  [[nodiscard]] bool has_room_for_user(uint32_t user, Kind kind);
  void lose_for_user(uint32_t user, Kind kind, uint64_t count = 1);

  /// One row for each user and kind, as "share:call:1000".
  [[nodiscard]] std::vector<Loss> losses(NodeId node) const;

 private:
  using Counts = std::array<size_t, kKinds>;
  struct User {
    size_t processes = 0;
    Counts held{};
    std::array<int64_t, kKinds> paid_until_ns{};  // of new rows; ahead of the clock by less than rows_at_once
    std::array<uint64_t, kKinds> lost{};
  };
  struct ProcessShare {
    uint32_t user = kUnknownUser;
    uint64_t start_ticks = 0;
    bool followed = true;
    Counts held{};
  };
  ProcessShare& process_of(int32_t pid);
  User& user(uint32_t number);
  static bool fits(const ProcessShare& process, const User& owner, Kind kind, int64_t now_ns, size_t count);
  bool take(ProcessShare& process, Kind kind, int64_t now_ns, size_t count);

  std::unordered_map<int32_t, ProcessShare> processes_;
  size_t refused_ = 0;  // of processes_: not followed
  std::map<uint32_t, User> users_;
};

}  // namespace stalltrace::capture
