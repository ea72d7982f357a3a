// SPDX-License-Identifier: Apache-2.0
// The vocabulary of collective libraries: operations, datatypes, reduce-ops, and how the end of a call is known. The
// texts are those in a recording (docs/recording.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace stalltrace {

enum class Library : uint8_t { kNccl, kRccl, kMpi, kGloo };

enum class Operation : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kAllToAll,
  kGather,
  kScatter,
  kBarrier,
  kSend,
  kRecv,
  kCommInitRank,
  kCommInitAll,
  kCommSplit,
  kCommDestroy,
  kCommAbort,
  kGroup,
};
inline constexpr int kOperationCount = static_cast<int>(Operation::kGroup) + 1;

/// How the end of a collective is known. The launch is never used as a duration.
enum class Completion : uint8_t {
  kOpen,        // not ended, or its end was not observed: duration unknown
  kCall,        // a blocking call returned
  kProfiler,    // reported by the NCCL profiler plugin
  kSync,        // a later stream, event or device synchronisation returned
  kNetwork,     // the last byte on the rank's sockets
  kUnobserved,  // launched, and its end was not reported: it may have ended long ago
  kCaptured,    // it did not run, but was captured into a CUDA graph, whose launches run it
};

/// The origin of a rank number; `kUnknown` means there is none.
enum class RankSource : uint8_t { kUnknown, kInit, kEnvironment, kPlugin, kDerived, kMemory };

/// True for operations that move data between ranks and therefore carry a sequence number.
constexpr bool is_collective(Operation op) { return op <= Operation::kBarrier; }
constexpr bool is_point_to_point(Operation op) { return op == Operation::kSend || op == Operation::kRecv; }
constexpr bool is_communicator_call(Operation op) {
  return op >= Operation::kCommInitRank && op <= Operation::kCommAbort;
}
constexpr bool moves_data(Operation op) { return is_collective(op) || is_point_to_point(op); }

/// True for operations in which every rank needs every other: no rank completes before the last has arrived.
constexpr bool synchronises(Operation op) {
  return op == Operation::kAllReduce || op == Operation::kAllGather || op == Operation::kReduceScatter ||
         op == Operation::kAllToAll || op == Operation::kBarrier;
}
/// True for operations to which all ranks give the same number of elements in every library; counts of the others may
/// differ by rank, as in MPI's "v" variants.
constexpr bool needs_equal_sizes(Operation op) {
  return op == Operation::kAllReduce || op == Operation::kBroadcast || op == Operation::kReduce;
}

/// "ALL_REDUCE", "SEND", "COMM_INIT_RANK", ...
std::string_view to_text(Operation op);
/// "nccl", "rccl", "mpi", "gloo"
std::string_view to_text(Library library);
/// "open", "call", "profiler", "sync", "network", "unobserved", "captured"
std::string_view to_text(Completion completion);
/// "", "init", "environment", "plugin", "derived"
std::string_view to_text(RankSource source);

std::optional<Operation> operation_from_text(std::string_view text);
std::optional<Library> library_from_text(std::string_view text);
std::optional<Completion> completion_from_text(std::string_view text);
RankSource rank_source_from_text(std::string_view text);

/// The usual name of an operation: "AllReduce", "Send", "communicator set-up".
std::string_view display_name(Operation op);

/// NCCL's ncclDataType_t values 0..11 (nccl.h, stable since 2.0; float8 since 2.24).
inline constexpr int kNcclDatatypeCount = 12;
/// "float32"; empty for a value outside the table.
std::string_view nccl_datatype_name(int datatype);
/// Bytes of one element; 0 for a value outside the table.
int nccl_datatype_size(int datatype);
/// ncclRedOp_t 0..4: "sum", "prod", "max", "min", "avg"; "custom" above, empty below zero.
std::string_view nccl_reduce_op_name(int reduce_op);
/// "success", "unhandled CUDA error", ... for ncclResult_t; "unknown result" outside the table.
std::string_view nccl_result_name(int result);

/// True if a call's return code means that it was refused. NCCL's and RCCL's ncclInProgress (7) is no refusal: the work
/// continues in the background. For all other libraries only 0 is success.
constexpr bool call_failed(Library library, int32_t return_code) {
  constexpr int32_t kNcclInProgress = 7;
  const bool has_in_progress = library == Library::kNccl || library == Library::kRccl;
  return return_code != 0 && !(has_in_progress && return_code == kNcclInProgress);
}

/// True if a call's payload is one rank's part times the number of ranks: AllGather, ReduceScatter, AllToAll, Gather
/// and Scatter.
constexpr bool has_a_part_per_rank(Operation op) {
  return op == Operation::kAllGather || op == Operation::kReduceScatter || op == Operation::kAllToAll ||
         op == Operation::kGather || op == Operation::kScatter;
}

/// Bytes of user data that a rank contributes or receives in one call, whichever is larger. It is the size that
/// nccl-tests prints: count × element size, times nranks for AllGather, ReduceScatter, AllToAll, Gather and Scatter. 0
/// if a needed number is unknown, or if the product overflows.
int64_t payload_bytes(Operation op, int64_t count, int element_bytes, int nranks);

}  // namespace stalltrace
