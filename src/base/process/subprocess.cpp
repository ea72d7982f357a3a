// SPDX-License-Identifier: Apache-2.0
#include "base/process/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/handle.h"
#include "base/process/descriptors.h"
#include "base/process/resource_limits.h"
#include "base/text.h"

namespace stalltrace {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kCaptureLimitBytes = 16U << 20;
constexpr const char* kShell = "/bin/sh";

/// What the child reports to the parent through a close-on-exec pipe when it can't get as far as exec.
struct ChildFailure {
  int step = 0;
  int error_number = 0;
};

constexpr std::array kSteps = {"set the parent-death signal",
                               "leave the process group",
                               "enter the network namespace",
                               "set the CPU affinity",
                               "set the priority",
                               "change the directory",
                               "arrange the descriptors",
                               "execute"};
enum Step { kDeathSignal, kGroup, kNetns, kAffinity, kNice, kDirectory, kDescriptors, kExecute };

/// Everything the child needs, made before fork: after it, only async-signal-safe calls are allowed.
struct ChildPlan {
  std::string program;
  std::vector<char*> argv;
  std::vector<char*> shell_argv;  // the same through the shell
  std::vector<std::string> environment;
  std::vector<char*> envp;
  UniqueFd netns;
  std::array<UniqueFd, 3> files;
  std::array<int, 3> standard_fds = {-1, -1, -1};
  cpu_set_t cpus{};
  pid_t parent = 0;
};

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

void set_signals(const SpawnOptions& options) {
  for (int number = 1; number < NSIG; ++number) {
    const bool ignored = options.signals && ::sigismember(&options.signals->ignored, number) == 1;
    ::signal(number, ignored ? SIG_IGN : SIG_DFL);  // refused for SIGKILL, SIGSTOP and the C library's own: harmless
  }
  sigset_t mask;
  ::sigemptyset(&mask);
  ::sigprocmask(SIG_SETMASK, options.signals ? &options.signals->mask : &mask, nullptr);
}

bool keep_descriptors(const std::vector<int>& kept) {
  return std::ranges::all_of(kept, [](int fd) { return ::fcntl(fd, F_SETFD, 0) == 0; });
}

/// Moves the descriptors to their numbers. Sources are first lifted above every number wanted, so that
/// one move can't overwrite the source of another.
bool arrange_descriptors(const SpawnOptions& options, const ChildPlan& plan) {
  constexpr int kAbove = 512;
  const auto place = [](int source, int target) { return ::dup2(source, target) == target; };
  close_from_on_exec(3);
  for (int i = 0; i < 3; ++i) {
    if (plan.standard_fds[static_cast<size_t>(i)] >= 0 && !place(plan.standard_fds[static_cast<size_t>(i)], i)) {
      return false;
    }
  }
  int lifted[16];
  if (options.inherited_fds.size() > std::size(lifted)) {
    errno = EMFILE;
    return false;
  }
  for (size_t i = 0; i < options.inherited_fds.size(); ++i) {
    lifted[i] = ::fcntl(options.inherited_fds[i].first, F_DUPFD_CLOEXEC, kAbove);
    if (lifted[i] < 0) {
      return false;
    }
  }
  for (size_t i = 0; i < options.inherited_fds.size(); ++i) {
    if (!place(lifted[i], options.inherited_fds[i].second)) {
      return false;
    }
  }
  return true;
}

/// Between fork and exec: returns the step that failed, with errno set.
Step become_program(const SpawnOptions& options, const ChildPlan& plan) {
  if (options.parent_death_signal != 0) {
    if (::prctl(PR_SET_PDEATHSIG, options.parent_death_signal) != 0) {
      return kDeathSignal;
    }
    if (::getppid() != plan.parent) {
      ::_exit(127);  // the parent ended before it could be watched
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

[[noreturn]] void run_child(const SpawnOptions& options, const ChildPlan& plan, int report_fd) {
  ChildFailure failure;
  failure.step = become_program(options, plan);
  failure.error_number = errno;
  (void)!::write(report_fd, &failure, sizeof failure);
  ::_exit(127);
}

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return fail_errno("make a pipe", errno);
  }
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

ExitStatus exit_status(const siginfo_t& info) {
  ExitStatus status;
  (info.si_code == CLD_EXITED ? status.code : status.signal) = info.si_status;
  return status;
}

/// poll that outlives interruptions; false when the deadline passed first.
bool poll_until(std::vector<pollfd>& fds, Clock::time_point deadline) {
  for (;;) {
    const auto left_ms = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
    if (::poll(fds.data(), fds.size(), static_cast<int>(std::clamp<int64_t>(left_ms, 0, INT_MAX))) > 0) {
      return true;
    }
    if (left_ms <= 0) {
      return false;
    }
  }
}

/// Appends what is there; false at the end of the stream.
bool drain(int fd, std::string& into) {
  char buffer[16384];
  const ssize_t got = ::read(fd, buffer, sizeof buffer);
  if (got < 0) {
    return errno == EINTR || errno == EAGAIN;
  }
  into.append(buffer,
              std::min(static_cast<size_t>(got), kCaptureLimitBytes - std::min(into.size(), kCaptureLimitBytes)));
  return got > 0;
}

/// Reads both streams until they end; false when the deadline passed first.
bool drain_both(UniqueFd& out, UniqueFd& err, CommandOutput& output, Clock::time_point deadline) {
  while (out || err) {
    std::vector<pollfd> fds = {{out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}};  // poll skips -1
    if (!poll_until(fds, deadline)) {
      return false;
    }
    if (fds[0].revents != 0 && !drain(out.get(), output.out)) {
      out.reset();
    }
    if (fds[1].revents != 0 && !drain(err.get(), output.err)) {
      err.reset();
    }
  }
  return true;
}

}  // namespace

std::string format_exit(const ExitStatus& status) {
  if (status.signal) {
    return "signal " + std::to_string(*status.signal) + " (" + ::strsignal(*status.signal) + ")";
  }
  return "exit code " + std::to_string(status.code.value_or(-1));
}

SignalState SignalState::current() {
  SignalState state;
  ::sigemptyset(&state.ignored);
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) {
      ::sigaddset(&state.ignored, number);
    }
  }
  ::pthread_sigmask(SIG_SETMASK, nullptr, &state.mask);
  return state;
}

