// SPDX-License-Identifier: Apache-2.0
// What a thread is blocked in, as /proc/PID/task/TID/syscall has it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stalltrace::stacks {

/// A system call that a thread is inside of.
struct SystemCall {
  int64_t number = 0;
  std::array<uint64_t, 6> arguments{};
};

/// One line of proc's file: "202 0x7f.. ...". None for "running", for "-1 ..." (blocked, but in no system call: a page
/// fault, a stop), and for any other text.
std::optional<SystemCall> parse_system_call(std::string_view text);

/// What the first argument or another says about what is waited for.
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

/// None: a call that is in no table here.
std::optional<CallInfo> call_info(int64_t number);

/// "read", or "system call 333".
std::string call_name(int64_t number);

}  // namespace stalltrace::stacks
