// SPDX-License-Identifier: Apache-2.0
#include "capture/uprobe_multi.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace stalltrace::capture {
namespace {

constexpr uint32_t kUprobeMultiReturn = 1;  // BPF_F_UPROBE_MULTI_RETURN

/// The uprobe_multi arm of union bpf_attr's link_create, as linux/bpf.h has it since 6.6; older headers lack it.
struct LinkCreate {
  uint32_t program_fd;
  uint32_t target_fd;
  uint32_t attach_type;
  uint32_t flags;
  uint64_t path;
  uint64_t offsets;
  uint64_t ref_ctr_offsets;
  uint64_t cookies;
  uint32_t count;
  uint32_t multi_flags;
  uint32_t pid;
  uint32_t padding;
};

uint64_t address_of(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

}  // namespace

Result<UniqueFd> link_uprobe_multi(int program_fd, const std::string& path, std::span<const uint64_t> offsets,
                                   std::span<const uint64_t> cookies, bool at_return,
                                   std::span<const uint64_t> semaphores) {
  LinkCreate attributes{};
  attributes.program_fd = static_cast<uint32_t>(program_fd);
  attributes.attach_type = kTraceUprobeMulti;
  attributes.path = address_of(path.c_str());
  attributes.offsets = address_of(offsets.data());
  attributes.ref_ctr_offsets = address_of(semaphores.data());
  attributes.cookies = address_of(cookies.data());
  attributes.count = static_cast<uint32_t>(offsets.size());
  attributes.multi_flags = at_return ? kUprobeMultiReturn : 0;
  const long fd = syscall(SYS_bpf, BPF_LINK_CREATE, &attributes, sizeof attributes);
  if (fd < 0) {
    return fail_errno("attach " + path, errno);
  }
  return UniqueFd(static_cast<int>(fd));
}

}  // namespace stalltrace::capture
