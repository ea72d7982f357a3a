// SPDX-License-Identifier: Apache-2.0
#include "base/rights/confinement.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/landlock.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

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
constexpr uint32_t kTioclinux = 0x541c;     // TIOCLINUX of asm/ioctls.h, which termios.h leaves out
constexpr uint32_t kFirstX32 = 0x40000000;  // numbers of x86's 32-bit pointer calls, on the same architecture

/// No reading subcommand makes them. Files are changed by descriptor only: SQLite and merge set mode and owner of what
/// they have made, and their size.
constexpr auto kRefused = std::to_array<long>({
#ifdef SYS_fork  // an architecture with the old calls
    SYS_fork, SYS_vfork, SYS_creat, SYS_mknod, SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat,
#endif
    // Programs, the network, other processes.
    SYS_execve, SYS_execveat, SYS_socketpair, SYS_bind, SYS_listen, SYS_accept4, SYS_ptrace, SYS_process_vm_readv,
    SYS_process_vm_writev, SYS_kcmp, SYS_move_pages, SYS_migrate_pages, SYS_kill, SYS_tkill, SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo, SYS_setpriority, SYS_ioprio_set, SYS_sched_setscheduler, SYS_sched_setparam,
    SYS_sched_setattr, SYS_sched_setaffinity, SYS_shmget, SYS_shmat, SYS_msgget, SYS_semget, SYS_mq_open,
    // The host.
    SYS_bpf, SYS_perf_event_open, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_setns, SYS_unshare,
    SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_reboot, SYS_swapon, SYS_swapoff,
    SYS_settimeofday, SYS_clock_settime, SYS_acct, SYS_add_key, SYS_request_key, SYS_keyctl, SYS_userfaultfd,
    SYS_open_by_handle_at, SYS_setuid, SYS_setresuid, SYS_setgid, SYS_setresgid, SYS_quotactl,
    // Files: what Landlock does not see, or not in its first versions.
    SYS_mknodat, SYS_truncate, SYS_fchmodat, SYS_fchownat, SYS_utimensat, SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr,
    SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr,
    // Since Linux 5.1 a new call has one number on all architectures: pidfd_send_signal, io_uring, the calls for
    // mounts,
    // openat2 (its flags lie in memory), pidfd_getfd, process_madvise, process_mrelease, fchmodat2, setxattrat,
    // removexattrat, open_tree_attr, file_setattr.
    424, 425, 426, 427, 428, 429, 430, 431, 432, 433, 437, 438, 440, 442, 448, 452, 463, 466, 467, 469});
constexpr long kClone3 = 435;  // its flags lie in memory, where a filter can't see them; without it clone() is called

/// A call that is refused for some values of one of its arguments, of which the lower 32 bits are compared: the kernel
/// takes no more of these.
struct RefusedArgument {
  enum class When { kIs, kIsNot, kHasBit, kHasNotBit };
  long call = 0;
  unsigned index = 0;
  When when = When::kIs;
  uint32_t value = 0;
};

std::vector<RefusedArgument> refused_arguments() {
  using enum RefusedArgument::When;
  const auto own = static_cast<uint32_t>(::getpid());
  return {
      {SYS_clone, 0, kHasNotBit, CLONE_THREAD},  // a thread, but no process
      {SYS_tgkill, 0, kIsNot, own},              // abort() sends itself a signal
      {SYS_prlimit64, 0, kIsNot, 0},             // a limit of CPU time ends others, too
      // Keys for the terminal, as if its user had typed them; signals to others by a descriptor; attributes.
      {SYS_ioctl, 1, kIs, TIOCSTI},
      {SYS_ioctl, 1, kIs, kTioclinux},
      {SYS_ioctl, 1, kIs, FIOSETOWN},
      {SYS_ioctl, 1, kIs, SIOCSPGRP},
      {SYS_ioctl, 1, kIs, FS_IOC_SETFLAGS},
      {SYS_ioctl, 1, kIs, FS_IOC_FSSETXATTR},
      {SYS_fcntl, 1, kIs, F_SETOWN},
      {SYS_fcntl, 1, kIs, F_SETOWN_EX},
      // Landlock sees it since version 3 only.
      {SYS_openat, 2, kHasBit, O_TRUNC},
#ifdef SYS_open
      {SYS_open, 1, kHasBit, O_TRUNC},
#endif
  };
}

constexpr sock_filter load(size_t offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)); }
constexpr sock_filter answer(uint32_t value) { return BPF_STMT(BPF_RET | BPF_K, value); }
/// Skips `count` instructions unless the loaded value is `value`.
constexpr sock_filter unless(uint32_t value, uint8_t count) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count);
}

/// Refused unless the process connects to others.
constexpr auto kOfClients = std::to_array<long>({SYS_socket, SYS_connect});

/// Skips `count` instructions if the loaded value is `family`.
constexpr sock_filter in_family(uint32_t family, uint8_t count) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, family, count, 0);
}

bool has_filters() { return ::prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0; }

/// What became of one of the kernel's means.
struct Taken {
  bool taken = false;
  int error = 0;  // why the kernel, which has it, did not take it
};

