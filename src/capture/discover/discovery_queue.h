// SPDX-License-Identifier: Apache-2.0
// Processes and new mappings that wait to be examined. Any user of the host can make both without end, and a process
// can take long: users take turns, those first who have taken little time, and each has a share of the mappings that
// wait. Pure; one thread; times are the caller's (CLOCK_MONOTONIC).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>

#include "base/clock.h"
#include "base/process/procfs.h"
#include "capture/reading_budget.h"

namespace stalltrace::capture {

class DiscoveryQueue {
 public:
  /// One user's mappings that wait: 40 ranks of PyTorch that load their libraries at once have fewer.
  static constexpr size_t kMostMappingsOfUser = 16'384;
  /// What a user may take at once, and then as its part of the time (ReadingBudget), before others come first.
  static constexpr int64_t kAtOnceNs = 2 * kNsPerSecond;
  /// A user's turn; it ends after the item that exceeds it.
  static constexpr int64_t kTurnNs = 5 * kNsPerMs;
  /// A user's new mappings come first: a call may follow. After this many, one of its processes has its turn.
  static constexpr size_t kMappingsInARow = 64;

  enum class Whose {
    kWithinBudget,  // of users who have taken no more than they may
    kAll,           // of the others, too, where nothing of those waits
  };

  struct Item {
    pid_t pid = 0;
    uint32_t user = 0;
    std::optional<MappedFile> mapping = {};  // none: the process as a whole
    bool also_heir = false;                  // also where it only has its parent's mappings
  };

  explicit DiscoveryQueue(size_t most_mappings_of_user = kMostMappingsOfUser)
      : most_mappings_of_user_(most_mappings_of_user) {}

  /// A new mapping. Where its user has too many, that is its loss, and the process waits as a whole instead.
  void add_mapping(pid_t pid, uint32_t user, MappedFile mapping);
  /// A mapping whose file has been read: LibraryFiles limits how many wait for that.
  void add_read_mapping(pid_t pid, uint32_t user, MappedFile mapping);
  /// A process, once however often it is added. It waits among those of the user who was named last.
  void add_process(pid_t pid, uint32_t user, bool also_heir);

  /// The next item; none where nothing waits. was_examined() counts the time that it took.
  std::optional<Item> take(int64_t now_ns, Whose whose);
  void was_examined(uint32_t user, int64_t began_ns, int64_t ended_ns) { budget_.was_read(user, began_ns, ended_ns); }
  [[nodiscard]] bool is_empty() const { return users_.empty(); }

  /// Removes waiting processes that are not alive, since what waits may wait for long.
  void keep_only(const std::function<bool(pid_t pid)>& is_alive);

  /// Mappings that were lost, by user.
  [[nodiscard]] const std::map<uint32_t, uint64_t>& lost() const { return lost_; }

 private:
  struct NewMapping {
    pid_t pid = 0;
    MappedFile file;
  };
  struct Waiting {  // of one user
    std::deque<NewMapping> mappings = {};
    std::deque<pid_t> processes = {};
    size_t in_a_row = 0;

    [[nodiscard]] bool is_empty() const { return mappings.empty() && processes.empty(); }
  };
  using Users = std::map<uint32_t, Waiting>;
  struct WaitingProcess {
    uint32_t user = 0;
    bool also_heir = false;
  };

  /// Whose turn it is; the end where no user has one.
  Users::iterator next_user(int64_t now_ns, bool within_budget);

  size_t most_mappings_of_user_;
  ReadingBudget budget_{kAtOnceNs};
  Users users_;  // for whom something waits
  std::map<pid_t, WaitingProcess> processes_;
  uint32_t user_ = 0;         // whose turn it is ...
  int64_t turn_ends_ns_ = 0;  // ... and until when
  std::map<uint32_t, uint64_t> lost_;
};

}  // namespace stalltrace::capture
