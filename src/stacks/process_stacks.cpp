// SPDX-License-Identifier: Apache-2.0
#include "stacks/process_stacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "base/text.h"

namespace stalltrace::stacks {
namespace {

constexpr size_t kMostListed = 8;  // limit for descriptors of a poll, and for kernel functions of a stack
constexpr size_t kMostPath = 512;
constexpr size_t kFdSetBits = 1024;

/// The kernel's information about a thread's wait, as text.
struct Wait {
  std::string call;
  std::string wchan;

  /// Compares what is waited for: a wait with a time limit restarts repeatedly, with other arguments after the first.
  bool operator==(const Wait& other) const { return of_what() == other.of_what() && wchan == other.wchan; }
  [[nodiscard]] std::string_view of_what() const {
    const size_t number = call.find(' ');
    return std::string_view(call).substr(0, number == std::string::npos ? number : call.find(' ', number + 1));
  }
};

Wait wait_of(const Procfs& procfs, pid_t pid, pid_t tid) {
  Wait wait{procfs.thread_file(pid, tid, "syscall"), procfs.thread_file(pid, tid, "wchan")};
  wait.wchan = wait.wchan == "0" ? "" : wait.wchan;
  return wait;
}

/// "[<0>] pipe_read+0x1e/0x40" → "pipe_read"
std::vector<std::string> kernel_stack(const Procfs& procfs, pid_t pid, pid_t tid) {
  std::vector<std::string> functions;
  const std::string text = procfs.thread_file(pid, tid, "stack");
  for (std::string_view line : split(text, '\n')) {
    line = line.substr(std::min(line.size(), line.find("] ") == std::string_view::npos ? 0 : line.find("] ") + 2));
    line = trim(line.substr(0, line.find('+')));
    if (!line.empty() && functions.size() < kMostListed) {
      functions.emplace_back(line);
    }
  }
  return functions;
}

class WaitReader {
 public:
  WaitReader(const Procfs& procfs, Descriptors& descriptors, pid_t pid, Memory* memory)
      : procfs_(procfs), descriptors_(descriptors), pid_(pid), memory_(memory) {}

  Blocked read(pid_t tid, const Wait& wait, std::span<const PythonThreads::Range> gils) {
    Blocked blocked{.call = parse_system_call(wait.call), .wchan = wait.wchan};
    blocked.kernel_stack = kernel_stack(procfs_, pid_, tid);
    const auto info = blocked.call ? call_info(blocked.call->number) : std::nullopt;
    if (!info) {
      return blocked;
    }
    const auto& arguments = blocked.call->arguments;
    switch (info->kind) {
      case CallKind::kRead:
      case CallKind::kWrite:
      case CallKind::kAccept:
      case CallKind::kFile:
        add(blocked, static_cast<int>(arguments[0]));
        break;
      case CallKind::kEpoll:
        for (const int number : descriptors_.watched_by(pid_, static_cast<int>(arguments[0]), kMostDescriptors)) {
          add(blocked, number);
        }
        break;
      case CallKind::kPoll:
        add_polled(blocked, arguments[0], arguments[1]);
        break;
      case CallKind::kSelect:
        add_selected(blocked, arguments);
        break;
      case CallKind::kFutex:
        blocked.for_gil = std::ranges::any_of(
            gils, [&](const PythonThreads::Range& gil) { return arguments[0] >= gil.begin && arguments[0] < gil.end; });
        break;
      case CallKind::kOther:
        blocked.path = path_of(*info, arguments);
        break;
      case CallKind::kSleep:
      case CallKind::kWait:
        break;
    }
    return blocked;
  }

 private:
  static constexpr size_t kMostDescriptors = 1024;

  void add(Blocked& blocked, int number) {
    if (blocked.descriptors.size() >= kMostListed) {
      ++blocked.more_descriptors;
      return;
    }
    if (auto descriptor = descriptors_.at(pid_, number)) {
      if (descriptor->kind == DescriptorKind::kFile && descriptors_.is_named_fifo(pid_, number)) {
        descriptor->kind = DescriptorKind::kPipe;
        descriptor->other_end = descriptor->link;
      }
      blocked.descriptors.push_back(std::move(*descriptor));
    }
  }

  template <typename T>
  bool read_memory(uint64_t address, std::span<T> into) {
    return memory_ != nullptr && address != 0 && memory_->read(address, std::as_writable_bytes(into));
  }

