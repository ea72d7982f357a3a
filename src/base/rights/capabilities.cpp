// SPDX-License-Identifier: Apache-2.0
#include "base/rights/capabilities.h"

#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/file.h"
#include "base/text.h"

namespace stalltrace {
namespace {

constexpr std::array<std::string_view, 41> kNames{"CHOWN",
                                                  "DAC_OVERRIDE",
                                                  "DAC_READ_SEARCH",
                                                  "FOWNER",
                                                  "FSETID",
                                                  "KILL",
                                                  "SETGID",
                                                  "SETUID",
                                                  "SETPCAP",
                                                  "LINUX_IMMUTABLE",
                                                  "NET_BIND_SERVICE",
                                                  "NET_BROADCAST",
                                                  "NET_ADMIN",
                                                  "NET_RAW",
                                                  "IPC_LOCK",
                                                  "IPC_OWNER",
                                                  "SYS_MODULE",
                                                  "SYS_RAWIO",
                                                  "SYS_CHROOT",
                                                  "SYS_PTRACE",
                                                  "SYS_PACCT",
                                                  "SYS_ADMIN",
                                                  "SYS_BOOT",
                                                  "SYS_NICE",
                                                  "SYS_RESOURCE",
                                                  "SYS_TIME",
                                                  "SYS_TTY_CONFIG",
                                                  "MKNOD",
                                                  "LEASE",
                                                  "AUDIT_WRITE",
                                                  "AUDIT_CONTROL",
                                                  "SETFCAP",
                                                  "MAC_OVERRIDE",
                                                  "MAC_ADMIN",
                                                  "SYSLOG",
                                                  "WAKE_ALARM",
                                                  "BLOCK_SUSPEND",
                                                  "AUDIT_READ",
                                                  "PERFMON",
                                                  "BPF",
                                                  "CHECKPOINT_RESTORE"};

using Data = std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3>;

bool read_capabilities(Data& data) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  return ::syscall(SYS_capget, &header, data.data()) == 0;
}

}  // namespace

Capabilities held_capabilities() {
  Data data{};
  return read_capabilities(data) ? Capabilities{data[0].effective} | Capabilities{data[1].effective} << 32U : 0;
}

bool keep_capabilities(Capabilities kept) {
  Data data{};
  if (!read_capabilities(data)) {
    return false;
  }
  // The bounding set limits what an executed program can get back; it takes CAP_SETPCAP, which goes below.
  for (int number = 0; ::prctl(PR_CAPBSET_READ, number, 0, 0, 0) >= 0; ++number) {
    if ((kept & capability_bit(number)) == 0) {
      ::prctl(PR_CAPBSET_DROP, number, 0, 0, 0);
    }
  }
  for (size_t half = 0; half < data.size(); ++half) {
    const auto wanted = static_cast<uint32_t>(kept >> (32U * half));
    data[half].effective &= wanted;
    data[half].permitted &= wanted;
    data[half].inheritable &= wanted;
  }
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::syscall(SYS_capset, &header, data.data()) == 0;
}

size_t threads_with_more_than(Capabilities kept) {
  constexpr std::string_view kPermitted = "CapPrm:";
  size_t threads = 0;
  std::error_code unreadable;
  for (std::filesystem::directory_iterator thread("/proc/self/task", unreadable), end; !unreadable && thread != end;
       thread.increment(unreadable)) {
    const std::string status = read_file((thread->path() / "status").string()).value_or("");
    for (const std::string_view line : split(status, '\n')) {
      if (line.starts_with(kPermitted)) {
        const std::string number(line.substr(kPermitted.size()));
        threads += (std::strtoull(number.c_str(), nullptr, 16) & ~kept) != 0 ? 1 : 0;
      }
    }
  }
  return threads;
}

std::string capability_names(Capabilities set) {
  std::string names;
  for (int number = 0; number < 64; ++number) {
    if ((set & capability_bit(number)) != 0) {
      names += names.empty() ? "" : ", ";
      names += static_cast<size_t>(number) < kNames.size() ? fmt::format("CAP_{}", kNames[static_cast<size_t>(number)])
                                                           : fmt::format("capability {}", number);
    }
  }
  return names;
}

}  // namespace stalltrace
