// SPDX-License-Identifier: Apache-2.0
// The calls of logs and dumps in their order: per communicator and rank the last ones, and how each process's log ends.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::analysis {

using LoggedProcessKey = std::pair<NodeId, int32_t>;

/// What all ranks have to agree on.
struct LoggedSignature {
  Operation op = Operation::kAllReduce;
  int64_t count = -1;  // -1: not known
  int32_t datatype = -1;
  int32_t root = -1;
  auto operator<=>(const LoggedSignature&) const = default;
};

struct LoggedCall {
  int64_t number = 0;  // on its communicator
  int64_t time_ns = 0;
  EventId event = 0;
  LoggedSignature signature;
  bool ended = false;
  bool open = false;  // neither: not known
  int64_t stack_id = 0;
};

/// One rank's calls on one communicator.
struct CallOrder {
  LoggedProcessKey process;
  uint64_t comm_ptr = 0;
  CommHash hash = 0;
  std::optional<int32_t> rank;
  int32_t nranks = 0;
  std::deque<LoggedCall> calls;  // the last ones, by number: more than kMostCallsAhead
  int64_t count = 0;             // of all
  EventId newest = 0;            // event of its newest call, also of one without a number
  bool left = false;             // it destroyed the communicator

  [[nodiscard]] int64_t last() const { return calls.empty() ? -1 : calls.back().number; }
  [[nodiscard]] const LoggedCall* call_at(int64_t number) const;
};

/// Some of a communicator's.
using OrderMembers = std::vector<const CallOrder*>;

struct CommOrder {
  CommHash hash = 0;
  bool named = false;  // the evidence says which communicator it is; else it was matched by its size
  int32_t nranks = 0;
  std::vector<CallOrder> members;  // by rank
};

struct ProcessLog {
  std::string node;
  bool has_pid = true;
  std::optional<int32_t> rank;  // in the job
  bool cut = false;             // what it called last is not known
  int64_t last_ns = 0;          // its last line
  EventId newest_call = 0;      // the newest of all its calls
  bool newest_is_pair = false;  // a Send or Recv
  CommHash newest_hash = 0;
  size_t threads_as_ranks = 0;  // largest number of its communicators with one hash
};

struct Timeout {
  std::optional<int32_t> rank;
  int64_t time_ns = 0;
  std::string text;
};

struct OrderEvidence {
  std::vector<CommOrder> comms;
  std::map<LoggedProcessKey, ProcessLog> processes;
  std::map<NodeId, Node> nodes;
  std::vector<Timeout> timeouts;
  std::map<int64_t, std::string> stacks;
  int64_t calls = 0;        // that move data
  int64_t pairs = 0;        // of them Sends and Recvs
  int64_t unplaced = 0;     // collectives without a number
  bool ends_known = false;  // some calls' ends are known
  bool timed = true;        // all calls have a time
  int64_t first_ns = 0;
  int64_t last_ns = 0;       // of all lines and calls
  int64_t last_call_ns = 0;  // of all beginnings and ends of calls

  /// In the job, if that is known; else in the communicator.
  [[nodiscard]] std::optional<int32_t> rank_of(const CallOrder& member) const;
  /// "step (train.py:88)": where the call was made in Python; empty: not known.
  [[nodiscard]] std::string location_of(const LoggedCall& call) const;
  [[nodiscard]] Culprit culprit(const CallOrder& member) const;
  [[nodiscard]] std::string describe(const CallOrder& member) const;
  [[nodiscard]] std::string short_name(const CallOrder& member) const;
  /// "rank 3", "ranks 0 to 6", "3 processes"
  [[nodiscard]] std::string names_of(const OrderMembers& members) const;
};

/// Reads a source of nodes without durations.
Result<OrderEvidence> read_order(EventSource& source);

/// "AllReduce 0x1e": logs print numbers in hexadecimal.
std::string call_name(const LoggedCall& call);

}  // namespace stalltrace::analysis