  void add_polled(Blocked& blocked, uint64_t address, uint64_t count) {
    struct Polled {
      int32_t fd;
      int16_t events;
      int16_t revents;
    };
    std::vector<Polled> polled(std::min<uint64_t>(count, kMostDescriptors));
    if (!read_memory(address, std::span(polled))) {
      return;
    }
    for (const Polled& one : polled) {
      if (one.fd >= 0) {
        add(blocked, one.fd);
      }
    }
  }

  void add_selected(Blocked& blocked, const std::array<uint64_t, 6>& arguments) {
    std::array<uint64_t, kFdSetBits / 64> all{};
    const uint64_t bits = std::min<uint64_t>(arguments[0], kFdSetBits);
    for (size_t set = 1; set <= 3; ++set) {
      std::array<uint64_t, kFdSetBits / 64> bitmap{};
      // The process's set may be shorter than 1024 bits, and end at the end of its memory.
      const std::span words = std::span(bitmap).first((bits + 63) / 64);
      if (read_memory(arguments[set], words)) {
        for (size_t i = 0; i < words.size(); ++i) {
          all[i] |= words[i];
        }
      }
    }
    for (size_t i = 0; i < bits; ++i) {
      if ((all[i / 64] >> (i % 64) & 1U) != 0) {
        add(blocked, static_cast<int>(i));
      }
    }
  }

  std::string path_of(const CallInfo& info, const std::array<uint64_t, 6>& arguments) {
    const bool second = info.name == "openat" || info.name == "statx";
    if (!second && info.name != "open" && info.name != "stat" && info.name != "lstat") {
      return {};
    }
    std::string path;
    uint64_t at = arguments[second ? 1 : 0];
    for (char byte = 0; path.size() < kMostPath && read_memory(at, std::span(&byte, 1)) && byte != '\0'; ++at) {
      path += byte;
    }
    return path;
  }