Taken refuse_system_calls(bool connects) {
  constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
  std::vector<sock_filter> filter{load(offsetof(seccomp_data, arch)),
                                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
                                  answer(kRefuse),
                                  load(offsetof(seccomp_data, nr)),
                                  BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kFirstX32, 0, 1),
                                  answer(kRefuse),
                                  unless(static_cast<uint32_t>(kClone3), 1),
                                  answer(SECCOMP_RET_ERRNO | ENOSYS)};
  const auto refuse = [&](long call) {
    filter.push_back(unless(static_cast<uint32_t>(call), 1));
    filter.push_back(answer(kRefuse));
  };
  std::ranges::for_each(kRefused, refuse);
  if (connects) {  // by IP alone: the sockets of this host's services stay out of reach
    filter.insert(filter.end(), {unless(SYS_socket, 5), load(offsetof(seccomp_data, args)), in_family(AF_INET, 2),
                                 in_family(AF_INET6, 1), answer(kRefuse), load(offsetof(seccomp_data, nr))});
  } else {
    std::ranges::for_each(kOfClients, refuse);
  }
  for (const RefusedArgument& argument : refused_arguments()) {
    using enum RefusedArgument::When;
    const bool bits = argument.when == kHasBit || argument.when == kHasNotBit;
    const uint8_t if_so = argument.when == kIs || argument.when == kHasBit ? 0 : 1;  // 1: past the refusal
    const uint8_t if_not = if_so == 0 ? 1 : 0;
    filter.push_back(unless(static_cast<uint32_t>(argument.call), 4));
    filter.push_back(load(offsetof(seccomp_data, args) + argument.index * sizeof(uint64_t)));
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_K | (bits ? BPF_JSET : BPF_JEQ), argument.value, if_so, if_not));
    filter.push_back(answer(kRefuse));
    filter.push_back(load(offsetof(seccomp_data, nr)));
  }
  filter.push_back(answer(SECCOMP_RET_ALLOW));
  const sock_fprog program{.len = static_cast<unsigned short>(filter.size()), .filter = filter.data()};
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0) {
    return {.taken = true};
  }
  const int error = errno;
  return {.error = has_filters() ? error : 0};
}

/// Of the kernel's Landlock; 0 or less: it has none.
long landlock_version() {
  return ::syscall(SYS_landlock_create_ruleset, nullptr, size_t{0}, LANDLOCK_CREATE_RULESET_VERSION);
}

constexpr uint64_t kTruncate = 1U << 14;  // LANDLOCK_ACCESS_FS_TRUNCATE, since version 3
constexpr uint64_t kChangesOfFiles = LANDLOCK_ACCESS_FS_WRITE_FILE;
constexpr uint64_t kChangesOfFolders = LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE;

/// 0, or the kernel's error. Nothing: the path can't be opened, which may be its file system's doing; it is of no use
/// to the subcommand either, which reports it.
std::optional<int> allow(int rules, const std::string& path, uint64_t rights, int flags = 0) {
  const UniqueFd file(::open(path.empty() ? "." : path.c_str(), O_PATH | O_CLOEXEC | flags));
  if (!file) {
    return std::nullopt;
  }
  const landlock_path_beneath_attr beneath{.allowed_access = rights, .parent_fd = file.get()};
  return ::syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0U) == 0 ? 0 : errno;
}

Taken refuse_changes(const Confinement& allowed) {
  const long version = landlock_version();
  if (version < 1) {
    return {};
  }
  const uint64_t of_files = kChangesOfFiles | (version >= 3 ? kTruncate : 0);
  const uint64_t of_folders = of_files | kChangesOfFolders | (version >= 2 ? LANDLOCK_ACCESS_FS_REFER : 0);
  const uint64_t subfolders = LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REMOVE_DIR;
  const landlock_ruleset_attr all{.handled_access_fs = of_folders | subfolders | LANDLOCK_ACCESS_FS_EXECUTE |
                                                       LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_MAKE_SOCK |
                                                       LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                                                       LANDLOCK_ACCESS_FS_MAKE_BLOCK};
  const UniqueFd rules(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0U)));
  if (!rules) {
    return {.error = errno};
  }
  for (const std::string& path : allowed.files) {
    (void)allow(rules.get(), path, of_files);
  }
  for (const std::string& path : allowed.folders) {
    const auto error = allow(rules.get(), path, of_folders | (allowed.subfolders ? subfolders : 0), O_DIRECTORY);
    if (error != 0) {
      return {.error = error.value_or(0)};  // what the subcommand is for would fail without its reason
    }
  }
  if (::syscall(SYS_landlock_restrict_self, rules.get(), 0U) == 0) {
    return {.taken = true};
  }
  return {.error = errno};
}

void add_refusal(std::string& text, std::string_view means, int error) {
  if (error != 0) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", means, std::strerror(error));
  }
}

}  // namespace

Confined confine(const Confinement& allowed) {
  Confined confined;
  if (kIsSanitized) {
    return confined;
  }
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {  // without it neither of the others is taken
    add_refusal(confined.refused, "no_new_privs", errno);
    return confined;
  }
  const Taken files = refuse_changes(allowed);
  const Taken system_calls = refuse_system_calls(allowed.connects);
  add_refusal(confined.refused, "seccomp", system_calls.error);
  add_refusal(confined.refused, "Landlock", files.error);
  confined.system_calls = system_calls.taken;
  confined.files = files.taken;
  return confined;
}

Confined possible_confinement() {
  return {.system_calls = has_filters(), .files = landlock_version() >= 1, .refused = {}};
}

}  // namespace stalltrace
