// SPDX-License-Identifier: Apache-2.0
// Where every thread of another process is: its Python and native frames, and the system call it is blocked in. Reads
// only through /proc, from outside: the process is not stopped, nothing is written to it, and it may be hostile. Takes
// some milliseconds for a process with a hundred threads, and never more than BoundedMemory::Bounds and the limits in
// descriptors.cpp allow.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/process/procfs.h"
#include "base/result.h"
#include "stacks/blocked/descriptors.h"
#include "stacks/blocked/system_calls.h"
#include "stacks/native/native_frames.h"
#include "stacks/python/python_threads.h"

namespace stalltrace::stacks {

/// A thread's wait in the kernel, equal before and after its frames were read.
struct Blocked {
  std::optional<SystemCall> call;       // nullopt: outside a system call (a page fault, a stop)
  std::vector<Descriptor> descriptors;  // those that it waits for, up to a limit
  size_t more_descriptors = 0;
  std::string path;                       // for an open
  bool for_gil = false;                   // it waits for the interpreter's global lock
  std::string wchan;                      // the kernel's function; empty: not readable
  std::vector<std::string> kernel_stack;  // innermost first, without offsets; empty: not readable
  std::string times;                      // the thread's schedstat, which changes when it runs
};

struct ThreadStack {
  pid_t tid = 0;
  std::string name;
  char state = '?';                    // as in proc(5)
  std::optional<Blocked> blocked;      // nullopt: it runs, or continued while it was read
  std::optional<PythonThread> python;  // nullopt: the interpreter doesn't know the thread
  std::optional<NativeStack> native;   // nullopt: it runs, or native frames were not asked for
};

struct ProcessStacks {
  pid_t pid = 0;
  std::string command;                  // its command line
  std::optional<PythonProgram> python;  // nullopt: `no_python` has the reason
  std::optional<Error> no_python;
  std::vector<ThreadStack> threads;      // by number, the main thread first
  std::vector<PythonThread> unnumbered;  // Python threads with an unknown number
  std::vector<std::string> notes;        // what may be missing, with the reason
};

struct ReadOptions {
  bool peers = true;  // search all processes of the host for the other ends of pipes and connections
  int64_t peer_search_ns = Descriptors::kPeerSearchNs;  // maximum time of the search
  BoundedMemory::Bounds bounds{};
  bool native = false;                // read native frames too
  int64_t native_ns = 2'000'000'000;  // for those of all processes together; as much again for their names
};

/// Errors: kNotFound (no such process, or it ended), kNoPrivilege (even its state is unreadable). Where it is not
/// Python, or its frames can't be read, `no_python` has the reason.
Result<ProcessStacks> read_process(const Procfs& procfs, Descriptors& descriptors, pid_t pid,
                                   const ReadOptions& options = {});

/// The same for several processes with one search for peers; one result each.
std::vector<Result<ProcessStacks>> read_processes(const Procfs& procfs, std::span<const pid_t> pids,
                                                  const ReadOptions& options = {});

/// Native frames of those of its threads that are blocked or stopped and that are `wanted`.
void read_native_frames(NativeStacks& reader, std::span<ProcessStacks* const> processes,
                        const std::function<bool(const ThreadStack&)>& wanted);

/// The main thread, which runs the program. Null only for a process without threads.
const ThreadStack* main_thread(const ProcessStacks& process);

}  // namespace stalltrace::stacks