  const Procfs& procfs_;
  Descriptors& descriptors_;
  pid_t pid_;
  Memory* memory_;
};

std::unexpected<Error> gone(pid_t pid) {
  return fail(fmt::format("process {} has ended", pid), "name one that runs", ErrorKind::kNotFound);
}

/// Reads a process, without the peers of its descriptors.
Result<ProcessStacks> read_one(const Procfs& procfs, Descriptors& descriptors, pid_t pid, const ReadOptions& options) {
  const uint64_t started = procfs.start_ticks(pid);
  if (started == 0) {
    return fail(fmt::format("there is no process {}", pid), "list them with ps -e", ErrorKind::kNotFound);
  }
  ProcessStacks process{.pid = pid, .command = procfs.command_line(pid)};
  const std::vector<pid_t> tids = procfs.threads(pid);
  std::map<pid_t, Wait> waits;
  for (const pid_t tid : tids) {
    waits[tid] = wait_of(procfs, pid, tid);
  }

  PythonThreads python;
  auto memory = ProcessMemory::open(procfs, pid);
  std::map<pid_t, pid_t> here;  // numbers in the process's namespace → numbers here
  if (auto program = find_python(procfs, pid); !program) {
    process.no_python = program.error();
  } else if (!memory) {
    process.no_python = memory.error();
  } else {
    here = procfs.inner_threads(pid);
    std::vector<pid_t> inner;
    for (const auto& [number, ours] : here) {
      inner.push_back(number);
    }
    auto threads = read_python_threads(*memory, *program, inner, procfs.inner_pid(pid), options.bounds);
    process.python = std::move(*program);
    if (threads) {
      python = std::move(*threads);
    } else {
      process.no_python = with_context(fmt::format("process {}", pid), threads.error()).error();
    }
  }
  if (!python.problem.empty()) {
    process.notes.push_back(python.problem);
  }

  std::map<pid_t, PythonThread> by_tid;
  for (PythonThread& thread : python.threads) {
    const auto ours = here.find(thread.tid);
    if (thread.tid == 0 || ours == here.end() || by_tid.contains(ours->second)) {
      thread.tid = 0;
      if (!thread.frames.empty() || !thread.problem.empty()) {  // otherwise it is about to start
        process.unnumbered.push_back(std::move(thread));
      }
    } else {
      thread.tid = ours->second;
      by_tid.emplace(ours->second, std::move(thread));
    }
  }
  WaitReader waiting(procfs, descriptors, pid, memory ? &*memory : nullptr);
  for (const pid_t tid : tids) {
    ThreadStack thread{.tid = tid, .name = procfs.thread_name(pid, tid)};
    std::string times = procfs.thread_file(pid, tid, "schedstat");
    const Wait wait = wait_of(procfs, pid, tid);
    thread.state = procfs.thread_state(pid, tid);
    if (thread.state == '\0') {
      continue;  // it ended in the meantime
    }
    const bool running = wait.call == "running" || (wait.call.empty() && thread.state == 'R');
    if (!running && wait == waits[tid]) {
      thread.blocked = waiting.read(tid, wait, python.gils);
      thread.blocked->times = std::move(times);
    }
    if (const auto found = by_tid.find(tid); found != by_tid.end()) {
      thread.python = std::move(found->second);
    }
    process.threads.push_back(std::move(thread));
  }
  const bool zombie =
      std::ranges::all_of(process.threads, [](const ThreadStack& thread) { return thread.state == 'Z'; });
  if (procfs.start_ticks(pid) != started || zombie) {
    return gone(pid);
  }
  std::stable_partition(process.threads.begin(), process.threads.end(),
                        [&](const ThreadStack& thread) { return thread.tid == pid; });
  return process;
}

void find_peers(Descriptors& descriptors, std::span<ProcessStacks* const> processes, int64_t most_ns) {
  std::vector<Descriptor*> wanted;
  std::vector<pid_t> pids;
  for (ProcessStacks* process : processes) {
    for (ThreadStack& thread : process->threads) {
      const bool waits = thread.blocked.has_value();
      for (size_t i = 0; waits && i < thread.blocked->descriptors.size(); ++i) {
        wanted.push_back(&thread.blocked->descriptors[i]);
        pids.push_back(process->pid);
      }
    }
  }
  descriptors.find_peers(wanted, pids, most_ns);
}

void read_native(const Procfs& procfs, std::span<ProcessStacks* const> processes, int64_t most_ns) {
  NativeStacks reader(procfs, FunctionNameReader::ReadBy::kChild, most_ns);
  read_native_frames(reader, processes, [](const ThreadStack&) { return true; });
}

}  // namespace

void read_native_frames(NativeStacks& reader, std::span<ProcessStacks* const> processes,
                        const std::function<bool(const ThreadStack&)>& wanted) {
  std::vector<ThreadStack*> threads;
  for (ProcessStacks* process : processes) {
    std::vector<NativeStacks::Wanted> asked;
    for (ThreadStack& thread : process->threads) {
      if (thread.blocked && wanted(thread)) {
        const auto& call = thread.blocked->call;
        asked.push_back({.tid = thread.tid,
                         .call = call ? std::optional(call->number) : std::nullopt,
                         .argument = call ? std::optional(call->arguments[0]) : std::nullopt,
                         .times = thread.blocked->times});
        threads.push_back(&thread);
      }
    }
    reader.read(process->pid, asked);
  }
  std::vector<NativeStack> stacks = reader.take();
  for (size_t i = 0; i < threads.size() && i < stacks.size(); ++i) {
    threads[i]->native = std::move(stacks[i]);
  }
}

Result<ProcessStacks> read_process(const Procfs& procfs, Descriptors& descriptors, pid_t pid,
                                   const ReadOptions& options) {
  auto process = read_one(procfs, descriptors, pid, options);
  if (!process) {
    return process;
  }
  ProcessStacks* one = &*process;
  if (options.native) {
    read_native(procfs, {&one, 1}, options.native_ns);
  }
  if (options.peers) {
    find_peers(descriptors, {&one, 1}, options.peer_search_ns);
  }
  return process;
}

std::vector<Result<ProcessStacks>> read_processes(const Procfs& procfs, std::span<const pid_t> pids,
                                                  const ReadOptions& options) {
  Descriptors descriptors(procfs);
  std::vector<Result<ProcessStacks>> results;
  for (const pid_t pid : pids) {
    results.push_back(read_one(procfs, descriptors, pid, options));
  }
  std::vector<ProcessStacks*> read;
  for (Result<ProcessStacks>& result : results) {
    if (result) {
      read.push_back(&*result);
    }
  }
  if (options.native) {
    read_native(procfs, read, options.native_ns);
  }
  if (options.peers) {
    find_peers(descriptors, read, options.peer_search_ns);
  }
  return results;
}

const ThreadStack* main_thread(const ProcessStacks& process) {
  return process.threads.empty() ? nullptr : &process.threads.front();
}

}  // namespace stalltrace::stacks
