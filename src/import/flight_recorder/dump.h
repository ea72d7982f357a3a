// SPDX-License-Identifier: Apache-2.0
// A Flight Recorder dump, as PyTorch 2.2 to 2.9 write it ("version" 1.x to 2.x): one rank's newest collectives. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/python_frames.h"
#include "base/result.h"
#include "model/operation.h"

namespace stalltrace::import {

struct DumpEntry {
  enum class State : uint8_t { kUnknown, kScheduled, kStarted, kCompleted };

  std::string group;  // name of the process group
  std::string group_description;
  bool group_known = true;      // false: the group has only a number, which each process gives by itself
  std::optional<Operation> op;  // none: not clear from its name, such as "nccl:coalesced"
  Library library = Library::kNccl;
  std::optional<int64_t> number;  // collective_seq_id; none for Sends and Recvs
  bool point_to_point = false;
  State state = State::kUnknown;
  bool retired = false;
  int64_t created_ns = 0;
  std::optional<int64_t> started_ns;
  std::optional<int64_t> completed_ns;
  std::optional<int64_t> count;  // elements, where it has to be the same on all ranks
  std::optional<int32_t> datatype;
  std::optional<uint32_t> stack;  // index in Dump::stacks
};

struct Dump {
  std::string version;
  std::map<std::string, std::vector<int32_t>> groups;  // name -> global ranks; empty: not in the dump
  std::vector<DumpEntry> entries;                      // oldest first
  std::vector<std::vector<PythonFrame>> stacks;        // each once; innermost frame first
  uint64_t entries_left = 0;                           // older ones that were not kept
  uint64_t stacks_left = 0;                            // of entries that were kept
};

/// Pickle or JSON, by the first byte.
Result<Dump> read_dump(std::string_view bytes);

/// The rank in a dump's path: "..._rank_3", "nccl_trace_rank_3.json", "trace3".
std::optional<int32_t> rank_of_dump(std::string_view path);

}  // namespace stalltrace::import
