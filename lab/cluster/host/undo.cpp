// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/host/undo.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "base/text.h"
#include "lab/cluster/host/command.h"
#include "lab/cluster/host/process.h"

namespace stalltrace::lab {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"command", "remove_file", "kill", "continue", "affinity"};

struct ProcessRef {
  int pid = 0;
  bool alive = false;  // it still is the same process
};

ProcessRef process_of(const UndoAction& action) {
  if (action.arguments.size() < 2) {
    return {};
  }
  const int pid = static_cast<int>(parse_integer(action.arguments[0]).value_or(0));
  const auto start = process_start_time(pid);
  return {pid, start && std::to_string(*start) == action.arguments[1]};
}

Status kill_and_reap(int pid) {
  constexpr auto kLimit = std::chrono::seconds(5);
  if (::kill(pid, SIGKILL) != 0 && errno != ESRCH) {
    return fail_errno(fmt::format("kill process {}", pid), errno);
  }
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  while (std::chrono::steady_clock::now() < deadline) {
    if (::waitpid(pid, nullptr, WNOHANG) == pid || !process_start_time(pid)) {
      return {};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return fail(fmt::format("process {} does not end", pid));
}

/// Frees all threads of the process, including later ones, which inherited the binding.
Status free_cpus(int pid, std::span<const std::string> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const std::string& cpu : cpus) {
    CPU_SET(static_cast<size_t>(parse_integer(cpu).value_or(0)), &set);
  }
  for (const int tid : threads_of(pid)) {
    if (::sched_setaffinity(tid, sizeof set, &set) != 0 && errno != ESRCH) {
      return fail_errno(fmt::format("free the CPUs of thread {}", tid), errno);
    }
  }
  return {};
}

Status perform(const UndoAction& action) {
  switch (action.kind) {
    case UndoKind::kCommand: {
      const auto output = run_command(action.arguments);
      return output ? Status() : std::unexpected(output.error());
    }
    case UndoKind::kRemoveFile:
      if (::unlink(action.arguments.at(0).c_str()) != 0 && errno != ENOENT) {
        return fail_errno("remove " + action.arguments[0], errno);
      }
      return {};
    case UndoKind::kKill:
    case UndoKind::kContinue:
    case UndoKind::kAffinity:
      break;
  }
  const ProcessRef process = process_of(action);
  if (!process.alive) {
    return {};
  }
  if (action.kind == UndoKind::kKill) {
    return kill_and_reap(process.pid);
  }
  if (action.kind == UndoKind::kAffinity) {
    return free_cpus(process.pid, std::span(action.arguments).subspan(2));
  }
  if (::kill(process.pid, SIGCONT) != 0 && errno != ESRCH) {
    return fail_errno(fmt::format("continue process {}", process.pid), errno);
  }
  return {};
}

}  // namespace

std::string_view to_text(UndoKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::optional<UndoKind> undo_kind_from_text(std::string_view text) {
  const auto found = std::ranges::find(kNames, text);
  if (found == kNames.end()) {
    return std::nullopt;
  }
  return static_cast<UndoKind>(found - kNames.begin());
}

UndoAction undo_for_process(UndoKind kind, int pid) {
  return {kind, {std::to_string(pid), std::to_string(process_start_time(pid).value_or(0))}};
}

Status undo_all(std::span<const UndoAction> actions) {
  Status first;
  for (auto action = actions.rbegin(); action != actions.rend(); ++action) {
    if (auto status = perform(*action); !status && first) {
      first = std::move(status);
    }
  }
  return first;
}

}  // namespace stalltrace::lab
