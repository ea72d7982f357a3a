// SPDX-License-Identifier: Apache-2.0
#include "plugin/recorder/names.h"

#include <cstddef>

#include "plugin/wire/blackbox.h"

namespace stalltrace::plugin {
namespace {

/// FNV-1a: names are looked up by hash, in one pass over the text. names_test.cpp checks that there are no collisions.
constexpr uint64_t hash_of(const char* text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (; *text != '\0'; ++text) {
    hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001b3;
  }
  return hash;
}

struct Name {
  uint64_t hash;
  uint8_t code;
  consteval Name(const char* text, uint8_t number) : hash(hash_of(text)), code(number) {}
};

constexpr Name kOperations[] = {
    {"AllReduce", ST_BOX_OP_ALL_REDUCE},
    {"AllGather", ST_BOX_OP_ALL_GATHER},
    {"ReduceScatter", ST_BOX_OP_REDUCE_SCATTER},
    {"Broadcast", ST_BOX_OP_BROADCAST},
    {"Reduce", ST_BOX_OP_REDUCE},
    {"AlltoAll", ST_BOX_OP_ALL_TO_ALL},
    {"Gather", ST_BOX_OP_GATHER},
    {"Scatter", ST_BOX_OP_SCATTER},
    {"Send", ST_BOX_OP_SEND},
    {"Recv", ST_BOX_OP_RECV},
    {"SendRecv", ST_BOX_OP_SEND_RECV},
    {"PutSignal", ST_BOX_OP_PUT_SIGNAL},
    {"Signal", ST_BOX_OP_SIGNAL},
    {"WaitSignal", ST_BOX_OP_WAIT_SIGNAL},
};

constexpr Name kDatatypes[] = {
    {"ncclFloat32", 7}, {"ncclFloat16", 6}, {"ncclBfloat16", 9},    {"ncclInt8", 0},
    {"ncclUint8", 1},   {"ncclInt32", 2},   {"ncclUint32", 3},      {"ncclInt64", 4},
    {"ncclUint64", 5},  {"ncclFloat64", 8}, {"ncclFloat8e4m3", 10}, {"ncclFloat8e5m2", 11},
};

constexpr Name kAlgorithms[] = {
    {"RING", ST_BOX_ALGO_RING},
    {"TREE", ST_BOX_ALGO_TREE},
    {"NVLS", ST_BOX_ALGO_NVLS},
    {"NVLS_TREE", ST_BOX_ALGO_NVLS_TREE},
    {"COLLNET_DIRECT", ST_BOX_ALGO_COLLNET_DIRECT},
    {"COLLNET_CHAIN", ST_BOX_ALGO_COLLNET_CHAIN},
    {"PAT", ST_BOX_ALGO_PAT},
};

constexpr Name kProtocols[] = {
    {"SIMPLE", ST_BOX_PROTO_SIMPLE},
    {"LL", ST_BOX_PROTO_LL},
    {"LL128", ST_BOX_PROTO_LL128},
};

// Indexed by NCCL 2.23's numbers.
constexpr uint8_t kFunctionsV1[] = {ST_BOX_OP_BROADCAST,      ST_BOX_OP_REDUCE,     ST_BOX_OP_ALL_GATHER,
                                    ST_BOX_OP_REDUCE_SCATTER, ST_BOX_OP_ALL_REDUCE, ST_BOX_OP_SEND_RECV,
                                    ST_BOX_OP_SEND,           ST_BOX_OP_RECV};
constexpr uint8_t kAlgorithmsV1[] = {
    ST_BOX_ALGO_TREE,      ST_BOX_ALGO_RING, ST_BOX_ALGO_COLLNET_DIRECT, ST_BOX_ALGO_COLLNET_CHAIN, ST_BOX_ALGO_NVLS,
    ST_BOX_ALGO_NVLS_TREE, ST_BOX_ALGO_PAT};
constexpr uint8_t kProtocolsV1[] = {ST_BOX_PROTO_LL, ST_BOX_PROTO_LL128, ST_BOX_PROTO_SIMPLE};
constexpr uint8_t kDatatypesV1 = 10;  // number of datatypes; they are numbered as here

template <size_t Count>
uint8_t find(const Name (&names)[Count], const char* text, uint8_t unknown) {
  if (text == nullptr) {
    return unknown;
  }
  const uint64_t hash = hash_of(text);
  for (const Name& name : names) {
    if (name.hash == hash) {
      return name.code;
    }
  }
  return unknown;
}

template <size_t Count>
uint8_t at(const uint8_t (&codes)[Count], uint8_t number, uint8_t unknown) {
  return number < Count ? codes[number] : unknown;
}

}  // namespace

uint8_t operation_of(const char* name) { return find(kOperations, name, ST_BOX_OP_UNKNOWN); }
uint8_t datatype_of(const char* name) { return find(kDatatypes, name, ST_BOX_DATATYPE_UNKNOWN); }
uint8_t algorithm_of(const char* name) { return find(kAlgorithms, name, ST_BOX_ALGO_UNKNOWN); }
uint8_t protocol_of(const char* name) { return find(kProtocols, name, ST_BOX_PROTO_UNKNOWN); }

uint8_t operation_of(uint8_t nccl_function) { return at(kFunctionsV1, nccl_function, ST_BOX_OP_UNKNOWN); }
uint8_t algorithm_of(uint8_t nccl_algorithm) { return at(kAlgorithmsV1, nccl_algorithm, ST_BOX_ALGO_UNKNOWN); }
uint8_t protocol_of(uint8_t nccl_protocol) { return at(kProtocolsV1, nccl_protocol, ST_BOX_PROTO_UNKNOWN); }
uint8_t datatype_of(uint8_t nccl_datatype) {
  return nccl_datatype < kDatatypesV1 ? nccl_datatype : ST_BOX_DATATYPE_UNKNOWN;
}

}  // namespace stalltrace::plugin
