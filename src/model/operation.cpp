// SPDX-License-Identifier: Apache-2.0
#include "model/operation.h"

#include <array>

#include "model/enum_text.h"

namespace stalltrace {
namespace {

struct OperationName {
  std::string_view stored;
  std::string_view display;
};

constexpr std::array<OperationName, kOperationCount> kOperations{{
    {"ALL_REDUCE", "AllReduce"},
    {"ALL_GATHER", "AllGather"},
    {"REDUCE_SCATTER", "ReduceScatter"},
    {"BROADCAST", "Broadcast"},
    {"REDUCE", "Reduce"},
    {"ALL_TO_ALL", "AllToAll"},
    {"GATHER", "Gather"},
    {"SCATTER", "Scatter"},
    {"BARRIER", "Barrier"},
    {"SEND", "Send"},
    {"RECV", "Recv"},
    {"COMM_INIT_RANK", "communicator set-up"},
    {"COMM_INIT_ALL", "communicator set-up"},
    {"COMM_SPLIT", "communicator split"},
    {"COMM_DESTROY", "communicator destruction"},
    {"COMM_ABORT", "communicator abort"},
    {"GROUP", "group"},
}};
constexpr std::array<std::string_view, 4> kLibraries{"nccl", "rccl", "mpi", "gloo"};
constexpr std::array<std::string_view, 7> kCompletions{"open",    "call",       "profiler", "sync",
                                                       "network", "unobserved", "captured"};
constexpr std::array<std::string_view, 6> kRankSources{"", "init", "environment", "plugin", "derived", "memory"};

struct Datatype {
  std::string_view name;
  int size;
};
constexpr std::array<Datatype, kNcclDatatypeCount> kNcclDatatypes{{
    {"int8", 1},
    {"uint8", 1},
    {"int32", 4},
    {"uint32", 4},
    {"int64", 8},
    {"uint64", 8},
    {"float16", 2},
    {"float32", 4},
    {"float64", 8},
    {"bfloat16", 2},
    {"float8e4m3", 1},
    {"float8e5m2", 1},
}};
constexpr std::array<std::string_view, 5> kReduceOps{"sum", "prod", "max", "min", "avg"};
constexpr std::array<std::string_view, 8> kNcclResults{
    "success",          "unhandled CUDA error", "unhandled system error", "internal error",
    "invalid argument", "invalid usage",        "remote error",           "in progress"};

}  // namespace

std::string_view to_text(Operation op) { return kOperations[static_cast<size_t>(op)].stored; }
std::string_view display_name(Operation op) { return kOperations[static_cast<size_t>(op)].display; }
std::string_view to_text(Library library) { return kLibraries[static_cast<size_t>(library)]; }
std::string_view to_text(Completion completion) { return kCompletions[static_cast<size_t>(completion)]; }
std::string_view to_text(RankSource source) { return kRankSources[static_cast<size_t>(source)]; }

std::optional<Operation> operation_from_text(std::string_view text) {
  for (size_t i = 0; i < kOperations.size(); ++i) {
    if (kOperations[i].stored == text) {
      return static_cast<Operation>(i);
    }
  }
  return std::nullopt;
}
std::optional<Library> library_from_text(std::string_view text) { return value_with_text<Library>(kLibraries, text); }
std::optional<Completion> completion_from_text(std::string_view text) {
  return value_with_text<Completion>(kCompletions, text);
}
RankSource rank_source_from_text(std::string_view text) {
  return value_with_text<RankSource>(kRankSources, text).value_or(RankSource::kUnknown);
}

std::string_view nccl_datatype_name(int datatype) {
  return datatype >= 0 && datatype < kNcclDatatypeCount ? kNcclDatatypes[static_cast<size_t>(datatype)].name : "";
}
int nccl_datatype_size(int datatype) {
  return datatype >= 0 && datatype < kNcclDatatypeCount ? kNcclDatatypes[static_cast<size_t>(datatype)].size : 0;
}
std::string_view nccl_reduce_op_name(int reduce_op) {
  if (reduce_op < 0) {
    return "";
  }
  return static_cast<size_t>(reduce_op) < kReduceOps.size() ? kReduceOps[static_cast<size_t>(reduce_op)] : "custom";
}
std::string_view nccl_result_name(int result) {
  return result >= 0 && static_cast<size_t>(result) < kNcclResults.size() ? kNcclResults[static_cast<size_t>(result)]
                                                                          : "unknown result";
}

int64_t payload_bytes(Operation op, int64_t count, int element_bytes, int nranks) {
  constexpr int64_t kMost = int64_t{1} << 53U;  // a recording's row that says more is left out (store/read/plausible.h)
  int64_t bytes = 0;
  if (!moves_data(op) || __builtin_mul_overflow(count, element_bytes, &bytes) ||
      (has_a_part_per_rank(op) && __builtin_mul_overflow(bytes, nranks, &bytes))) {
    return 0;
  }
  return bytes >= 0 && bytes <= kMost ? bytes : 0;
}

}  // namespace stalltrace
