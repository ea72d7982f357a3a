// SPDX-License-Identifier: Apache-2.0
// failing_calls KIND WHICH ERROR COUNTS PROGRAM ARGUMENTS...: runs PROGRAM with one system call of a kind failing.
// WHICH is the number of that call, from 1, in all processes of PROGRAM together; "3+" is the third and all later ones,
// 0 none. ERROR is a name such as EMFILE. When the last process has ended, the number of such calls is written to the
// file COUNTS, and the numbers of the system calls that failed; the exit code is PROGRAM's in the shell's form. Not
// counted: what other programs call that PROGRAM starts, what the dynamic linker calls, and reads and writes of
// anything but files and folders, which have no errors but EINTR. A seccomp filter asks this process about each call of
// the kind, so that threads, forked processes and calls inside of libraries count as well.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace {

struct Kind {
  std::string_view name;
  std::vector<long> numbers;
};

/// Where an architecture has only the newer of two calls, the older has no number.
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"descriptors",
       {SYS_openat, SYS_openat2, SYS_pipe2, SYS_socket, SYS_socketpair, SYS_accept4, SYS_eventfd2, SYS_epoll_create1,
        SYS_signalfd4, SYS_timerfd_create, SYS_memfd_create, SYS_pidfd_open, SYS_dup, SYS_inotify_init1,
        SYS_perf_event_open,
#ifdef SYS_open
        SYS_open, SYS_pipe, SYS_eventfd, SYS_accept
#endif
       }},
      {"memory", {SYS_mmap, SYS_mremap, SYS_brk}},
      {"reads", {SYS_read, SYS_pread64, SYS_readv, SYS_preadv, SYS_getdents64}},
      {"writes", {SYS_write, SYS_pwrite64, SYS_writev, SYS_pwritev, SYS_ftruncate, SYS_fallocate}},
      {"syncs", {SYS_fsync, SYS_fdatasync}},
      {"processes",
       {SYS_clone, SYS_clone3,
#ifdef SYS_fork
        SYS_fork, SYS_vfork
#endif
       }},
      {"waits",
       {SYS_ppoll, SYS_waitid, SYS_wait4, SYS_epoll_pwait, SYS_clock_nanosleep, SYS_connect, SYS_accept4, SYS_recvmsg,
        SYS_sendmsg, SYS_recvfrom, SYS_sendto, SYS_flock,
#ifdef SYS_poll
        SYS_poll, SYS_epoll_wait, SYS_accept
#endif
       }},
  };
  return all;
}

const std::map<std::string_view, int>& errors() {
  static const std::map<std::string_view, int> all = {{"EMFILE", EMFILE}, {"ENOMEM", ENOMEM}, {"EINTR", EINTR},
                                                      {"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EAGAIN", EAGAIN}};
  return all;
}

const Kind* find_kind(std::string_view name) {
  for (const Kind& kind : kinds()) {
    if (kind.name == name) {
      return &kind;
    }
  }
  return nullptr;
}

int refuse(const char* what) {
  std::fprintf(stderr, "failing_calls: %s: %s\n", what, std::strerror(errno));
  return 125;
}

/// Installs the filter in the calling process. The result is the descriptor that is asked; -1: errno.
int listen_to(const Kind& kind) {
  std::vector<sock_filter> filter = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const long number : kind.numbers) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{.len = static_cast<unsigned short>(filter.size()), .filter = filter.data()};
  const auto install = [&program] {
    return static_cast<int>(
        ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
  };
  const int listener = install();
  // Without CAP_SYS_ADMIN, a filter requires a process that can't gain privileges.
  return listener >= 0 || errno != EACCES || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ? listener : install();
}

/// What the child and its parent say to each other in memory that they share: each call of theirs may be one of the
/// kind.
struct Handover {
  std::atomic<int> listener{-1};  // its number in the child; -2: the filter was refused
  std::atomic<bool> taken{false};
};

[[noreturn]] void become(const Kind& kind, char** command, Handover& handover) {
  const int listener = listen_to(kind);
  handover.listener = listener < 0 ? -2 : listener;
  while (!handover.taken) {
    ::sched_yield();
  }
  ::execv(command[0], command);  // closes the listener here
  ::_exit(127);
}

/// The code of the dynamic linker in a process.
std::pair<uint64_t, uint64_t> linker_of(pid_t pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  std::pair<uint64_t, uint64_t> range{UINT64_MAX, 0};
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/ld-linux") != std::string::npos) {
      char* rest = nullptr;
      range.first = std::min<uint64_t>(range.first, std::strtoull(line.c_str(), &rest, 16));
      range.second = std::max<uint64_t>(range.second, std::strtoull(rest + 1, nullptr, 16));
    }
  }
  return range;
}

class Calls {
 public:
  Calls(const Kind& kind, const char* program, std::string_view which, int error)
      : program_(std::filesystem::canonical(program)),
        first_(std::strtoull(which.data(), nullptr, 10)),
        later_too_(which.ends_with('+')),
        error_(error),
        files_only_(error != EINTR && (kind.name == "reads" || kind.name == "writes")) {}

