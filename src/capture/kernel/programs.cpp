// SPDX-License-Identifier: Apache-2.0
#include "capture/kernel/programs.h"

#include <algorithm>

namespace stalltrace::capture {
namespace {

using enum EvidenceKind;
using Lacks = std::function<std::string(const KernelTypes&, const KernelFeatures&)>;

std::string lacks_nothing(const KernelTypes&, const KernelFeatures&) { return {}; }

/// " (Linux 5.14)"; empty where all kernels that can be traced give this kind in full.
std::string since_text(EvidenceKind kind) {
  const std::string_view version = info_of(kind).since;
  return version == kOldestTraced ? "" : " (Linux " + std::string(version) + ")";
}

/// `since`: the first mainline kernel with that tracepoint, as text, where it may be lacking.
Lacks tracepoint(std::string name, std::string since = {}) {
  return [name = std::move(name), since = std::move(since)](const KernelTypes& types, const KernelFeatures&) {
    return types.has_tracepoint(name) ? std::string() : "this kernel has no tracepoint " + name + since;
  };
}

std::string lacks_drop_reasons(const KernelTypes& types, const KernelFeatures&) {
  return types.has_enum("skb_drop_reason") ? std::string()
                                           : "this kernel gives no reason for dropped packets" + since_text(kHostDrops);
}

std::string lacks_sched_info(const KernelTypes& types, const KernelFeatures&) {
  return types.has_sched_info()
             ? ""
             : "this kernel was built without CONFIG_SCHED_INFO: that time counts as blocked, for want of its start";
}

/// `recvmsg_parameters`: number of parameters of tcp_recvmsg, 6 before Linux 5.19 and 5 since.
Lacks function_exits(uint32_t recvmsg_parameters) {
  return [=](const KernelTypes& types, const KernelFeatures& features) -> std::string {
    if (!features.function_exits) {
      return "this kernel attaches no programs to exits of functions (fexit)";
    }
    return types.parameters_of("tcp_recvmsg") == recvmsg_parameters ? "" : "tcp_recvmsg has other parameters";
  };
}

std::string lacks_kernel_probes(const KernelTypes&, const KernelFeatures& features) {
  return features.kernel_probes ? "" : "this kernel has no kprobes";
}

std::string lacks_atomic_fetch(const KernelTypes&, const KernelFeatures& features) {
  return features.atomic_fetch ? std::string()
                               : "this kernel has no atomic operations that return a value" + since_text(kCalls);
}

constexpr std::string_view kByFunctionExits = "by the exits of tcp_sendmsg and tcp_recvmsg (fexit)";

EvidenceRow at_tracepoint(EvidenceKind kind, const char* name) {
  return {kind, {{{name}, tracepoint(name, since_text(kind)), ""}}};
}

const std::vector<EvidenceRow>& rows() {
  static const std::vector<EvidenceRow> kRows{
      {kCalls,
       {{{"call_entry", "call_return"}, lacks_atomic_fetch, ""},
        {{"call_entry_without_atomic_fetch", "call_return"},
         lacks_nothing,
         "two threads that call on one communicator at the same instant may get one sequence number"}}},
      {kTransferMarks, {{{"step_moved"}, lacks_nothing, ""}}},
      at_tracepoint(kThreadWaits, "sched_switch"),
      {kRunQueue, {{{}, lacks_sched_info, ""}}},
      {kThreadStarts, {{{"sched_process_fork", "sched_process_exec"}, lacks_nothing, ""}}},
      at_tracepoint(kProcessExits, "sched_process_exit"),
      {kThreadListing, {{{"list_threads"}, lacks_nothing, ""}}},
      {kOpenConnections, {{{"list_sockets"}, lacks_nothing, ""}}},
      {kTransfers,
       {{{"sock_send_length", "sock_recv_length"}, tracepoint("sock_send_length", since_text(kTransfers)), ""},
        {{"tcp_sendmsg_exit", "tcp_recvmsg_exit"}, function_exits(5), kByFunctionExits},
        {{"tcp_sendmsg_exit", "tcp_recvmsg_nonblock_exit"}, function_exits(6), kByFunctionExits},
        {{"tcp_sendmsg_probe", "tcp_sendmsg_return_probe", "tcp_recvmsg_probe", "tcp_recvmsg_return_probe"},
         lacks_kernel_probes,
         "by kprobes at tcp_sendmsg and tcp_recvmsg"}}},
      at_tracepoint(kRetransmits, "tcp_retransmit_skb"),
      {kCongestionStates,
       {{{"tcp_cong_state_set"}, tracepoint("tcp_cong_state_set", since_text(kCongestionStates)), ""},
        {{"tcp_probe"}, tracepoint("tcp_probe"), "compared at every incoming segment and at retransmissions"}}},
      at_tracepoint(kResetsSent, "tcp_send_reset"),
      at_tracepoint(kResetsReceived, "tcp_receive_reset"),
      at_tracepoint(kSocketErrors, "inet_sk_error_report"),
      at_tracepoint(kConnects, "inet_sock_set_state"),
      {kHostDrops, {{{"kfree_skb"}, lacks_drop_reasons, ""}}},
      {kOutOfMemoryKills, {{{"mark_victim"}, tracepoint("mark_victim"), ""}}},
      {kPythonExceptions, {{{"python_raised"}, lacks_nothing, ""}}},
  };
  return kRows;
}

}  // namespace

std::span<const EvidenceRow> evidence_rows() { return rows(); }

std::vector<EvidenceChoice> choose_programs(const KernelTypes& types, const KernelFeatures& features,
                                            const Refusals& refused) {
  std::vector<EvidenceChoice> choices;
  for (const EvidenceRow& row : rows()) {
    EvidenceChoice choice{.kind = row.kind};
    for (const ProgramSet& set : row.sets) {
      std::string lacking = set.lacks(types, features);
      bool is_refused = false;
      for (const char* program : set.programs) {
        if (const auto found = refused.find(std::string_view(program)); lacking.empty() && found != refused.end()) {
          lacking = "the kernel refused the program " + found->first + ": " + found->second;
          is_refused = true;
        }
      }
      if (lacking.empty()) {
        choice.state = &set == &row.sets.front() ? EvidenceState::kFull : EvidenceState::kFallback;
        choice.programs = set.programs;
        choice.detail = set.how;
        break;
      }
      // The reason is what the best set lacks, unless the kernel refused a program that it should load.
      choice.refused = choice.refused || is_refused;
      if (choice.detail.empty() || is_refused) {
        choice.detail = std::move(lacking);
      }
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

bool uses_kernel_probes(std::span<const EvidenceChoice> choices) {
  return std::any_of(choices.begin(), choices.end(), [](const EvidenceChoice& choice) {
    return std::any_of(choice.programs.begin(), choice.programs.end(),
                       [](std::string_view program) { return program == "tcp_sendmsg_probe"; });
  });
}

}  // namespace stalltrace::capture
