// SPDX-License-Identifier: Apache-2.0
// Where every thread of another process is: its Python frames, and what it is blocked in. Read from outside, through
// /proc alone: the process is not stopped, nothing is written to it, and it may be hostile. Takes some milliseconds for
// a process with a hundred threads, and never more than BoundedMemory::Bounds and the bounds in descriptors.cpp allow.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/process/procfs.h"
#include "base/result.h"
#include "stacks/blocked/descriptors.h"
#include "stacks/blocked/system_calls.h"
#include "stacks/python/python_threads.h"

namespace stalltrace::stacks {

/// What a thread waits for in the kernel. It was the same before and after its frames were read.
struct Blocked {
  std::optional<SystemCall> call;       // none: in no system call (a page fault, a stop)
  std::vector<Descriptor> descriptors;  // those that it waits for; of many the first
  size_t more_descriptors = 0;
  std::string path;                       // of an open
  bool for_gil = false;                   // the interpreter's global lock
  std::string wchan;                      // the kernel's function; empty: not readable
  std::vector<std::string> kernel_stack;  // innermost first, without offsets; empty: not readable
};

struct ThreadStack {
  pid_t tid = 0;
  std::string name;
  char state = '?';                    // as in proc(5)
  std::optional<Blocked> blocked;      // none: it runs, or went on while it was read
  std::optional<PythonThread> python;  // none: the interpreter doesn't know the thread
};

struct ProcessStacks {
  pid_t pid = 0;
  std::string command;                  // its command line
  std::optional<PythonProgram> python;  // none: `no_python` says why
  std::optional<Error> no_python;
  std::vector<ThreadStack> threads;      // by number, the main thread first
  std::vector<PythonThread> unnumbered;  // Python threads whose number is not known
  std::vector<std::string> notes;        // what may be missing, and why
};

struct ReadOptions {
  bool peers = true;  // look for the other ends of pipes and connections in all processes of the host
  int64_t peer_search_ns = Descriptors::kPeerSearchNs;  // at most
  BoundedMemory::Bounds bounds{};
};

/// Errors: kNotFound (no such process, or it ended), kNoPrivilege (not even its state may be read). That it is not
/// Python, or its frames can't be read, is `no_python`.
Result<ProcessStacks> read_process(const Procfs& procfs, Descriptors& descriptors, pid_t pid,
                                   const ReadOptions& options = {});

/// The same for several, with one search for peers; one result for each.
std::vector<Result<ProcessStacks>> read_processes(const Procfs& procfs, std::span<const pid_t> pids,
                                                  const ReadOptions& options = {});

/// The thread that runs the program: the main one. Null only for a process without threads.
const ThreadStack* main_thread(const ProcessStacks& process);

}  // namespace stalltrace::stacks
