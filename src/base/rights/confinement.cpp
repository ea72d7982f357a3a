// SPDX-License-Identifier: Apache-2.0
#include "base/rights/confinement.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "base/handle.h"

namespace stalltrace {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif
constexpr uint32_t kFirstX32 = 0x40000000;  // numbers of x86's 32-bit pointer calls, on the same architecture

/// No reading verb makes them.
constexpr auto kRefused = std::to_array<long>({
#ifdef SYS_fork
    SYS_fork, SYS_vfork,
#endif
    SYS_execve, SYS_execveat, SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_listen, SYS_accept4, SYS_ptrace,
    SYS_process_vm_readv, SYS_process_vm_writev, SYS_bpf, SYS_perf_event_open, SYS_mount, SYS_umount2, SYS_pivot_root,
    SYS_chroot, SYS_setns, SYS_unshare, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load,
    SYS_reboot, SYS_swapon, SYS_swapoff, SYS_settimeofday, SYS_clock_settime, SYS_acct, SYS_add_key, SYS_request_key,
    SYS_keyctl, SYS_userfaultfd, SYS_open_by_handle_at, SYS_mknodat, SYS_setuid, SYS_setresuid, SYS_setgid,
    SYS_setresgid, SYS_quotactl,
    // Since Linux 5.1 a new call has one number on all architectures: io_uring, the calls for mounts, pidfd_getfd.
    425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442});
constexpr long kClone3 = 435;  // its flags lie in memory, where a filter can't see them; without it clone() is called

constexpr sock_filter load(size_t offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)); }
constexpr sock_filter answer(uint32_t value) { return BPF_STMT(BPF_RET | BPF_K, value); }
/// Skips `count` instructions unless the loaded value is `value`.
constexpr sock_filter unless(uint32_t value, uint8_t count) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count);
}

bool refuse_system_calls() {
  constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
  std::vector<sock_filter> filter{load(offsetof(seccomp_data, arch)),
                                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
                                  answer(kRefuse),
                                  load(offsetof(seccomp_data, nr)),
                                  BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kFirstX32, 0, 1),
                                  answer(kRefuse),
                                  unless(static_cast<uint32_t>(kClone3), 1),
                                  answer(SECCOMP_RET_ERRNO | ENOSYS)};
  for (const long call : kRefused) {
    filter.push_back(unless(static_cast<uint32_t>(call), 1));
    filter.push_back(answer(kRefuse));
  }
  filter.push_back(unless(static_cast<uint32_t>(SYS_clone), 3));  // a thread, but no process
  filter.push_back(load(offsetof(seccomp_data, args)));
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0));
  filter.push_back(answer(kRefuse));
  filter.push_back(answer(SECCOMP_RET_ALLOW));
  const sock_fprog program{.len = static_cast<unsigned short>(filter.size()), .filter = filter.data()};
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

/// Of the kernel's Landlock; 0 or less: it has none.
long landlock_version() {
  return ::syscall(SYS_landlock_create_ruleset, nullptr, size_t{0}, LANDLOCK_CREATE_RULESET_VERSION);
}

constexpr uint64_t kTruncate = 1U << 14;  // LANDLOCK_ACCESS_FS_TRUNCATE, since version 3
constexpr uint64_t kChangesOfFiles = LANDLOCK_ACCESS_FS_WRITE_FILE;
constexpr uint64_t kChangesOfFolders = LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE;

bool allow(int rules, const std::string& path, uint64_t rights) {
  const UniqueFd file(::open(path.empty() ? "." : path.c_str(), O_PATH | O_CLOEXEC));
  if (!file) {
    return false;
  }
  const landlock_path_beneath_attr beneath{.allowed_access = rights, .parent_fd = file.get()};
  return ::syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0U) == 0;
}

bool refuse_changes(const Confinement& allowed) {
  const long version = landlock_version();
  if (version < 1) {
    return false;
  }
  const uint64_t of_files = kChangesOfFiles | (version >= 3 ? kTruncate : 0);
  const uint64_t of_folders = of_files | kChangesOfFolders | (version >= 2 ? LANDLOCK_ACCESS_FS_REFER : 0);
  const landlock_ruleset_attr all{
      .handled_access_fs = of_folders | LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                           LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_MAKE_SOCK |
                           LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK};
  const UniqueFd rules(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0U)));
  if (!rules) {
    return false;
  }
  for (const std::string& path : allowed.files) {
    allow(rules.get(), path, of_files);
  }
  for (const std::string& path : allowed.folders) {
    if (!allow(rules.get(), path, of_folders)) {
      return false;  // what the verb is for would fail without its reason
    }
  }
  return ::syscall(SYS_landlock_restrict_self, rules.get(), 0U) == 0;
}

}  // namespace

Confined confine(const Confinement& allowed) {
  if (kIsSanitized || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return {};
  }
  const bool files = refuse_changes(allowed);
  return {.system_calls = refuse_system_calls(), .files = files};
}

Confined possible_confinement() {
  return {.system_calls = ::prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0, .files = landlock_version() >= 1};
}

}  // namespace stalltrace
