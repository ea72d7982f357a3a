// SPDX-License-Identifier: Apache-2.0
// What the test of collectives measured, and where it failed. Ranks are those of the launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace stalltrace::preflight {

/// One operation of one size: the times of one call.
struct CollectiveTime {
  size_t operation = 0;    // index of collective_operations()
  int64_t bytes = 0;       // by the definition of nccl-tests
  int64_t calls = 0;       // that were timed together
  int64_t average_ns = 0;  // over the ranks, as in nccl-tests
  int64_t least_ns = 0;
  int64_t most_ns = 0;
  int32_t slowest_rank = 0;
};

/// Elements that a rank got and should not have.
struct WrongResults {
  size_t operation = 0;
  int64_t bytes = 0;
  int32_t rank = 0;
  int64_t elements = 0;
};

/// Why a rank did not do a step.
struct CollectiveFault {
  enum class Kind : uint8_t {
    kNotReady,    // no library, no device, or nothing that would load one
    kError,       // of the library
    kEnded,       // the program that used the library crashed, or was killed
    kUnfinished,  // it never ended, or the rank is gone
  };
  Kind kind = Kind::kError;
  int32_t rank = 0;
  std::string step;       // "AllReduce of 8 B"
  std::string detail;     // the library's own words; of kUnfinished the limit
  bool launched = false;  // of kUnfinished: the rank's own calls had returned
};

struct CollectiveResults {
  int64_t ranks = 0;                                 // that were asked to take part
  std::string library;                               // rank 0's file
  std::map<int64_t, std::vector<int32_t>> versions;  // of NCCL, with the ranks that have it
  int64_t connect_ns = 0;                            // the communicator's set-up on the slowest rank
  int64_t max_bytes = 0;
  bool cut_short = false;             // the time for all of them was over
  std::vector<CollectiveTime> times;  // by operation, then by size
  std::vector<WrongResults> wrong;
  std::vector<CollectiveFault> faults;  // all of one step: nothing was tested after it
};

}  // namespace stalltrace::preflight
