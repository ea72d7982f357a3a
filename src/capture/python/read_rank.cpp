// SPDX-License-Identifier: Apache-2.0
// The helper process's reading of one rank. It may block or fail: see StackReader.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/python_frames.h"
#include "base/text.h"
#include "base/untrusted/function_name_reader.h"
#include "capture/python/stack_reader.h"
#include "stacks/blocked/system_calls.h"
#include "stacks/native/native_frames.h"
#include "stacks/output/describe.h"
#include "stacks/process_stacks.h"

namespace stalltrace::capture {
namespace {

using stacks::ProcessStacks;
using stacks::ThreadStack;

constexpr size_t kInnermost = 56;  // frames kept of a deep stack ...
constexpr size_t kOutermost = 8;

/// Below StackReader's deadline as long as the process itself answers.
constexpr stacks::ReadOptions kOptions{
    .peers = true, .peer_search_ns = 100 * kNsPerMs, .bounds = {.most_ns = 200 * kNsPerMs}};

/// For native frames, and as much again for their names: all together stay below the deadline.
constexpr int64_t kNativeNs = 50 * kNsPerMs;
static_assert(kOptions.bounds.most_ns + kOptions.peer_search_ns + 2 * kNativeNs < kStackOfProcessNs);

std::string text_of(std::vector<PythonFrame> frames) {
  if (frames.size() > kInnermost + kOutermost) {
    frames.erase(frames.begin() + kInnermost, frames.end() - kOutermost);
  }
  return frames_to_text(frames);
}

/// "waiting for the GIL, which thread "loader" has in work (data.py:9)"
std::string activity_of(const ProcessStacks& process, const ThreadStack& thread) {
  const std::string activity = stacks::describe_activity(thread);
  if (!thread.blocked || !thread.blocked->for_gil) {
    return activity;
  }
  const auto holder = std::ranges::find_if(process.threads, [](const ThreadStack& other) {
    return other.python && other.python->holds_gil.value_or(false) && !other.python->frames.empty();
  });
  return holder == process.threads.end() || holder->tid == thread.tid
             ? activity
             : fmt::format("{}, which thread \"{}\" has in {}", activity, printable(holder->name),
                           brief_text(*location_in(holder->python->frames).own));
}

bool is_refused(const ProcessStacks& process) {
  return process.no_python && process.no_python->kind == ErrorKind::kNoPrivilege;
}

bool has_python_frames(const ThreadStack& thread) { return thread.python && !thread.python->frames.empty(); }

/// In join(), or in a lock or condition that another thread has; of native code any futex.
bool waits_for_a_thread(const ThreadStack& thread) {
  if (has_python_frames(thread)) {
    return thread.python->frames.front().file.ends_with("/threading.py");
  }
  const auto info =
      thread.blocked && thread.blocked->call ? stacks::call_info(thread.blocked->call->number) : std::nullopt;
  return info && info->kind == stacks::CallKind::kFutex;
}

/// The main thread, which shows the program's line, unless it waits for others: then the thread that makes the calls,
/// but not while that has nothing to do, and not a library's own of a Python program. Null only for a process without
/// threads.
const ThreadStack* thread_that_matters(const ProcessStacks& process, pid_t caller) {
  const ThreadStack* main = main_thread(process);
  const auto found = std::ranges::find(process.threads, caller, &ThreadStack::tid);
  const bool matters = found != process.threads.end() && (!process.python || has_python_frames(*found)) &&
                       main != nullptr && waits_for_a_thread(*main) && !waits_for_a_thread(*found);
  return matters ? &*found : main;
}

/// Adds native frames, read in this process, which has given up its rights, or the reason why there are none. Of a
/// process that is not Python, a running thread is no problem: nothing is missing.
void add_native_frames(const Procfs& procfs, ProcessStacks& process, ReadStack& stack) {
  stacks::NativeStacks reader(procfs, FunctionNameReader::ReadBy::kThisProcess, kNativeNs);
  ProcessStacks* one = &process;
  stacks::read_native_frames(reader, {&one, 1}, [&](const ThreadStack& thread) { return thread.tid == stack.tid; });
  const auto thread = std::ranges::find(process.threads, stack.tid, &ThreadStack::tid);
  const std::string problem = thread->native ? thread->native->problem : std::string(stacks::kItRan);
  stack.frames = thread->native ? text_of(thread->native->frames) : "";
  if (!stack.problem.empty() || !stack.frames.empty()) {
    return;
  }
  if (is_refused(process)) {
    stack.problem = printable(process.no_python->what);
  } else if (process.python) {
    stack.problem = "the thread runs no Python code; native frames: " + problem;
  } else if (!thread->native) {
    stack.activity = "running";
  } else {
    stack.problem = problem;
  }
}

/// False if it has ended, or is a descendant that is not Python.
bool give_one(const Procfs& procfs, stacks::Descriptors& descriptors, pid_t rank_pid, ThreadToRead wanted,
              const GiveStack& give, bool& waits_for_others) {
  const int64_t begun_ns = monotonic_now_ns();
  auto process = stacks::read_process(procfs, descriptors, wanted.pid, kOptions);
  const ThreadStack* thread = process ? thread_that_matters(*process, wanted.tid) : nullptr;
  if (thread == nullptr || (wanted.pid != rank_pid && !process->python && !is_refused(*process))) {
    return false;
  }
  ReadStack stack{.rank_pid = rank_pid, .pid = wanted.pid, .tid = thread->tid, .begun_ns = begun_ns};
  stack.state = printable(std::string_view(&thread->state, 1));
  stack.activity = activity_of(*process, *thread);
  if (thread->python) {
    stack.collecting = thread->python->collecting;
    stack.frames = text_of(thread->python->frames);
    waits_for_others = thread->state != 'R' && waits_for_workers(thread->python->frames);
    stack.problem = printable(thread->python->problem);
  }
  if (stack.frames.empty()) {
    add_native_frames(procfs, *process, stack);
  }
  stack.took_ns = monotonic_now_ns() - begun_ns;
  give(stack);
  return true;
}

std::vector<pid_t> descendants(const Procfs& procfs, pid_t pid) {
  std::multimap<pid_t, pid_t> children;
  for (const pid_t one : procfs.pids()) {
    children.emplace(procfs.parent(one), one);
  }
  std::vector<pid_t> found{pid};
  std::set<pid_t> seen{pid};
  for (size_t i = 0; i < found.size(); ++i) {
    const auto [first, last] = children.equal_range(found[i]);
    for (auto child = first; child != last; ++child) {
      if (seen.insert(child->second).second) {
        found.push_back(child->second);
      }
    }
  }
  found.erase(found.begin());
  return found;
}

}  // namespace

void read_rank(ThreadToRead thread, const GiveStack& give) {
  const Procfs procfs;
  stacks::Descriptors descriptors(procfs);
  bool waits_for_others = false;
  if (!give_one(procfs, descriptors, thread.pid, thread, give, waits_for_others) || !waits_for_others) {
    return;
  }
  size_t given = 0;
  for (const pid_t child : descendants(procfs, thread.pid)) {
    bool ignored = false;
    if (given < kMostChildren && stacks::may_be_python(procfs, child) &&
        give_one(procfs, descriptors, thread.pid, {.pid = child}, give, ignored)) {
      ++given;
    }
  }
}

}  // namespace stalltrace::capture
