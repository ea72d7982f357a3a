// SPDX-License-Identifier: Apache-2.0
// One line of a job's output, as far as it is NCCL's or PyTorch's watchdog's: who wrote it, and what it says. The
// formats are those of NCCL 2.4 to 2.30 and of RCCL (src/debug.cc, src/enqueue.cc, src/init.cc there). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "model/operation.h"

namespace stalltrace::import {

/// "host:pid:tid [device] NCCL INFO message", behind whatever a launcher wrote before it.
struct LogText {
  enum class Level : uint8_t { kNone, kVersion, kWarn, kInfo, kTrace };

  Level level = Level::kNone;  // kNone: not NCCL's
  std::string_view prefix;     // before the host
  std::string_view host;       // empty: no process is named
  int32_t pid = 0;
  int32_t tid = 0;
  std::optional<int32_t> device;
  std::string_view message;
  bool damaged = false;  // lines of several processes were mixed up, or its own beginning is missing
};

/// `line` is without its end of line and may hold any bytes; the result points into it. Time is linear in its length: a
/// process is looked for in the last 512 bytes before the level alone. What is neither NCCL's nor damaged is kNone.
LogText read_log_text(std::string_view line);

/// True for a warning of which host and process were removed: "[3] include/shm.h:28 NCCL WARN ...".
bool is_nameless_warning(const LogText& text);

/// The rank that the launcher wrote before a line: "[1,3]<stdout>:" (OpenMPI), "3: " (srun -l), "[rank3]:" (PyTorch).
std::optional<int32_t> rank_in_prefix(std::string_view prefix);
/// The rank in a file's name: "nccl_rank7.log", "rank_7.txt", "rank-7/stdout.log"; "local_rank7" is none of the job.
std::optional<int32_t> rank_in_path(std::string_view path);

/// "AllReduce: opCount 1e sendbuff ...": a rank began a call.
struct BeganCall {
  std::optional<Operation> op;  // none: an operation that this version does not know
  uint64_t op_count = 0;
  std::optional<int64_t> count;
  std::optional<int32_t> datatype;
  std::optional<int32_t> reduce_op;
  std::optional<int32_t> root;  // of Send and Recv: the peer
  uint64_t comm = 0;
  int32_t nranks = 0;
  uint64_t stream = 0;
  std::optional<int32_t> global_rank;  // RCCL
};

/// "comm 0x.. rank 3 nranks 8 cudaDev 3 busId 1000 commId 0x.. - Init COMPLETE"
struct CommLine {
  enum class What : uint8_t { kInitStart, kInit, kDestroy, kAbort };

  What what = What::kInit;
  uint64_t comm = 0;
  int32_t rank = 0;
  int32_t nranks = 0;
  uint64_t comm_id = 0;  // NCCL's hash; 0: not stated
  uint64_t parent = 0;   // of a split: the parent's pointer; then one of the next two says which child it is
  std::optional<int32_t> split_count;
  std::optional<int32_t> color;
  std::optional<int32_t> key;
};

/// A call or a set-up line of which a part is missing.
struct BrokenLine {};

/// What a message of NCCL says; monostate: nothing that is used here.
using Statement = std::variant<std::monostate, BeganCall, CommLine, BrokenLine>;
/// `message` is that of a LogText and may hold any bytes. BrokenLine if a number without which the line has no meaning
/// (communicator, ranks, number of the call) is missing or beyond its type.
Statement read_statement(std::string_view message);

/// True for a report of PyTorch's watchdog: a collective did not end in time, on this rank or on another.
bool is_timeout(std::string_view line);

}  // namespace stalltrace::import
