// SPDX-License-Identifier: Apache-2.0
#include "base/untrusted/sandbox.h"

#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "base/file.h"

namespace stalltrace {
namespace {

constexpr rlim_t kMoreMemory = 256U << 20;  // symbol names take at most 64 MiB (base/elf)
constexpr rlim_t kFiles = 16;

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif

bool limit_resources() {
  const std::string sizes = read_file("/proc/self/statm", 256).value_or("0");
  const rlim_t used = std::strtoull(sizes.c_str(), nullptr, 10) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
  const auto limit = [](auto resource, rlim_t value) {
    const rlimit both{.rlim_cur = value, .rlim_max = value};
    return ::setrlimit(resource, &both) == 0;
  };
  return limit(RLIMIT_AS, used + kMoreMemory) && limit(RLIMIT_NOFILE, kFiles) && limit(RLIMIT_FSIZE, 0) &&
         limit(RLIMIT_CORE, 0);
}

bool drop_capabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::syscall(SYS_capset, &header, none.data()) == 0 &&
         ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}

bool filter_system_calls() {
  constexpr std::array kAllowed{SYS_read,   SYS_pread64,    SYS_recvmsg,       SYS_sendmsg,        SYS_close,
                                SYS_munmap, SYS_mremap,     SYS_brk,           SYS_madvise,        SYS_futex,
                                SYS_fstat,  SYS_lseek,      SYS_clock_gettime, SYS_rt_sigprocmask, SYS_rt_sigreturn,
                                SYS_exit,   SYS_exit_group, SYS_getrandom,     SYS_newfstatat};
  constexpr std::array kWithProtection{SYS_mmap, SYS_mprotect};  // their third argument must not contain PROT_EXEC
  constexpr uint32_t kNumber = offsetof(seccomp_data, nr);
  constexpr uint32_t kThirdArgument = offsetof(seccomp_data, args) + 2 * sizeof(uint64_t);  // low half
  const auto statement = [](uint16_t code, uint32_t k) { return sock_filter{.code = code, .jt = 0, .jf = 0, .k = k}; };
  const auto jump = [](uint16_t code, uint32_t k, uint8_t yes, uint8_t no) {
    return sock_filter{.code = code, .jt = yes, .jf = no, .k = k};
  };
  const sock_filter allow = statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_filter refuse = statement(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  std::vector<sock_filter> filter{statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
                                  jump(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0), refuse,
                                  statement(BPF_LD | BPF_W | BPF_ABS, kNumber)};
  for (const long call : kAllowed) {
    filter.push_back(jump(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 1));
    filter.push_back(allow);
  }
  for (const long call : kWithProtection) {
    filter.push_back(jump(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 4));
    filter.push_back(statement(BPF_LD | BPF_W | BPF_ABS, kThirdArgument));
    filter.push_back(jump(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1));
    filter.push_back(refuse);
    filter.push_back(allow);
  }
  filter.push_back(refuse);
  const sock_fprog program{.len = static_cast<unsigned short>(filter.size()), .filter = filter.data()};
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

/// Where the kernel has no system call filter: becomes nobody at least.
bool become_nobody() {
  constexpr uid_t kNobody = 65534;
  return ::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
         ::setresuid(kNobody, kNobody, kNobody) == 0;
}

}  // namespace

bool enter_sandbox() {
  // Keeps the user id: as nobody it could be killed by any other process of that user. It has none of its user's rights
  // left.
  const bool filters = ::prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0;
  return limit_resources() && (filters || ::geteuid() != 0 || become_nobody()) && drop_capabilities() &&
         (!filters || filter_system_calls());
}

}  // namespace stalltrace
