// SPDX-License-Identifier: Apache-2.0
#include "autopsy/host/take_snapshot.h"

#include <fmt/format.h>

#include <algorithm>

#include "autopsy/host/read_communicators.h"
#include "autopsy/native/call_names.h"
#include "autopsy/native/native_calls.h"
#include "autopsy/sockets/namespace_sockets.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "capture/discover/identity.h"
#include "stacks/output/describe.h"
#include "stacks/process_stacks.h"
#include "stacks/rank_stacks.h"

namespace stalltrace::autopsy {
namespace {

using stacks::ProcessStacks;
using stacks::ThreadStack;

constexpr int64_t kSampleNs = kNsPerSecond;  // at most, for the running threads of all ranks together
constexpr size_t kThreadsOfRank = 48;        // native stacks of more are not read

std::optional<int32_t> believed(std::optional<int32_t> number) {
  return number && *number <= kMostRankNumber ? number : std::nullopt;
}

std::optional<int32_t> local_size_of(const Environment& environment) {
  for (const std::string_view name : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) {
    const auto number = parse_integer(value_of(environment, name));
    if (number && *number > 0 && *number <= kMostRankNumber) {
      return static_cast<int32_t>(*number);
    }
  }
  return std::nullopt;
}

pid_t debugger_of(const Procfs& procfs, pid_t pid) {
  const std::string status = read_file(procfs.path(pid, "status"), 8192).value_or("");
  for (const std::string_view line : split(status, '\n')) {
    if (line.starts_with("TracerPid:")) {
      return static_cast<pid_t>(parse_integer(trim(line.substr(10))).value_or(0));
    }
  }
  return 0;
}

/// CPU time of the process in clock ticks: fields utime and stime of proc(5).
uint64_t cpu_ticks_of(const Procfs& procfs, pid_t pid) {
  const std::string stat = read_file(procfs.path(pid, "stat"), 4096).value_or("");
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) {
    return 0;
  }
  const auto fields = split_fields(std::string_view(stat).substr(name_end + 1));
  constexpr size_t kUtime = 11;
  if (fields.size() <= kUtime + 1) {
    return 0;
  }
  return static_cast<uint64_t>(parse_integer(fields[kUtime]).value_or(0) +
                               parse_integer(fields[kUtime + 1]).value_or(0));
}

/// Whether a freezer of its control groups, of either version, holds the process.
bool is_frozen(const Procfs& procfs, pid_t pid) {
  const std::string groups = read_file(procfs.path(pid, "cgroup"), 65'536).value_or("");
  for (const std::string_view line : split(groups, '\n')) {
    const size_t path_at = line.find(':', line.find(':') + 1);
    if (path_at == std::string_view::npos) {
      continue;
    }
    const std::string path(line.substr(path_at + 1));
    if (line.find(":freezer:") != std::string_view::npos &&
        read_file("/sys/fs/cgroup/freezer" + path + "/freezer.state", 64).value_or("").starts_with("FROZEN")) {
      return true;
    }
    for (const std::string_view root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
      const bool unified = line.starts_with("0::");
      const auto events = unified ? read_file(std::string(root) + path + "/cgroup.events", 4096) : fail("");
      if (events && events->find("frozen 1") != std::string::npos) {
        return true;
      }
    }
  }
  return false;
}

RunState run_state_of(const Procfs& procfs, const ProcessStacks& process) {
  const auto all = [&](auto is) { return std::ranges::all_of(process.threads, is); };
  if (process.threads.empty()) {
    return RunState::kAlive;
  }
  if (all([](const ThreadStack& thread) { return thread.state == 'T'; })) {
    return RunState::kStopped;
  }
  if (all([](const ThreadStack& thread) { return thread.state == 'T' || thread.state == 't'; })) {
    return RunState::kDebugged;
  }
  return is_frozen(procfs, process.pid) ? RunState::kFrozen : RunState::kAlive;
}

/// The outermost call of a framework's collective: the one that the program made.
std::optional<OpenCall> python_call(const ThreadStack& thread) {
  if (thread.python) {
    for (auto frame = thread.python->frames.rbegin(); frame != thread.python->frames.rend(); ++frame) {
      if (auto call = call_of_python(short_function(*frame), frame->file)) {
        return call;
      }
    }
  }
  return std::nullopt;
}

/// The main thread is the first, the others are in the order of their numbers.
void keep_threads(RankState& state, const ProcessStacks& process) {
  const size_t kept = std::min(process.threads.size(), kThreadsKept);
  state.threads = std::make_shared<const std::vector<ThreadStack>>(
      process.threads.begin(), process.threads.begin() + static_cast<std::ptrdiff_t>(kept));
  state.threads_left_out = process.threads.size() - kept;
}

void locate(RankState& state, const ThreadStack& thread) {
  state.location = stacks::location_of(thread);
  state.call_site = stacks::call_site_of(thread);
  state.activity = stacks::describe_activity(thread);
}

const RankState* same_process(const Snapshot& before, const RankState& rank) {
  const auto found = std::ranges::find_if(before.ranks, [&](const RankState& other) {
    return other.pid == rank.pid && other.start_ticks == rank.start_ticks;
  });
  return found == before.ranks.end() ? nullptr : &*found;
}

class RankReader {
 public:
  explicit RankReader(const Procfs& procfs) : procfs_(procfs) {}

  void add(RankState& state, const RankToRead& rank, const ProcessStacks& process, size_t index) {
    const ThreadStack* main = stacks::main_thread(process);
    if (main == nullptr) {
      state.problem = "it has no threads";
      return;
    }
    state.run_state = run_state_of(procfs_, process);
    state.debugger = state.run_state == RunState::kDebugged ? debugger_of(procfs_, rank.pid) : 0;
    locate(state, *main);
    for (const ThreadStack& thread : process.threads) {  // the main thread first
      if ((state.call = python_call(thread))) {
        state.call_known = true;
        locate(state, thread);
        return;
      }
    }
    size_t wanted = 0;
    for (const ThreadStack& thread : process.threads) {
      const bool running = !thread.blocked && thread.state == 'R';
      if (thread.tid == rank.pid || (!running && ++wanted < kThreadsOfRank)) {
        threads_.push_back({rank.pid, thread.tid, running});
        of_rank_.push_back(index);
      }
    }
  }

  /// Fills in the calls of native threads; the main thread's comes before others'.
  void finish(std::vector<RankState>& ranks) {
    const std::vector<NativeAnswer> answers = native_calls(procfs_, threads_, kSampleNs);
    for (size_t i = 0; i < answers.size(); ++i) {
      RankState& rank = ranks[of_rank_[i]];
      if (threads_[i].tid == threads_[i].pid) {
        rank.call_known = answers[i].known;
        rank.call_problem = answers[i].problem;
      }
      // Another thread that waits for the device is none of the program's own waits.
      if (answers[i].call) {
        rank.thread_calls.emplace_back(threads_[i].tid, *answers[i].call);
      }
      if (answers[i].call && !rank.call && (threads_[i].tid == threads_[i].pid || answers[i].call->op)) {
        rank.call = answers[i].call;
        rank.call_known = true;
      }
    }
  }

 private:
  const Procfs& procfs_;
  std::vector<NativeThread> threads_;
  std::vector<size_t> of_rank_;  // of each thread: index of its rank
};

}  // namespace

Snapshot take_snapshot(const Procfs& procfs, std::span<const RankToRead> ranks, const Snapshot* before) {
  Snapshot snapshot{.taken_ns = monotonic_now_ns(), .ranks = {}, .host_addresses = {}};
  std::vector<pid_t> pids;
  for (const RankToRead& rank : ranks) {
    pids.push_back(rank.pid);
  }
  const std::vector<Result<ProcessStacks>> processes = stacks::read_processes(procfs, pids);
  NamespaceSockets sockets(procfs);
  RankReader reader(procfs);
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (!processes[i] && processes[i].error().kind == ErrorKind::kNotFound) {
      continue;
    }
    RankState state{.node = ranks[i].node,
                    .pid = ranks[i].pid,
                    .start_ticks = procfs.start_ticks(ranks[i].pid),
                    .job = ranks[i].job,
                    .launcher_job = ranks[i].launcher_job,
                    .rank = believed(ranks[i].rank)};
    if (const auto environment = procfs.environment(ranks[i].pid)) {
      state.world_size = believed(capture::job_identity(*environment).world_size);
      state.local_size = local_size_of(*environment);
    }
    state.cpu_ticks = cpu_ticks_of(procfs, ranks[i].pid);
    if (processes[i]) {
      keep_threads(state, *processes[i]);
      reader.add(state, ranks[i], *processes[i], snapshot.ranks.size());
    } else {
      state.problem = processes[i].error().what;
    }
    if (auto held = sockets.of(ranks[i].pid)) {
      state.sockets = std::move(*held);
    } else {
      state.no_sockets = held.error().what;
    }
    snapshot.ranks.push_back(std::move(state));
  }
  reader.finish(snapshot.ranks);
  for (RankState& rank : snapshot.ranks) {
    read_communicators(procfs, before == nullptr ? nullptr : same_process(*before, rank), rank);
  }
  snapshot.host_addresses = sockets.addresses();
  return snapshot;
}

}  // namespace stalltrace::autopsy
