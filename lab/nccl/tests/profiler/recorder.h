// SPDX-License-Identifier: Apache-2.0
// A profiler plugin for tests that records every call, in order. Built once for each interface version; the library
// under test loads it like any plugin, and the test opens it too, to read the record.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lab::test {

enum class Call { kInit, kStart, kStop, kState, kFinalize };

/// One call. Fields that do not apply are empty.
struct Entry {
  Call call = Call::kInit;
  int64_t time_ns = 0;  // steady
  pthread_t thread = 0;
  int rank = -1;  // of the communicator; -1 for a stop or a state
  uint64_t comm_hash = 0;
  int nodes = 0;
  int ranks = 0;
  std::string comm_name;
  const void* handle = nullptr;
  const void* parent = nullptr;
  const void* group = nullptr;  // parent_group
  uint64_t type = 0;
  int state = -1;
  std::string function;
  std::string datatype;
  uint64_t sequence = 0;
  size_t count = 0;
  int peer = -1;
  bool is_send = false;
  int steps = 0;
  int step = -1;
  int depth = 0;
  size_t bytes = 0;    // of a state: transferred
  int operations = 0;  // of a state: appended
  uint64_t timer_ns = 0;
};

/// The object that a recorder library exports as `recorder`.
struct Recorder {
  /// Clears the record; the next communicator gets the event mask `mask`, and its init returns `result`.
  void (*reset)(int mask, int result);
  std::vector<Entry> (*entries)();
};

}  // namespace lab::test
