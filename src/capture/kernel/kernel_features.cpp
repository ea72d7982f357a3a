// SPDX-License-Identifier: Apache-2.0
#include "capture/kernel/kernel_features.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <linux/bpf.h>
#include <unistd.h>

#include <initializer_list>
#include <vector>

#include "base/handle.h"
#include "capture/kernel/uprobe_multi.h"

namespace stalltrace::capture {
namespace {

constexpr uint8_t kMove = BPF_ALU64 | BPF_MOV;

template <unsigned target>
constexpr bpf_insn set(int32_t value) {
  return {.code = kMove | BPF_K, .dst_reg = target, .imm = value};
}
template <unsigned target, unsigned source>
constexpr bpf_insn copy() {
  return {.code = kMove | BPF_X, .dst_reg = target, .src_reg = source};
}
constexpr bpf_insn call(int32_t helper) { return {.code = BPF_JMP | BPF_CALL, .imm = helper}; }
/// The program's first argument, while register 1 is the context.
template <unsigned target>
constexpr bpf_insn load_argument() {
  return {.code = BPF_LDX | BPF_MEM | BPF_DW, .dst_reg = target, .src_reg = BPF_REG_1};
}
constexpr bpf_insn kExit{.code = BPF_JMP | BPF_EXIT};

class Code {
 public:
  Code(std::initializer_list<bpf_insn> code) : code_(code) {}
  /// Loads a map's descriptor into register 1, which takes two instructions.
  Code& load_map(int map) {
    code_.push_back(
        {.code = BPF_LD | BPF_IMM | BPF_DW, .dst_reg = BPF_REG_1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = map});
    code_.push_back({});
    return *this;
  }
  Code& then(std::initializer_list<bpf_insn> more) {
    code_.insert(code_.end(), more);
    return *this;
  }
  [[nodiscard]] UniqueFd load(bpf_prog_type type, bpf_attach_type attach = {}, int32_t attach_btf_id = 0) const {
    LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = attach,
                .attach_btf_id = static_cast<uint32_t>(attach_btf_id));
    return UniqueFd(bpf_prog_load(type, nullptr, "GPL", code_.data(), code_.size(), &options));
  }

 private:
  std::vector<bpf_insn> code_;
};

/// A map of one int by task or socket; the kernel refuses storage maps without type information.
UniqueFd make_storage(bpf_map_type type) {
  const std::unique_ptr<btf, Free<btf__free>> types(btf__new_empty());
  const int integer = types ? btf__add_int(types.get(), "int", sizeof(int), BTF_INT_SIGNED) : -1;
  if (integer < 0 || btf__load_into_kernel(types.get()) != 0) {
    return {};
  }
  LIBBPF_OPTS(bpf_map_create_opts, options, .btf_fd = static_cast<uint32_t>(btf__fd(types.get())),
              .btf_key_type_id = static_cast<uint32_t>(integer), .btf_value_type_id = static_cast<uint32_t>(integer),
              .map_flags = BPF_F_NO_PREALLOC);
  return UniqueFd(bpf_map_create(type, nullptr, sizeof(int), sizeof(int), 0, &options));
}

bool has_task_storage(const KernelTypes& types) {
  const UniqueFd map = make_storage(BPF_MAP_TYPE_TASK_STORAGE);
  Code code{call(BPF_FUNC_get_current_task_btf), copy<BPF_REG_2, BPF_REG_0>()};
  code.load_map(map.get()).then(
      {set<BPF_REG_3>(0), set<BPF_REG_4>(0), call(BPF_FUNC_task_storage_get), set<BPF_REG_0>(0), kExit});
  return map && code.load(BPF_PROG_TYPE_TRACING, BPF_TRACE_RAW_TP, types.tracepoint_id("sched_switch"));
}

bool has_socket_storage(const KernelTypes& types) {
  const UniqueFd map = make_storage(BPF_MAP_TYPE_SK_STORAGE);
  Code code{load_argument<BPF_REG_6>(), copy<BPF_REG_2, BPF_REG_6>()};
  code.load_map(map.get()).then({set<BPF_REG_3>(0), set<BPF_REG_4>(0), call(BPF_FUNC_sk_storage_get),
                                 copy<BPF_REG_1, BPF_REG_6>(), call(BPF_FUNC_get_socket_cookie), set<BPF_REG_0>(0),
                                 kExit});
  return map && code.load(BPF_PROG_TYPE_TRACING, BPF_TRACE_RAW_TP, types.tracepoint_id("tcp_retransmit_skb"));
}

bool has_attach_cookie() {
  const Code code{call(BPF_FUNC_get_attach_cookie), set<BPF_REG_0>(0), kExit};
  return static_cast<bool>(code.load(BPF_PROG_TYPE_KPROBE));
}

bool has_atomic_fetch() {
  const Code code{{.code = BPF_ST | BPF_MEM | BPF_DW, .dst_reg = BPF_REG_10, .off = -8},
                  set<BPF_REG_1>(1),
                  {.code = BPF_STX | BPF_ATOMIC | BPF_DW,
                   .dst_reg = BPF_REG_10,
                   .src_reg = BPF_REG_1,
                   .off = -8,
                   .imm = BPF_ADD | BPF_FETCH},
                  set<BPF_REG_0>(0),
                  kExit};
  return static_cast<bool>(code.load(BPF_PROG_TYPE_KPROBE));
}

/// Loading is not proof: arm64 loads such programs from 6.0 on, and attaches them from 6.4 on.
bool has_function_exits(const KernelTypes& types) {
  const int32_t function = types.function_id("tcp_sendmsg");
  const Code code{set<BPF_REG_0>(0), kExit};
  const UniqueFd program = function > 0 ? code.load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FEXIT, function) : UniqueFd();
  return program && UniqueFd(bpf_raw_tracepoint_open(nullptr, program.get()));
}

}  // namespace

KernelFeatures probe_kernel_features(const KernelTypes& types) {
  return {.task_storage = has_task_storage(types),
          .socket_storage = has_socket_storage(types),
          .attach_cookie = has_attach_cookie(),
          .atomic_fetch = has_atomic_fetch(),
          .uprobe_multi = has_uprobe_multi(),
          .function_exits = has_function_exits(types),
          .kernel_probes = ::access("/sys/bus/event_source/devices/kprobe/type", R_OK) == 0};
}

}  // namespace stalltrace::capture
