// SPDX-License-Identifier: Apache-2.0
#include "capture/kernel/perf_uprobe.h"

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <iterator>

#include "base/file.h"

namespace stalltrace::capture {
namespace {

constexpr std::string_view kRemedy = "perf uprobes need CAP_SYS_ADMIN on this kernel: run as root";
constexpr std::string_view kDescriptorRemedy =
    "this kernel needs a file descriptor for every probe: raise the hard limit of open files (ulimit -Hn)";

/// The number of the perf event source "uprobe", assigned at boot.
Result<uint32_t> uprobe_source() {
  const auto text = read_file("/sys/bus/event_source/devices/uprobe/type", 64);
  if (!text) {
    return fail("this kernel has no perf uprobes (CONFIG_UPROBE_EVENTS)",
                "use a kernel built with them, or Linux 6.6, or record without tracing (stalltrace run --no-trace)",
                ErrorKind::kUnsupported);
  }
  return static_cast<uint32_t>(std::strtoul(text->c_str(), nullptr, 10));
}

std::unexpected<Error> refuse(const std::string& path, int error) {
  return fail_errno("attach " + path, error, std::string(error == EMFILE ? kDescriptorRemedy : kRemedy));
}

}  // namespace

Result<UniqueFd> open_perf_uprobe(int program_fd, const std::string& path, const UprobeLocation& location,
                                  std::optional<uint64_t> cookie) {
  ST_ASSIGN(const uint32_t source, uprobe_source());
  perf_event_attr attributes{};
  attributes.type = source;
  attributes.size = sizeof attributes;
  // Bit 0: at the function's return (/sys/bus/event_source/devices/uprobe/format/retprobe); from bit 32: the counter.
  attributes.config = (location.at_return ? 1U : 0U) | location.semaphore_offset << 32;
  attributes.config1 = reinterpret_cast<uint64_t>(path.c_str());
  attributes.config2 = location.offset;
  // The event covers all processes. The CPU is a formality: the program runs on each.
  UniqueFd event(static_cast<int>(::syscall(SYS_perf_event_open, &attributes, -1, 0, -1, PERF_FLAG_FD_CLOEXEC)));
  if (!event) {
    return refuse(path, errno);
  }
  if (cookie) {
    LIBBPF_OPTS(bpf_link_create_opts, options);
    options.perf_event.bpf_cookie = *cookie;
    UniqueFd link(bpf_link_create(program_fd, event.get(), BPF_PERF_EVENT, &options));
    if (!link) {
      return refuse(path, errno);
    }
    if (::ioctl(event.get(), PERF_EVENT_IOC_ENABLE, 0) != 0) {
      return refuse(path, errno);
    }
    return link;  // it owns the event
  }
  if (::ioctl(event.get(), PERF_EVENT_IOC_SET_BPF, program_fd) != 0 ||
      ::ioctl(event.get(), PERF_EVENT_IOC_ENABLE, 0) != 0) {
    return refuse(path, errno);
  }
  return event;
}

Result<UniqueFd> load_cookie_program(int cookie_map, int programs_map, uint32_t slot, uint64_t cookie) {
  constexpr uint8_t kMove = BPF_ALU64 | BPF_MOV;
  constexpr uint8_t kCall = BPF_JMP | BPF_CALL;
  constexpr uint8_t kLoadImmediate = BPF_LD | BPF_IMM | BPF_DW;  // takes two instructions
  const bpf_insn program[] = {
      {.code = kMove | BPF_X, .dst_reg = BPF_REG_6, .src_reg = BPF_REG_1},  // the context
      {.code = BPF_ST | BPF_MEM | BPF_W, .dst_reg = BPF_REG_10, .off = -4},
      {.code = kMove | BPF_X, .dst_reg = BPF_REG_2, .src_reg = BPF_REG_10},
      {.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_2, .imm = -4},
      {.code = kLoadImmediate, .dst_reg = BPF_REG_1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = cookie_map},
      {},
      {.code = kCall, .imm = BPF_FUNC_map_lookup_elem},
      {.code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = BPF_REG_0, .off = 8},  // to the last but one
      {.code = kLoadImmediate, .dst_reg = BPF_REG_1, .imm = static_cast<int32_t>(cookie)},
      {.imm = static_cast<int32_t>(cookie >> 32)},
      {.code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = BPF_REG_0, .src_reg = BPF_REG_1},
      {.code = kMove | BPF_X, .dst_reg = BPF_REG_1, .src_reg = BPF_REG_6},
      {.code = kLoadImmediate, .dst_reg = BPF_REG_2, .src_reg = BPF_PSEUDO_MAP_FD, .imm = programs_map},
      {},
      {.code = kMove | BPF_K, .dst_reg = BPF_REG_3, .imm = static_cast<int32_t>(slot)},
      {.code = kCall, .imm = BPF_FUNC_tail_call},
      {.code = kMove | BPF_K, .dst_reg = BPF_REG_0},
      {.code = BPF_JMP | BPF_EXIT},
  };
  UniqueFd fd(bpf_prog_load(BPF_PROG_TYPE_KPROBE, nullptr, "GPL", program, std::size(program), nullptr));
  if (!fd) {
    return fail_errno("load a probe's program", errno);
  }
  return fd;
}

}  // namespace stalltrace::capture
