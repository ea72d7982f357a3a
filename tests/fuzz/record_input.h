// SPDX-License-Identifier: Apache-2.0
// The input of records_target.cpp, also for those who make its seeds. A record: its kind, who (process in the low
// nibble, thread in the high one), how long after the last one (a number of 12 bits, shifted by the upper 4, in 16 ns),
// the size of what follows, and the record's bytes behind its header; what is missing there is zero.
#pragma once

#include <cstdint>

namespace stalltrace::fuzz {

enum class RecordKind : uint8_t {
  kCallEntry,
  kCallReturn,
  kCommInit,
  kSync,
  kRequestsDone,
  kSocket,
  kTcpEvent,
  kTcpSample,
  kNetSpan,
  kStepMark,
  kWait,
  kCallStack,
  kException,
  kOutOfMemory,
  kSeen,
  kListing,
  kBegin,  // discovery found the process: user, rank (128: none), library, key of its job
  kExit,
  kExitLost,  // the process ended, and its record was lost
  kRound,     // what waits is delivered
  kBytes,     // no record of ours
  kCount,
};

constexpr uint32_t kFirstProcess = 100;
constexpr uint32_t kProcesses = 4;

}  // namespace stalltrace::fuzz
