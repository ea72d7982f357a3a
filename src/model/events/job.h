// SPDX-License-Identifier: Apache-2.0
// The parts of a job: nodes, processes, communicators, call stacks; and the events that could not be kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "model/events/event_traits.h"
#include "model/events/ids.h"
#include "model/operation.h"

namespace stalltrace {

struct Node {
  NodeId node_id = 0;
  std::string name;
  std::string hostname;
  std::string boot_id;
  std::string kernel;
  std::string agent_version;
  int64_t started_ns = 0;
  std::optional<int64_t> ended_ns;
  /// UTC minus CLOCK_MONOTONIC, used for every time of this node. Two nodes with one boot_id share a clock: their times
  /// differ exactly by the difference of these offsets.
  int64_t clock_offset_ns = 0;
  std::string missing_evidence;  // keys_of() the EvidenceKinds that this node can't record; empty: none, or unknown
};

/// A traced process.
struct Process {
  NodeId node_id = 0;
  int32_t pid = 0;
  int64_t start_ns = 0;
  std::string exe;
  std::string cmdline;
  std::optional<int32_t> rank;  // in the whole job
  RankSource rank_source = RankSource::kUnknown;
  std::optional<int32_t> local_rank;
  std::optional<int32_t> world_size;
  std::string job_id;
  std::string settings;  // environment variables that determine the job's set-up: NAME=VALUE, one a line
  uint64_t cgroup_id = 0;
  uint64_t netns = 0;
  std::optional<int64_t> exit_ns;
  std::optional<int32_t> exit_code;
  std::optional<int32_t> exit_signal;
  bool oom_killed = false;  // the kernel ended it for lack of memory
};

/// A communicator from one rank's point of view.
struct Communicator {
  NodeId node_id = 0;
  int32_t pid = 0;
  uint64_t comm_ptr = 0;
  CommHash comm_id_hash = 0;
  CommHash nccl_comm_hash = 0;
  std::optional<int32_t> rank;
  RankSource rank_source = RankSource::kUnknown;
  std::optional<int32_t> nranks;
  CommHash parent_hash = 0;
  std::optional<int32_t> split_color;
  std::optional<int32_t> split_key;
  int64_t created_ns = 0;  // first observation if it was made before tracing began
  std::optional<int64_t> destroyed_ns;
  /// Of one that was made before tracing began: how many collectives NCCL had launched on it before the first that has
  /// a row. Ranks count alike, so that this and Collective::seq together are a number that they share.
  std::optional<int64_t> calls_before;
};

/// A call stack. Its id is a hash of its content, so that nodes share stacks.
struct Stack {
  int64_t stack_id = 0;
  std::string frames;  // one frame per line, innermost first
};

/// Events that could not be kept, by source ("ring:collective", "store:disk_full", ...). Cumulative.
struct Loss {
  NodeId node_id = 0;
  std::string source;
  uint64_t count = 0;
};

template <>
struct EventTraits<Node> : StateTraits<Node> {
  static constexpr std::string_view kTable = "node";
  static auto key(const Node& row) { return row.node_id; }
  static int64_t begin_ns(const Node& row) { return row.started_ns; }
  static int64_t end_ns(const Node& row) { return end_or_forever(row.ended_ns); }
};

template <>
struct EventTraits<Process> : StateTraits<Process> {
  static constexpr std::string_view kTable = "process";
  static auto key(const Process& row) { return std::tuple(row.node_id, row.pid, row.start_ns); }
  static int64_t begin_ns(const Process& row) { return row.start_ns; }
  static int64_t end_ns(const Process& row) { return end_or_forever(row.exit_ns); }
};

template <>
struct EventTraits<Communicator> : StateTraits<Communicator> {
  static constexpr std::string_view kTable = "communicator";
  static auto key(const Communicator& row) { return std::tuple(row.node_id, row.pid, row.comm_ptr, row.created_ns); }
  static int64_t begin_ns(const Communicator& row) { return row.created_ns; }
  static int64_t end_ns(const Communicator& row) { return end_or_forever(row.destroyed_ns); }
};

template <>
struct EventTraits<Stack> : StateTraits<Stack> {
  static constexpr std::string_view kTable = "stack";
  static auto key(const Stack& row) { return row.stack_id; }
  static int64_t begin_ns(const Stack& /*row*/) { return 0; }
  static int64_t end_ns(const Stack& /*row*/) { return kForever; }
};

template <>
struct EventTraits<Loss> : StateTraits<Loss> {
  static constexpr std::string_view kTable = "loss";
  static auto key(const Loss& row) { return std::tuple(row.node_id, row.source); }
  static int64_t begin_ns(const Loss& /*row*/) { return 0; }
  static int64_t end_ns(const Loss& /*row*/) { return kForever; }
};

inline constexpr TypeList<Node, Process, Communicator, Stack, Loss> kJobTypes;

}  // namespace stalltrace
