// SPDX-License-Identifier: Apache-2.0
// The first reading of logs: which processes and communicators there are, and how each one's log ends. Memory grows
// with processes and communicators, not with lines. Internal to import/nccl_log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "import/lines.h"
#include "import/nccl_log/log_text.h"
#include "model/events/ids.h"

namespace stalltrace::import {

/// One life of one communicator pointer in one process.
struct LoggedComm {
  uint64_t comm = 0;
  std::optional<CommLine> set_up;  // none: its beginning is not in the log
  int32_t nranks = 0;
  uint64_t calls = 0;
  uint64_t collectives = 0;  // calls but Send and Recv
  uint64_t first_op_count = 0;
  uint64_t last_op_count = 0;
  bool counts_rise = true;      // each call has a higher opCount than the one before
  bool point_to_point = false;  // has Sends or Recvs: opCount then differs between ranks
  bool unknown_calls = false;
  int64_t set_up_line = 0;
  bool set_up_ended = false;
  int64_t ended_line = 0;  // destroyed or aborted; 0: not
  bool aborted = false;
  // Filled in by resolve():
  CommHash hash = 0;   // 0: its counterparts on the other ranks are not known
  bool named = false;  // the log says which communicator it is
  std::optional<int32_t> rank;
  RankSource rank_source = RankSource::kUnknown;
  enum class Order : uint8_t { kUnknown, kOpCount, kOrdinal } order = Order::kUnknown;
};

struct LoggedProcess {
  std::string host;
  int32_t pid = 0;
  std::optional<int32_t> prefix_rank;  // by its launcher, or RCCL's global rank
  std::optional<int32_t> device;
  std::vector<LoggedComm> comms;
  std::unordered_map<uint64_t, size_t> current;  // pointer -> its last life in `comms`
  int64_t last_line = 0;
  int64_t last_call_line = 0;
  int64_t last_broken_line = 0;  // a call of which a part is missing
  bool all_timed = true;         // each call has a time of its own
  // Filled in by resolve():
  bool left_out = false;  // another file has its newer calls
  bool cut = false;       // what it called last is not known
  std::optional<int32_t> rank;
  RankSource rank_source = RankSource::kUnknown;
};

struct LoggedFile {
  std::string path;
  int64_t modified_ns = 0;
  int64_t lines = 0;
  uint64_t damaged = 0;  // lines that were mixed up, or lack a part
  int64_t first_damaged_line = 0;
  int64_t last_damaged_line = 0;  // behind the last line if that has no end
  uint64_t refused = 0;           // lines of more processes and communicators than are kept
  bool read_failed = false;
  std::vector<LoggedProcess> processes;
  std::unordered_map<std::string, size_t> index;  // "host:pid"
  std::string version;
};

/// The process of a line in the order of its file; kNone: none.
inline constexpr size_t kNoProcess = static_cast<size_t>(-1);

/// Used by one thread: read() for each file, then resolve() once.
class Survey {
 public:
  /// Adds the file to `files`. Fails only if it is no readable regular file; nothing is added then. Damaged lines, a
  /// read that fails in the middle (LoggedFile::read_failed), and processes or communicators beyond what is kept
  /// (LoggedFile::refused) are no errors.
  Status read(const std::string& path);
  /// After the last file: who is who. Fills in the members that say so.
  void resolve();

  [[nodiscard]] std::vector<LoggedFile>& files() { return files_; }

 private:
  void take(LoggedFile& file, const Line& line, std::string& scratch);
  LoggedProcess* process_of(LoggedFile& file, const LogText& text);
  LoggedComm* comm_of(LoggedFile& file, LoggedProcess& process, uint64_t pointer, bool begins);
  void leave_out_copies();
  void name_communicators();
  void match_unnamed();
  void choose_orders();
  [[nodiscard]] CommHash world() const;
  void number_ranks();

  std::vector<LoggedFile> files_;
  size_t processes_ = 0;
  size_t comms_ = 0;
};

}  // namespace stalltrace::import
