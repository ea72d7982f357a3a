// SPDX-License-Identifier: Apache-2.0
#include "stacks/native/native_frames.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "stacks/blocked/system_calls.h"
#include "stacks/native/blocked_stack.h"
#include "stacks/native/code_map.h"
#include "stacks/native/perf_map.h"
#include "stacks/native/unwinder.h"

namespace stalltrace::stacks {
namespace {

constexpr uint64_t kMostTableBytes = 32U << 20;    // of one process
constexpr uint64_t kMostOfAStackBytes = 1U << 20;  // of one thread
constexpr int kMostTries = 3;
constexpr std::string_view kKernelCode = "[vdso]";

/// What changes when a thread runs.
struct Moment {
  std::string call;
  std::string times;

  bool operator==(const Moment&) const = default;
  [[nodiscard]] bool is_wait_of(const NativeStacks::Wanted& thread) const {
    const auto now = parse_system_call(call);
    return (now ? std::optional(now->number) : std::nullopt) == thread.call &&
           (!thread.argument || (now && now->arguments[0] == *thread.argument)) &&
           (!thread.times || times == *thread.times);
  }
};

Moment moment_of(const Procfs& procfs, pid_t pid, pid_t tid) {
  return {procfs.thread_file(pid, tid, "syscall"), procfs.thread_file(pid, tid, "schedstat")};
}

}  // namespace

NativeStacks::NativeStacks(const Procfs& procfs, FunctionNameReader::ReadBy read_by, int64_t most_ns)
    : procfs_(procfs), mounts_(procfs), functions_(procfs, read_by), most_ns_(most_ns), begun_ns_(monotonic_now_ns()) {}

void NativeStacks::read(pid_t pid, const std::vector<Wanted>& threads) {
  const size_t first = stacks_.size();
  auto memory = ProcessMemory::open(procfs_, pid);
  auto map = CodeMap::read(procfs_, pid);
  if (!memory || !map) {
    const std::string problem = memory ? map.error().what : memory.error().what;
    stacks_.resize(first + threads.size(), {.pid = pid, .frames = {}, .whole = false, .problem = problem});
    return;
  }
  const int64_t left_ns = begun_ns_ + most_ns_ - monotonic_now_ns();
  BoundedMemory code(*memory, {.most_bytes = kMostTableBytes, .most_ns = left_ns});
  UnwindTables tables(code);
  for (const Wanted& thread : threads) {
    Read& read = stacks_.emplace_back(Read{.pid = pid, .frames = {}, .whole = false, .problem = std::string(kItRan)});
    for (int i = 0; i < kMostTries && read.frames.empty(); ++i) {
      const int64_t thread_ns = begun_ns_ + most_ns_ - monotonic_now_ns();
      if (thread_ns <= 0) {
        read.problem = "there was no time left to read its native frames";
        break;
      }
      const Moment before = moment_of(procfs_, pid, thread.tid);
      const auto registers = parse_registers(before.call);
      if (before.call.empty()) {
        read.problem = "the kernel does not show its registers";
        break;
      }
      if (!registers || !before.is_wait_of(thread)) {
        continue;
      }
      BoundedMemory stack(*memory, {.most_bytes = kMostOfAStackBytes, .most_ns = thread_ns});
      const Unwound unwound = unwind(*registers, *map, stack, code, tables);
      if (unwound.frames.empty()) {
        read.problem = "it is in no mapped code";
        break;
      }
      if (moment_of(procfs_, pid, thread.tid) != before) {
        continue;
      }
      read.whole = unwound.whole;
      read.problem.clear();
      for (const CodeAddress& frame : unwound.frames) {
        const CodeRegion& region = *frame.region;
        const bool in_file = region.mapping.inode != 0;
        Frame& one = read.frames.emplace_back(Frame{
            .file = region.mapping, .address = in_file ? region.offset_of(frame.address) : frame.address, .name = {}});
        if (in_file) {
          functions_.want(pid, region.mapping, one.address);
        }
      }
    }
  }
  name_made_code(pid, first);
}

/// Names the frames in no file, of the stacks from `first` on.
void NativeStacks::name_made_code(pid_t pid, size_t first) {
  std::vector<uint64_t> addresses;
  for (size_t i = first; i < stacks_.size(); ++i) {
    for (const Frame& frame : stacks_[i].frames) {
      if (frame.file.inode == 0 && frame.file.path != kKernelCode) {
        addresses.push_back(frame.address);
      }
    }
  }
  if (addresses.empty()) {
    return;
  }
  const int64_t until_ns = begun_ns_ + most_ns_;
  const std::string map = read_perf_map(procfs_, mounts_, pid, until_ns);
  const auto names = names_in_perf_map(map, addresses, until_ns - monotonic_now_ns());
  for (size_t i = first; names && i < stacks_.size(); ++i) {
    for (Frame& frame : stacks_[i].frames) {
      const auto name = names->find(frame.address);
      if (frame.file.inode == 0 && name != names->end()) {
        frame.name = name->second;
      }
    }
  }
}

std::vector<NativeStack> NativeStacks::take() {
  functions_.look_up(most_ns_);
  std::vector<NativeStack> result;
  for (Read& read : std::exchange(stacks_, {})) {
    NativeStack& stack =
        result.emplace_back(NativeStack{.frames = {}, .whole = read.whole, .problem = printable(read.problem)});
    for (const Frame& frame : read.frames) {
      PythonFrame named{.function = frame.name, .file = frame.file.path, .line = {}, .native = true};
      if (frame.file.inode != 0) {
        named.function = functions_.at(frame.file, frame.address);
        if (named.function.empty()) {
          named.function = fmt::format("+{:#x}", frame.address);
        }
      } else if (frame.file.path != kKernelCode) {
        named.file = kJitFile;
      }
      if (named.function.empty()) {
        named.function = kUnnamedCode;
      }
      stack.frames.push_back(std::move(named));
    }
  }
  return result;
}

}  // namespace stalltrace::stacks