Result<Subprocess> Subprocess::spawn(const SpawnOptions& options) {
  const std::string name = options.argv.empty() ? std::string("(nothing)") : options.argv[0];
  auto plan = make_plan(options);
  if (!plan) {
    return with_context("start " + name, plan.error());
  }
  ST_ASSIGN(Pipe report, make_pipe());
  const pid_t pid = ::fork();
  if (pid < 0) {
    return fail_errno("start " + name, errno);
  }
  if (pid == 0) {
    run_child(options, *plan, report.write_end.get());
  }
  report.write_end.reset();
  Subprocess child(pid);
  ChildFailure failure;
  ssize_t got = 0;
  do {
    got = ::read(report.read_end.get(), &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof failure) {
    return fail_errno("start " + name + ": " + kSteps[static_cast<size_t>(failure.step)], failure.error_number);
  }
  auto end = EndWatch::start(pid);
  if (!end) {
    return with_context("start " + name, end.error());
  }
  child.end_ = std::move(*end);
  return child;
}

Subprocess::Subprocess(Subprocess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), end_(std::move(other.end_)), status_(other.status_) {}

Subprocess& Subprocess::operator=(Subprocess&& other) noexcept {
  if (this != &other) {
    this->~Subprocess();
    new (this) Subprocess(std::move(other));
  }
  return *this;
}

Subprocess::~Subprocess() {
  if (running()) {
    ::kill(pid_, SIGKILL);
    siginfo_t info{};
    while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED) != 0 && errno == EINTR) {
    }
  }
}

Result<std::optional<ExitStatus>> Subprocess::try_wait() { return wait_for(milliseconds(0)); }

Result<std::optional<ExitStatus>> Subprocess::wait_for(milliseconds limit) {
  if (!running()) {
    return status_;
  }
  std::vector<pollfd> fds = {{end_.descriptor(), POLLIN, 0}};
  if (!poll_until(fds, Clock::now() + limit)) {
    return std::nullopt;
  }
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG) != 0) {
    return fail_errno("wait for process " + std::to_string(pid_), errno);
  }
  if (info.si_pid == 0) {
    return std::nullopt;
  }
  status_ = exit_status(info);
  end_.reset();
  return status_;
}

Status Subprocess::send_signal(int signal_number) {
  if (running() && ::kill(pid_, signal_number) != 0) {
    return fail_errno("signal process " + std::to_string(pid_), errno);
  }
  return {};
}

Result<ExitStatus> Subprocess::terminate(int polite_signal, milliseconds grace) {
  constexpr milliseconds kKillLimit{10'000};
  ST_TRY(send_signal(polite_signal));
  ST_ASSIGN(std::optional<ExitStatus> ended, wait_for(grace));
  if (!ended) {
    ST_TRY(send_signal(SIGKILL));
    ST_ASSIGN(ended, wait_for(kKillLimit));
  }
  if (!ended) {
    return fail("process " + std::to_string(pid_) + " does not end", "it waits in the kernel: see /proc/PID/stack");
  }
  return *ended;
}

pid_t Subprocess::detach() {
  end_.reset();
  status_.reset();
  return std::exchange(pid_, -1);
}

Result<CommandOutput> run_and_capture(SpawnOptions options, milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  ST_ASSIGN(Pipe out, make_pipe());
  ST_ASSIGN(Pipe err, make_pipe());
  options.stdout_path.clear();
  options.stderr_path.clear();
  options.inherited_fds.emplace_back(out.write_end.get(), STDOUT_FILENO);
  options.inherited_fds.emplace_back(err.write_end.get(), STDERR_FILENO);
  ST_ASSIGN(Subprocess child, Subprocess::spawn(options));
  out.write_end.reset();
  err.write_end.reset();
  CommandOutput output;
  std::optional<ExitStatus> ended;
  if (drain_both(out.read_end, err.read_end, output, deadline)) {
    ST_ASSIGN(ended, child.wait_for(std::chrono::ceil<milliseconds>(deadline - Clock::now())));
  }
  if (!ended) {
    return fail(format_command(options.argv) + ": still running after " +
                    format_duration(std::chrono::nanoseconds(limit).count()),
                {}, ErrorKind::kInterrupted);
  }
  output.status = *ended;
  return output;
}

Result<std::string> find_program(std::string_view name) {
  if (name.find('/') != std::string_view::npos) {
    return std::string(name);
  }
  const char* path = ::getenv("PATH");
  const std::string folders = std::string(path != nullptr ? path : "/usr/bin:/bin") + ":/usr/sbin:/sbin";
  for (const std::string_view folder : split(folders, ':')) {
    std::string candidate = std::string(folder.empty() ? "." : folder) + "/" + std::string(name);
    if (::access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return fail(std::string(name) + ": no such program in PATH", "install it, or correct PATH", ErrorKind::kNotFound);
}

std::string format_command(const std::vector<std::string>& argv) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  std::string line;
  for (const std::string& argument : argv) {
    line += line.empty() ? "" : " ";
    if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string::npos) {
      line += argument;
      continue;
    }
    line += '\'';
    for (const char c : argument) {
      line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    line += '\'';
  }
  return line;
}

}  // namespace stalltrace
