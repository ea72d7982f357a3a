// SPDX-License-Identifier: Apache-2.0
#include "stacks/blocked/system_calls.h"

#include <fmt/format.h>
#include <sys/syscall.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/text.h"

namespace stalltrace::stacks {
namespace {

using enum CallKind;

// Calls that wait. Some exist on one architecture only.
constexpr CallInfo kCalls[] = {
    {SYS_read, "read", kRead},
    {SYS_readv, "readv", kRead},
    {SYS_pread64, "pread64", kRead},
    {SYS_preadv, "preadv", kRead},
    {SYS_preadv2, "preadv2", kRead},
    {SYS_recvfrom, "recvfrom", kRead},
    {SYS_recvmsg, "recvmsg", kRead},
    {SYS_recvmmsg, "recvmmsg", kRead},
    {SYS_getdents64, "getdents64", kRead},
    {SYS_write, "write", kWrite},
    {SYS_writev, "writev", kWrite},
    {SYS_pwrite64, "pwrite64", kWrite},
    {SYS_pwritev, "pwritev", kWrite},
    {SYS_sendto, "sendto", kWrite},
    {SYS_sendmsg, "sendmsg", kWrite},
    {SYS_sendmmsg, "sendmmsg", kWrite},
    {SYS_sendfile, "sendfile", kWrite},
    {SYS_accept, "accept", kAccept},
    {SYS_accept4, "accept4", kAccept},
    {SYS_connect, "connect", kFile},
    {SYS_fsync, "fsync", kFile},
    {SYS_fdatasync, "fdatasync", kFile},
    {SYS_sync_file_range, "sync_file_range", kFile},
    {SYS_ftruncate, "ftruncate", kFile},
    {SYS_fallocate, "fallocate", kFile},
    {SYS_flock, "flock", kFile},
    {SYS_fcntl, "fcntl", kFile},
    {SYS_ioctl, "ioctl", kFile},
    {SYS_fstat, "fstat", kFile},
    {SYS_close, "close", kFile},
    {SYS_splice, "splice", kFile},
    {SYS_openat, "openat", kOther},
    {SYS_statx, "statx", kOther},
    {SYS_ppoll, "ppoll", kPoll},
    {SYS_pselect6, "pselect6", kSelect},
    {SYS_epoll_pwait, "epoll_pwait", kEpoll},
    {SYS_futex, "futex", kFutex},
    {SYS_nanosleep, "nanosleep", kSleep},
    {SYS_clock_nanosleep, "clock_nanosleep", kSleep},
    {SYS_wait4, "wait4", kWait},
    {SYS_waitid, "waitid", kWait},
    {SYS_rt_sigtimedwait, "rt_sigtimedwait", kOther},
    {SYS_rt_sigsuspend, "rt_sigsuspend", kOther},
    {SYS_msgrcv, "msgrcv", kOther},
    {SYS_msgsnd, "msgsnd", kOther},
    {SYS_semop, "semop", kOther},
    {SYS_semtimedop, "semtimedop", kOther},
    {SYS_mmap, "mmap", kOther},
    {SYS_munmap, "munmap", kOther},
    {SYS_madvise, "madvise", kOther},
    {SYS_mprotect, "mprotect", kOther},
    {SYS_execve, "execve", kOther},
    {SYS_exit_group, "exit_group", kOther},
    {SYS_io_uring_enter, "io_uring_enter", kFile},
#ifdef SYS_epoll_wait
    {SYS_epoll_wait, "epoll_wait", kEpoll},
    {SYS_poll, "poll", kPoll},
    {SYS_select, "select", kSelect},
    {SYS_pause, "pause", kOther},
    {SYS_open, "open", kOther},
    {SYS_stat, "stat", kOther},
    {SYS_lstat, "lstat", kOther},
#endif
};

}  // namespace

std::optional<SystemCall> parse_system_call(std::string_view text) {
  constexpr size_t kWords = 9;  // number, six arguments, stack pointer, instruction pointer
  const auto words = split(trim(text), ' ');
  const auto number = parse_integer(words[0]);
  if (words.size() != kWords || !number || *number < 0) {
    return std::nullopt;
  }
  SystemCall call{.number = *number};
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    std::string_view word = words[i + 1];
    if (!word.starts_with("0x")) {
      return std::nullopt;
    }
    word.remove_prefix(2);
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), call.arguments[i], 16);
    if (code != std::errc{} || end != word.data() + word.size()) {
      return std::nullopt;
    }
  }
  return call;
}

std::optional<CallInfo> call_info(int64_t number) {
  const auto found = std::ranges::find(kCalls, number, &CallInfo::number);
  return found == std::end(kCalls) ? std::nullopt : std::optional(*found);
}

std::string call_name(int64_t number) {
  const auto info = call_info(number);
  return info ? std::string(info->name) : fmt::format("system call {}", number);
}

}  // namespace stalltrace::stacks
