// SPDX-License-Identifier: Apache-2.0
// Converts NCCL's names and numbers to those of the profiler file. Any thread; unknown or missing text is "unknown".
#pragma once

#include <cstdint>

namespace stalltrace::plugin {

/// "AllReduce" -> ST_BOX_OP_ALL_REDUCE
uint8_t operation_of(const char* name);

/// "ncclFloat32" -> 7, ncclDataType_t's number
uint8_t datatype_of(const char* name);

/// "RING" -> ST_BOX_ALGO_RING
uint8_t algorithm_of(const char* name);

/// "SIMPLE" -> ST_BOX_PROTO_SIMPLE
uint8_t protocol_of(const char* name);

/// The same for the numbers of interface v1, which are those of NCCL 2.23.
uint8_t operation_of(uint8_t nccl_function);
uint8_t datatype_of(uint8_t nccl_datatype);
uint8_t algorithm_of(uint8_t nccl_algorithm);
uint8_t protocol_of(uint8_t nccl_protocol);

}  // namespace stalltrace::plugin
