// SPDX-License-Identifier: Apache-2.0
// The system call that a thread is blocked in, from /proc/PID/task/TID/syscall.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stalltrace::stacks {

/// A system call that a thread has entered.
struct SystemCall {
  int64_t number = 0;
  std::array<uint64_t, 6> arguments{};
};

/// Parses one line of proc's file: "202 0x7f.. ...". nullopt for "running", for "-1 ..." (blocked outside a system
/// call: a page fault, a stop), and for any other text.
std::optional<SystemCall> parse_system_call(std::string_view text);

/// How a call's arguments show what it waits for.
enum class CallKind : uint8_t {
  kRead,  // of a descriptor
  kWrite,
  kAccept,
  kFile,    // another call on a descriptor
  kPoll,    // pollfd array
  kSelect,  // fd_set bitmaps
  kEpoll,
  kFutex,
  kSleep,
  kWait,  // for a child
  kOther,
};

struct CallInfo {
  int64_t number = 0;
  std::string_view name;
  CallKind kind = CallKind::kOther;
};

/// nullopt for a call that is not in the table.
std::optional<CallInfo> call_info(int64_t number);

/// "read", or "system call 333".
std::string call_name(int64_t number);

}  // namespace stalltrace::stacks
