// SPDX-License-Identifier: Apache-2.0
#include "base/process/child_setup.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "base/process/command.h"
#include "base/process/descriptors.h"
#include "base/process/resource_limits.h"
#include "base/text.h"

namespace stalltrace {
namespace {

constexpr const char* kShell = "/bin/sh";

constexpr std::array kSteps = {"set the parent-death signal",
                               "leave the process group",
                               "enter the network namespace",
                               "set the CPU affinity",
                               "set the priority",
                               "change the directory",
                               "arrange the descriptors",
                               "execute"};
enum Step { kDeathSignal, kGroup, kNetns, kAffinity, kNice, kDirectory, kDescriptors, kExecute };

Result<UniqueFd> open_file(const std::string& path, int flags, std::string_view what) {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0644));
  if (!fd) {
    return fail_errno(std::string(what) + " " + path, errno);
  }
  return fd;
}

std::vector<std::string> merged_environment(const std::vector<std::string>& changes) {
  std::vector<std::string> merged = changes;
  const auto replaced = [&](std::string_view line) {
    const std::string_view key = line.substr(0, line.find('=') + 1);
    return std::ranges::any_of(changes, [&](const std::string& change) { return change.starts_with(key); });
  };
  for (char** line = environ; line != nullptr && *line != nullptr; ++line) {
    if (!replaced(*line)) {
      merged.emplace_back(*line);
    }
  }
  return merged;
}

Status plan_files(const SpawnOptions& options, ChildPlan& plan) {
  constexpr int kWrite = O_WRONLY | O_CREAT | O_TRUNC;
  const std::array paths = {&options.stdin_path, &options.stdout_path, &options.stderr_path};
  for (size_t i = 0; i < paths.size(); ++i) {
    if (paths[i]->empty()) {
      continue;
    }
    if (i == 2 && *paths[2] == options.stdout_path) {
      plan.standard_fds[2] = plan.standard_fds[1];
      continue;
    }
    ST_ASSIGN(plan.files[i], open_file(*paths[i], i == 0 ? O_RDONLY : kWrite, i == 0 ? "open" : "create"));
    plan.standard_fds[i] = plan.files[i].get();
  }
  return {};
}

void set_signals(const SpawnOptions& options) {
  for (int number = 1; number < NSIG; ++number) {
    const bool ignored = options.signals && ::sigismember(&options.signals->ignored, number) == 1;
    ::signal(number, ignored ? SIG_IGN : SIG_DFL);  // SIGKILL, SIGSTOP and the C library's own are refused: harmless
  }
  sigset_t mask;
  ::sigemptyset(&mask);
  ::sigprocmask(SIG_SETMASK, options.signals ? &options.signals->mask : &mask, nullptr);
}

bool keep_descriptors(const std::vector<int>& kept) {
  return std::ranges::all_of(kept, [](int fd) { return ::fcntl(fd, F_SETFD, 0) == 0; });
}

/// Moves the descriptors to their numbers. Sources are first moved above every wanted number, so that no move
/// overwrites another's source.
bool arrange_descriptors(const SpawnOptions& options, const ChildPlan& plan) {
  int above = 3;  // the highest wanted number
  for (const auto& [source, target] : options.inherited_fds) {
    above = std::max(above, target + 1);
  }
  const auto put = [](int source, int target) { return ::dup2(source, target) == target; };
  close_from_on_exec(3);
  for (int i = 0; i < 3; ++i) {
    if (plan.standard_fds[static_cast<size_t>(i)] >= 0 && !put(plan.standard_fds[static_cast<size_t>(i)], i)) {
      return false;
    }
  }
  int lifted[16];
  if (options.inherited_fds.size() > std::size(lifted)) {
    errno = EMFILE;
    return false;
  }
  for (size_t i = 0; i < options.inherited_fds.size(); ++i) {
    lifted[i] = ::fcntl(options.inherited_fds[i].first, F_DUPFD_CLOEXEC, above);
    if (lifted[i] < 0) {
      return false;
    }
  }
  for (size_t i = 0; i < options.inherited_fds.size(); ++i) {
    if (!put(lifted[i], options.inherited_fds[i].second)) {
      return false;
    }
  }
  return true;
}

/// Runs between fork and exec; returns the step that failed, with errno set.
Step become_program(const SpawnOptions& options, const ChildPlan& plan) {
  if (options.parent_death_signal != 0) {
    if (::prctl(PR_SET_PDEATHSIG, options.parent_death_signal) != 0) {
      return kDeathSignal;
    }
    if (::getppid() != plan.parent) {
      ::_exit(127);  // the parent ended before the death signal was set
    }
  }
  if (options.own_process_group && ::setpgid(0, 0) != 0) {
    return kGroup;
  }
  if (plan.netns && ::setns(plan.netns.get(), CLONE_NEWNET) != 0) {
    return kNetns;
  }
  if (!options.cpus.empty() && ::sched_setaffinity(0, sizeof plan.cpus, &plan.cpus) != 0) {
    return kAffinity;
  }
  if (options.nice != 0 && ::setpriority(PRIO_PROCESS, 0, options.nice) != 0) {
    return kNice;
  }
  if (!options.working_directory.empty() && ::chdir(options.working_directory.c_str()) != 0) {
    return kDirectory;
  }
  if (!arrange_descriptors(options, plan) || !keep_descriptors(options.kept_fds)) {
    return kDescriptors;
  }
  set_signals(options);
  restore_limits();
  ::execve(plan.program.c_str(), plan.argv.data(), plan.envp.data());
  if (errno == ENOEXEC) {
    ::execve(kShell, plan.shell_argv.data(), plan.envp.data());
  }
  return kExecute;
}

}  // namespace

Result<ChildPlan> make_plan(const SpawnOptions& options) {
  ChildPlan plan;
  if (options.argv.empty()) {
    return fail("no program given", {}, ErrorKind::kUsage);
  }
  ST_ASSIGN(plan.program, find_program(options.argv[0]));
  for (const std::string& argument : options.argv) {
    plan.argv.push_back(const_cast<char*>(argument.c_str()));
  }
  plan.argv.push_back(nullptr);
  plan.shell_argv = {const_cast<char*>(kShell), plan.program.data()};
  plan.shell_argv.insert(plan.shell_argv.end(), plan.argv.begin() + 1, plan.argv.end());
  plan.environment = merged_environment(options.environment);
  for (std::string& line : plan.environment) {
    plan.envp.push_back(line.data());
  }
  plan.envp.push_back(nullptr);
  if (!options.netns_path.empty()) {
    ST_ASSIGN(plan.netns, open_file(options.netns_path, O_RDONLY, "open network namespace"));
  }
  ST_TRY(plan_files(options, plan));
  CPU_ZERO(&plan.cpus);
  for (const int cpu : options.cpus) {
    CPU_SET(static_cast<size_t>(cpu), &plan.cpus);
  }
  plan.parent = ::getpid();
  return plan;
}

void run_child(const SpawnOptions& options, const ChildPlan& plan, int report_fd) {
  ChildFailure failure;
  failure.step = become_program(options, plan);
  failure.error_number = errno;
  (void)!::write(report_fd, &failure, sizeof failure);
  ::_exit(127);
}

const char* step_text(const ChildFailure& failure) { return kSteps[static_cast<size_t>(failure.step)]; }

}  // namespace stalltrace
