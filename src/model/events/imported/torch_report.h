// SPDX-License-Identifier: Apache-2.0
// What PyTorch's own checks print of a job, mostly with TORCH_DISTRIBUTED_DEBUG=DETAIL, as the text of a row of
// log_line. The sentences are those of torch/csrc/distributed/c10d/ProcessGroupWrapper.cpp (1.9 to 2.9), reducer.cpp
// and ProcessGroupGloo.cpp there.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model/operation.h"

namespace stalltrace {

/// "CollectiveFingerPrint(SequenceNumber=7, OpType=ALLREDUCE, TensorShape=[10], TensorDtypes=Float, ...)"
struct TorchFingerprint {
  std::optional<int64_t> number;
  std::string_view op;      // "ALLREDUCE"
  std::string_view shape;   // "[20, 10]" of its first tensor; empty: none
  std::string_view dtypes;  // "Float"; empty: none
};

struct TorchReport {
  enum class Kind : uint8_t {
    kMismatch,          // two ranks entered different collectives: `ranks` has both, and `fingerprints` theirs
    kUnusedParameters,  // a rank did not reduce the gradients of some parameters: `parameters`
    kBarrier,           // ranks did not come to a monitored barrier within its time limit
  };
  Kind kind = Kind::kMismatch;
  std::vector<int32_t> ranks;  // in their process group, which need not be that of the job
  std::vector<TorchFingerprint> fingerprints;
  std::string_view parameters;  // "fc2.weight, fc2.bias"; may be cut off
  std::string_view text;        // the report without what stands before it
};

/// "ALLREDUCE", "_ALLGATHER_BASE", ...: PyTorch's name (OpType) of an operation; kGroup if there is none like it.
Operation operation_of_torch(std::string_view type);

/// None for all other lines. Views point into `line`.
std::optional<TorchReport> read_torch_report(std::string_view line);

}  // namespace stalltrace
