// SPDX-License-Identifier: Apache-2.0
#include "capture/kernel/uprobe_multi.h"

#include <bpf/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>

namespace stalltrace::capture {
namespace {

constexpr uint32_t kUprobeMultiReturn = 1;  // BPF_F_UPROBE_MULTI_RETURN

/// The uprobe_multi member of union bpf_attr's link_create, as in linux/bpf.h since 6.6; older headers lack it.
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

bool has_uprobe_multi() {
  // Loads a program that only returns 0 and links it to a path that can't be probed: a kernel that knows the link type
  // answers EBADF (not a regular file), others EINVAL. libbpf uses the same test (src/features.c, since 1.3).
  const bpf_insn program[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
                              {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
  LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = kTraceUprobeMulti);
  const UniqueFd fd(bpf_prog_load(BPF_PROG_TYPE_KPROBE, nullptr, "GPL", program, std::size(program), &options));
  if (!fd) {
    return false;
  }
  const uint64_t offset = 0;
  errno = 0;
  const auto link = link_uprobe_multi(fd.get(), "/", std::span(&offset, 1), std::span(&offset, 1), false);
  return !link && errno == EBADF;
}

}  // namespace stalltrace::capture
