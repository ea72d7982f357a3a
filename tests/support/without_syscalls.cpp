// SPDX-License-Identifier: Apache-2.0
// without_syscalls WHAT COMMAND...: runs COMMAND and its children with the system calls named by WHAT answered as on an
// older kernel or another file system. The filter lasts until its last process ends.
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

namespace {

/// Since Linux 5.1 a new system call has the same number on all architectures. pidfd_send_signal was the first.
constexpr uint32_t kFirstCommonNumber = 424;
constexpr uint32_t kFirstOf5_11 = 441;  // epoll_pwait2

/// The low half of the argument: a flag word is an unsigned int.
constexpr uint32_t argument(size_t index) {
  return static_cast<uint32_t>(offsetof(seccomp_data, args) + index * sizeof(uint64_t));
}
constexpr sock_filter load(uint32_t offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset); }
constexpr sock_filter answer(uint32_t error) { return BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error); }
constexpr sock_filter kAllow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
constexpr sock_filter kLoadNumber = load(offsetof(seccomp_data, nr));

/// All numbers from `first` up are unknown.
std::vector<sock_filter> unknown_from(uint32_t first) {
  return {kLoadNumber, BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 0, 1), answer(ENOSYS)};
}

/// `number` with one of `flags` in the argument `index` (with any value if `flags` is all ones) is an invalid call.
std::vector<sock_filter> invalid_with(uint32_t number, size_t index, uint32_t flags) {
  return {kLoadNumber, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3), load(argument(index)),
          BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, flags, 0, 1), answer(EINVAL)};
}

std::vector<sock_filter> filter_of(std::string_view what) {
  std::vector<sock_filter> filter;
  const auto add = [&filter](const std::vector<sock_filter>& part) {
    filter.insert(filter.end(), part.begin(), part.end());
  };
  if (what == "linux-4.18") {  // RHEL 8
    add(unknown_from(kFirstCommonNumber));
  } else if (what == "linux-5.10") {  // Debian 11: close_range has no flags yet
    add(unknown_from(kFirstOf5_11));
    add(invalid_with(SYS_close_range, 2, CLOSE_RANGE_CLOEXEC));
  } else if (what == "rename-flags") {  // as on NFS, with any kernel
    add(invalid_with(SYS_renameat2, 4, ~0U));
  } else if (what == "nameless-files") {  // NFS, Lustre
    add(invalid_with(SYS_openat, 2, O_TMPFILE & ~O_DIRECTORY));
  } else if (what == "stored-files") {  // a disk that fails only on writing
    add({kLoadNumber, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fsync, 0, 1), answer(EIO)});
  } else if (what == "confinement") {  // a container's profile: no filters beside its own, no Landlock
    add({kLoadNumber, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3), load(argument(0)),
         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_SECCOMP, 0, 1), answer(EPERM)});
    add({kLoadNumber, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_landlock_restrict_self, 0, 1), answer(EPERM)});
  } else {
    return {};
  }
  filter.push_back(kAllow);
  return filter;
}

bool install(std::vector<sock_filter>& filter) {
  const sock_fprog program{.len = static_cast<unsigned short>(filter.size()), .filter = filter.data()};
  const auto set = [&program] { return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0; };
  // Without CAP_SYS_ADMIN, a filter requires a process that can't gain privileges.
  return set() || (errno == EACCES && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && set());
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<sock_filter> filter = argc > 2 ? filter_of(argv[1]) : std::vector<sock_filter>();
  if (filter.empty()) {
    std::fputs("usage: without_syscalls WHAT COMMAND...\n", stderr);
    return 2;
  }
  if (!install(filter)) {
    std::fprintf(stderr, "without_syscalls: install the filter: %s\n", std::strerror(errno));
    return 1;
  }
  ::execvp(argv[2], argv + 2);
  std::fprintf(stderr, "without_syscalls: %s: %s\n", argv[2], std::strerror(errno));
  return 1;
}
