// SPDX-License-Identifier: Apache-2.0
#include "base/untrusted/sandbox.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "base/file.h"
#include "base/rights/capabilities.h"
#include "base/untrusted/helper_child.h"
#include "base/untrusted/system_call_filter.h"

namespace stalltrace {
namespace {

constexpr rlim_t kMoreMemory = 256U << 20;  // symbol names take at most 64 MiB (base/elf)
constexpr rlim_t kFiles = 16;
constexpr rlim_t kFilesOfProcessReaders = 64;

/// To look into other users' processes, and their files; and to open a mapped file by its address, without its path
/// (linux/capability.h has the last number since Linux 5.9).
constexpr int kCheckpointRestore = 40;
constexpr Capabilities kOfProcessReaders =
    capability_bit(CAP_SYS_PTRACE) | capability_bit(CAP_DAC_READ_SEARCH) | capability_bit(kCheckpointRestore);

bool limit_resources(rlim_t files) {
  const std::string sizes = read_file("/proc/self/statm", 256).value_or("0");
  const rlim_t used = std::strtoull(sizes.c_str(), nullptr, 10) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
  const auto limit = [](auto resource, rlim_t value) {
    const rlimit both{.rlim_cur = value, .rlim_max = value};
    return ::setrlimit(resource, &both) == 0;
  };
  return limit(RLIMIT_AS, used + kMoreMemory) && limit(RLIMIT_NOFILE, files) && limit(RLIMIT_FSIZE, 0) &&
         limit(RLIMIT_CORE, 0);
}

/// For good; and no other process of this user may look into us.
bool keep_only(Capabilities kept) { return keep_capabilities(kept) && ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0; }

/// What reading open files, answering and allocating takes.
std::vector<AllowedCall> calls_of_readers() {
  constexpr AllowedCall::Argument kNotExecutable{.index = 2, .refused_bits = PROT_EXEC};
  return {{SYS_read},
          {SYS_pread64},
          {SYS_recvmsg},
          {SYS_sendto},  // not sendmsg: the parent is to close no descriptor that this child chose
          {SYS_close},
          {SYS_munmap},
          {SYS_mremap},
          {SYS_brk},
          {SYS_madvise},
          {SYS_futex},
          {SYS_fstat},
          {SYS_lseek},
          {SYS_clock_gettime},
          {SYS_rt_sigprocmask},
          {SYS_rt_sigreturn},
          {SYS_exit},
          {SYS_exit_group},
          {SYS_getrandom},
          {SYS_newfstatat},
          {SYS_mmap, kNotExecutable},
          {SYS_mprotect, kNotExecutable}};
}

std::vector<AllowedCall> calls_of_process_readers() {
  constexpr AllowedCall::Argument kReadOnly{.index = 2, .refused_bits = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC};
  std::vector<AllowedCall> calls = calls_of_readers();
  calls.insert(calls.end(), {{SYS_openat, kReadOnly},
                             {SYS_getdents64},
                             {SYS_readlinkat},
                             {SYS_statx},
                             {SYS_faccessat},
                             {SYS_process_vm_readv},
                             {SYS_write},  // its files are open for reading only: the pipe to us
                             {SYS_getpid},
                             {SYS_gettid},
                             {SYS_geteuid},
                             {SYS_clock_nanosleep},
                             {SYS_restart_syscall}});
#if defined(__x86_64__)
  calls.insert(calls.end(), {{SYS_readlink}, {SYS_access}, {SYS_stat}, {SYS_lstat}});
#endif
  return calls;
}

}  // namespace

bool become_nobody(pid_t parent) {
  constexpr uid_t kNobody = 65534;
  return ::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
         ::setresuid(kNobody, kNobody, kNobody) == 0 && die_with_parent(parent);
}

bool enter_sandbox(pid_t parent) {
  // Keeps the user id: as the user nobody it could be killed by any other process of that user. It has none of its
  // user's rights left.
  const bool filters = has_system_call_filters();
  return limit_resources(kFiles) && (filters || ::geteuid() != 0 || become_nobody(parent)) && keep_only(0) &&
         (!filters || allow_only(calls_of_readers()));
}

bool enter_sandbox_of_process_readers() {
  return limit_resources(kFilesOfProcessReaders) && keep_only(kOfProcessReaders) &&
         (!has_system_call_filters() || allow_only(calls_of_process_readers()));
}

}  // namespace stalltrace
