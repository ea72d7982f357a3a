// SPDX-License-Identifier: Apache-2.0
#include "autopsy/native/call_names.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/text.h"
#include "capture/call_table.h"

namespace stalltrace::autopsy {
namespace {

struct PythonCall {
  std::string_view function;
  std::optional<Operation> op;
};

constexpr PythonCall kPythonCalls[] = {
    {"all_reduce", Operation::kAllReduce},
    {"all_reduce_coalesced", Operation::kAllReduce},
    {"allreduce", Operation::kAllReduce},
    {"all_gather", Operation::kAllGather},
    {"all_gather_into_tensor", Operation::kAllGather},
    {"all_gather_object", Operation::kAllGather},
    {"_all_gather_base", Operation::kAllGather},
    {"allgather", Operation::kAllGather},
    {"reduce_scatter", Operation::kReduceScatter},
    {"reduce_scatter_tensor", Operation::kReduceScatter},
    {"_reduce_scatter_base", Operation::kReduceScatter},
    {"broadcast", Operation::kBroadcast},
    {"broadcast_object_list", Operation::kBroadcast},
    {"reduce", Operation::kReduce},
    {"all_to_all", Operation::kAllToAll},
    {"all_to_all_single", Operation::kAllToAll},
    {"alltoall", Operation::kAllToAll},
    {"gather", Operation::kGather},
    {"gather_object", Operation::kGather},
    {"scatter", Operation::kScatter},
    {"scatter_object_list", Operation::kScatter},
    {"barrier", Operation::kBarrier},
    {"monitored_barrier", Operation::kBarrier},
    {"send", Operation::kSend},
    {"recv", Operation::kRecv},
    {"init_process_group", Operation::kCommInitRank},
    {"new_group", Operation::kCommInitRank},
    {"synchronize", std::nullopt},
};

struct GlooCall {
  std::string_view name;
  Operation op;
};

constexpr GlooCall kGlooCalls[] = {
    {"allreduce", Operation::kAllReduce}, {"allgather", Operation::kAllGather}, {"allgatherv", Operation::kAllGather},
    {"broadcast", Operation::kBroadcast}, {"reduce", Operation::kReduce},       {"gather", Operation::kGather},
    {"gatherv", Operation::kGather},      {"scatter", Operation::kScatter},     {"alltoall", Operation::kAllToAll},
    {"alltoallv", Operation::kAllToAll},  {"barrier", Operation::kBarrier},
};

std::optional<OpenCall> gloo_call(std::string_view function) {
  constexpr std::string_view kGloo = "gloo::";
  if (!function.starts_with(kGloo)) {
    return std::nullopt;
  }
  const std::string_view name = function.substr(kGloo.size(), function.find('(') - kGloo.size());
  const auto found = std::ranges::find(kGlooCalls, name, &GlooCall::name);
  return found == std::end(kGlooCalls)
             ? std::nullopt
             : std::optional(OpenCall{std::string(kGloo) + std::string(name), found->op, Witness::kNative});
}

/// PyTorch's waits in native code: for the gradients' reduction, for an asynchronous call, for a key of the store.
std::optional<OpenCall> framework_wait(std::string_view function) {
  constexpr std::array<std::string_view, 3> kWaits{"::finalize_backward", "::wait", "::synchronize"};
  const std::string_view name = function.substr(0, function.find('('));
  const bool waits = name.starts_with("c10d::") &&
                     std::ranges::any_of(kWaits, [&](std::string_view wait) { return name.ends_with(wait); });
  return waits ? std::optional(OpenCall{std::string(name), std::nullopt, Witness::kNative}) : std::nullopt;
}

/// Aliases have a prefix: PMPI_Allreduce, pncclAllReduce.
std::string_view public_name(std::string_view function) {
  const bool alias = function.starts_with("PMPI_") || function.starts_with("pnccl");
  return alias ? function.substr(1) : function;
}

std::optional<OpenCall> library_call(std::string_view function) {
  const std::string_view name = public_name(function);
  const auto calls = capture::call_table();
  const auto found = std::ranges::find(calls, name, &capture::Call::symbol);
  if (found == calls.end() || name.starts_with("_Z")) {
    return std::nullopt;
  }
  if (found->family == capture::CallFamily::kGpuRuntime) {
    // Others of that family only enqueue work.
    return name.find("Synchronize") == std::string_view::npos
               ? std::nullopt
               : std::optional(OpenCall{std::string(name), std::nullopt, Witness::kNative});
  }
  const bool has_operation = found->spec.kind == ST_CALL_DATA || found->spec.kind == ST_CALL_COMM_INIT ||
                             found->spec.kind == ST_CALL_COMM_SPLIT;
  return OpenCall{std::string(name),
                  has_operation ? std::optional(static_cast<Operation>(found->spec.operation)) : std::nullopt,
                  Witness::kNative};
}

}  // namespace

std::optional<OpenCall> call_of_function(std::string_view function) {
  if (auto wait = framework_wait(function)) {
    return wait;
  }
  const auto gloo = gloo_call(function);
  return gloo ? gloo : library_call(function);
}

std::optional<OpenCall> call_of_python(std::string_view function, std::string_view file) {
  if (file.find("/torch/distributed/") == std::string_view::npos && file.find("/horovod/") == std::string_view::npos) {
    return std::nullopt;
  }
  const auto found = std::ranges::find(kPythonCalls, function, &PythonCall::function);
  return found == std::end(kPythonCalls) ? std::nullopt
                                         : std::optional(OpenCall{std::string(function), found->op, Witness::kPython});
}

}  // namespace stalltrace::autopsy