  [[nodiscard]] uint64_t count() const { return count_; }

  [[nodiscard]] const std::set<int>& failed() const { return failed_; }

  /// Fills in what the call results in.
  void answer(const seccomp_notif& call, seccomp_notif_resp& response) {
    response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    if (!is_counted(call)) {
      return;
    }
    if (call.data.nr == SYS_brk) {
      refuse_heap(call.data.args[0], response);
      return;
    }
    ++count_;
    if (first_ == 0 || count_ < first_ || (count_ > first_ && !later_too_)) {
      return;
    }
    failed_.insert(call.data.nr);
    response.flags = 0;
    response.error = -error_;
  }

 private:
  /// Lets the C library make its first heap, for its own start, and no more: all that malloc needs is mapped then.
  void refuse_heap(uint64_t end, seccomp_notif_resp& response) {
    if (end == 0 || heap_ == 0) {
      heap_ = end;
      return;
    }
    response.flags = 0;
    response.val = static_cast<int64_t>(heap_);  // it fails by leaving the end where it is
  }

  /// Its first argument: whether it is open for a file or folder.
  static bool is_file(const seccomp_notif& call) {
    struct stat info {};
    const std::string name =
        "/proc/" + std::to_string(call.pid) + "/fd/" + std::to_string(static_cast<int>(call.data.args[0]));
    return ::stat(name.c_str(), &info) == 0 && (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode));
  }

  bool is_counted(const seccomp_notif& call) {
    const auto pid = static_cast<pid_t>(call.pid);
    std::error_code ignored;
    if (std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", ignored) != program_) {
      return false;
    }
    const auto [known, is_new] = linkers_.try_emplace(pid);
    if (is_new) {
      known->second = linker_of(pid);
    }
    const uint64_t address = call.data.instruction_pointer;
    if (address >= known->second.first && address < known->second.second) {
      return false;
    }
    if (error_ == EINTR && call.data.nr == SYS_write && call.data.args[0] <= STDERR_FILENO) {
      return false;  // no signal interrupts them: handlers of ours are installed with SA_RESTART
    }
    return !files_only_ || is_file(call);
  }

  std::filesystem::path program_;
  uint64_t first_;
  bool later_too_;
  int error_;
  bool files_only_;
  uint64_t count_ = 0;
  std::set<int> failed_;
  uint64_t heap_ = 0;  // where it ends
  std::map<pid_t, std::pair<uint64_t, uint64_t>> linkers_;
};

/// Waits for its end; its exit code in the shell's form.
int reap(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// Answers until no process has the filter any more; the exit code of `child`.
int answer_all(int listener, pid_t child, Calls& calls) {
  std::optional<int> code;
  const int ended = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  std::array<pollfd, 2> waits{
      {{.fd = listener, .events = POLLIN, .revents = 0}, {.fd = ended, .events = POLLIN, .revents = 0}}};
  for (;;) {
    if (::poll(waits.data(), waits.size(), -1) < 0) {
      return refuse("wait");
    }
    if ((waits[0].revents & POLLIN) != 0) {
      seccomp_notif call{};
      if (::ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) == 0) {
        seccomp_notif_resp answer{.id = call.id, .val = 0, .error = 0, .flags = 0};
        calls.answer(call, answer);
        (void)::ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);  // ENOENT: the caller was interrupted, or is gone
      }
    } else if ((waits[0].revents & POLLHUP) != 0) {
      return code ? *code : reap(child);
    }
    if (waits[1].revents != 0) {
      code = reap(child);
      waits[1].fd = -1;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Kind* kind = argc > 5 ? find_kind(argv[1]) : nullptr;
  const auto error = argc > 5 ? errors().find(argv[3]) : errors().end();
  if (kind == nullptr || error == errors().end() || ::access(argv[5], X_OK) != 0) {
    std::fputs("usage: failing_calls KIND WHICH ERROR COUNTS PROGRAM ARGUMENTS...\n", stderr);
    return 125;
  }
  void* memory = ::mmap(nullptr, sizeof(Handover), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return refuse("mmap");
  }
  auto* handover = new (memory) Handover;
  Calls calls(*kind, argv[5], argv[2], error->second);
  const pid_t child = ::fork();
  if (child == 0) {
    become(*kind, argv + 5, *handover);
  }
  while (handover->listener == -1) {
    ::sched_yield();
  }
  const int process = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  const int listener = static_cast<int>(::syscall(SYS_pidfd_getfd, process, handover->listener.load(), 0));
  if (listener < 0) {
    ::kill(child, SIGKILL);
    return refuse("ask about system calls");
  }
  handover->taken = true;
  const int code = answer_all(listener, child, calls);
  std::ofstream counts(argv[4]);
  counts << calls.count();
  for (const int number : calls.failed()) {
    counts << ' ' << number;
  }
  counts << '\n';
  return code;
}
