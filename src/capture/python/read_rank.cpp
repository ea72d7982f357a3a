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

/// For native frames, and as much again for their names.
constexpr int64_t kNativeNs = 100 * kNsPerMs;

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

bool has_python_frames(const ThreadStack& thread) { return thread.python && !thread.python->frames.empty(); }

/// The thread that makes the calls, but not a library's own of a Python program: its main thread shows the program's
/// line. Null only for a process without threads.
const ThreadStack* thread_that_matters(const ProcessStacks& process, pid_t caller) {
  const auto found = std::ranges::find(process.threads, caller, &ThreadStack::tid);
  const bool matters = found != process.threads.end() && (!process.python || has_python_frames(*found));
  return matters ? &*found : main_thread(process);
}

/// Native frames of one thread, in this process, which has given up its rights. Empty where there are none.
std::string native_frames(const Procfs& procfs, ProcessStacks& process, pid_t tid, std::string& problem) {
  stacks::NativeStacks reader(procfs, FunctionNameReader::ReadBy::kThisProcess, kNativeNs);
  ProcessStacks* one = &process;
  stacks::read_native_frames(reader, {&one, 1}, [&](const ThreadStack& thread) { return thread.tid == tid; });
  const auto thread = std::ranges::find(process.threads, tid, &ThreadStack::tid);
  if (!thread->native) {
    problem = "it was running, and native frames can only be read of a thread that waits";
    return {};
  }
  problem = thread->native->problem;
  return text_of(thread->native->frames);
}

/// False if it has ended.
bool give_one(const Procfs& procfs, stacks::Descriptors& descriptors, pid_t rank_pid, ThreadToRead wanted,
              const GiveStack& give, bool& waits_for_others) {
  const int64_t begun_ns = monotonic_now_ns();
  auto process = stacks::read_process(procfs, descriptors, wanted.pid, kOptions);
  const ThreadStack* thread = process ? thread_that_matters(*process, wanted.tid) : nullptr;
  if (thread == nullptr) {
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
    std::string problem;
    stack.frames = native_frames(procfs, *process, stack.tid, problem);
    if (stack.problem.empty() && stack.frames.empty()) {
      const bool refused = process->no_python && process->no_python->kind == ErrorKind::kNoPrivilege;
      stack.problem = refused           ? printable(process->no_python->what)
                      : process->python ? "the thread runs no Python code; native frames: " + problem
                                        : problem;
    }
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
