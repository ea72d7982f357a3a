// SPDX-License-Identifier: Apache-2.0
#include "base/untrusted/system_call_filter.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstddef>
#include <vector>

namespace stalltrace {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif

constexpr sock_filter statement(uint16_t code, uint32_t k) { return {.code = code, .jt = 0, .jf = 0, .k = k}; }
constexpr sock_filter jump(uint16_t code, uint32_t k, uint8_t yes, uint8_t no) {
  return {.code = code, .jt = yes, .jf = no, .k = k};
}

constexpr sock_filter kAllow = statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
constexpr sock_filter kRefuse = statement(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);

}  // namespace

bool has_system_call_filters() { return ::prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0; }

bool allow_only(std::span<const AllowedCall> calls) {
  std::vector<sock_filter> filter{statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
                                  jump(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0), kRefuse,
                                  statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const AllowedCall& call : calls) {
    filter.push_back(jump(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call.number), 0, call.without ? 4 : 1));
    if (call.without) {
      const auto argument =
          static_cast<uint32_t>(offsetof(seccomp_data, args) + call.without->index * sizeof(uint64_t));
      filter.push_back(statement(BPF_LD | BPF_W | BPF_ABS, argument));
      filter.push_back(jump(BPF_JMP | BPF_JSET | BPF_K, call.without->refused_bits, 0, 1));
      filter.push_back(kRefuse);
    }
    filter.push_back(kAllow);
  }
  filter.push_back(kRefuse);
  const sock_fprog program{.len = static_cast<unsigned short>(filter.size()), .filter = filter.data()};
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

}  // namespace stalltrace
