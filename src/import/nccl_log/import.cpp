// SPDX-License-Identifier: Apache-2.0
// The second reading of logs: each line becomes its row, now that communicators and ranks are known.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"
#include "import/evidence.h"
#include "import/nccl_log/comm_rows.h"
#include "import/nccl_log/line_rows.h"
#include "import/nccl_log/log_nodes.h"
#include "import/nccl_log/survey.h"
#include "import/nccl_log/torchrun.h"
#include "import/nccl_log/tracebacks.h"
#include "model/events/imported/process_report.h"
#include "model/events/imported/torch_report.h"
#include "model/events/imported_evidence.h"
#include "model/parse/log_time.h"

namespace stalltrace::import {
namespace {

constexpr int64_t kUntimedLineNs = kNsPerUs;  // between lines that have no time

std::optional<int32_t> rank_in_brackets(std::string_view line, std::string_view begin) {
  const size_t at = line.find(begin);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const size_t number_at = at + begin.size();
  const Result<int64_t> number = parse_integer(line.substr(number_at, line.find(']', number_at) - number_at));
  return number && *number >= 0 && *number < (1 << 24) ? std::optional(static_cast<int32_t>(*number)) : std::nullopt;
}

constexpr int64_t kLastErrorLines = 8;  // between an error of NCCL and its "Last error:"

/// A communicator while its lines are read again.
struct Progress {
  uint64_t calls = 0;
  int64_t ordinal = 0;  // collectives so far
};

class Import {
 public:
  Import(Survey& survey, EventSink& sink, const Options& options)
      : survey_(survey), sink_(sink), nodes_(survey.files()), lines_(sink) {
    uint64_t sequences = 0;
    for (const LoggedFile& file : survey_.files()) {
      most_lines_ = std::max(most_lines_, file.lines);
      for (const LoggedProcess& process : file.processes) {
        sequences += process.comms.size();
        summary_.processes += process.left_out ? 0 : 1;
      }
    }
    keep_ = sequences == 0 ? options.most_calls : std::max<uint64_t>(options.most_calls / sequences, 8);
  }

  Status read_all() {
    for (LoggedFile& file : survey_.files()) {
      ST_TRY(read(file));
    }
    summary_.nodes = nodes_.deliver(sink_);
    return {};
  }
  [[nodiscard]] const Summary& summary() const { return summary_; }

 private:
  Status read(LoggedFile& file) {
    ST_ASSIGN(LineReader lines, LineReader::open(file.path));
    ++summary_.files;
    progress_.clear();
    lines_.begin_file();
    torchrun_ = {};
    failed_ = {};
    for (LoggedProcess& process : file.processes) {
      process.current.clear();
    }
    last_ns_ = 0;
    std::string scratch;
    while (const auto line = lines.next()) {
      if (line->number > file.lines) {
        break;  // written since the first reading
      }
      take(file, *line, scratch);
    }
    LogNode& node = nodes_.of(file);
    node.used = true;
    deliver_exceptions(file, node);
    node.losses["log:damaged_lines"] += file.damaged;
    node.losses["log:too_many_processes"] += file.refused;
    return {};
  }

  int64_t time_of(const LoggedFile& file, const Line& line, std::string_view prefix, bool timed) {
    const TimeHint hint = last_ns_ > 0 ? TimeHint{last_ns_, false, file.modified_ns} : TimeHint{file.modified_ns, true};
    if (const auto own_ns = timed ? find_time(prefix, hint) : std::nullopt) {
      last_ns_ = std::max<int64_t>(*own_ns, 0);
    } else if (!timed || last_ns_ == 0) {
      last_ns_ = nodes_.newest_ns() - (most_lines_ - line.number) * kUntimedLineNs;
    }
    return last_ns_;
  }

  void take(LoggedFile& file, const Line& line, std::string& scratch) {
    const std::string_view raw = without_escapes(line.text, scratch);
    const LogText text = read_log_text(raw);
    const auto time = [&] {
      return time_of(file, line, raw, file.processes.empty() || file.processes.front().all_timed);
    };
    tracebacks_.take(line.number, raw, std::cref(time));
    const auto found =
        text.host.empty() ? file.index.end() : file.index.find(fmt::format("{}:{}", text.host, text.pid));
    if (found == file.index.end()) {
      if (text.level == LogText::Level::kNone) {
        take_of_others(file, line, raw);
      } else if (is_nameless_warning(text)) {
        take_of_torch(file, line, raw, LogKind::kWarning, raw);
      } else if (text.level == LogText::Level::kVersion) {
        LogNode& node = nodes_.of(file);
        lines_.add(node, file, line.number, time_of(file, line, text.prefix, true), nullptr, LogKind::kVersion,
                   text.message);
      }
      return;
    }
    LoggedProcess& process = file.processes[found->second];
    if (process.left_out) {
      return;
    }
    LogNode& node = nodes_.of(process.host);
    node.untimed = node.untimed || !process.all_timed;
    const int64_t time_ns = time_of(file, line, text.prefix, process.all_timed);
    node.see(time_ns);
    const Statement statement = read_statement(text.message);
    if (const auto* call = std::get_if<BeganCall>(&statement)) {
      take_call(node, process, text, *call, time_ns);
    } else if (const auto* comm_line = std::get_if<CommLine>(&statement)) {
      take_comm_line(node, process, line, *comm_line, time_ns);
    } else if (const auto kind = kept_kind(text)) {
      lines_.add(node, file, line.number, time_ns, &process, *kind, text.message);
    } else if (is_failed_return(text) && returned_.insert(&process).second) {  // the first is where it failed
      lines_.add(node, file, line.number, time_ns, &process, LogKind::kWarning, text.message);
    }
    if (line.number == process.last_line) {
      end_process(node, file, process, line, time_ns, text.message);
    }
  }

  /// A line that is not NCCL's.
  void take_of_others(const LoggedFile& file, const Line& line, std::string_view raw) {
    if (is_timeout(raw)) {
      take_of_torch(file, line, raw, LogKind::kTimeout, raw);
    } else if (const auto report = read_torch_report(raw)) {
      take_of_torch(file, line, raw, LogKind::kWarning, report->text);
    } else if (const auto failure = torchrun_.take(raw)) {
      take_of_torch(file, line, raw, LogKind::kWarning, failure->text, failure->rank);
    } else if (const auto of_process = read_process_report(raw)) {
      using Kind = ProcessReport::Kind;
      const bool near = line.number - failed_.line <= kLastErrorLines;
      const auto rank = of_process->kind == Kind::kPeerGone && near ? failed_.rank : std::nullopt;
      const auto own = take_of_torch(file, line, raw, LogKind::kWarning, raw, rank);
      failed_ = of_process->kind == Kind::kNcclError ? Failed{own, line.number} : failed_;
    }
  }

  /// A line that names a rank at most, as those of PyTorch's watchdog; `rank`: if it is known otherwise. Returns its
  /// rank.
  std::optional<int32_t> take_of_torch(const LoggedFile& file, const Line& line, std::string_view raw, LogKind kind,
                                       std::string_view text, std::optional<int32_t> rank = std::nullopt) {
    LogNode& node = nodes_.of(file);
    const bool timed = file.processes.empty() || file.processes.front().all_timed;
    const int64_t time_ns = time_of(file, line, raw, timed);
    node.see(time_ns);
    LoggedProcess speaker;
    // Not the launcher's label, which can number hosts, and not "[PG ID 1 PG GUID 3(tp) Rank 1]": a rank of a group.
    speaker.rank = rank ? rank : rank_in_brackets(raw, "[rank");
    const LoggedProcess* only = file.processes.size() == 1 ? &file.processes.front() : nullptr;
    if (only != nullptr && (!speaker.rank || !only->rank || speaker.rank == only->rank)) {
      speaker.pid = only->pid;
      speaker.rank = speaker.rank ? speaker.rank : only->rank;
    }
    for (const std::string_view own : {"[Rank ", "(default_pg) Rank "}) {  // the default group is the job
      speaker.rank = speaker.rank ? speaker.rank : rank_in_brackets(raw, own);
    }
    lines_.add(node, file, line.number, time_ns, &speaker, kind, text);
    return speaker.rank;
  }

  /// The exceptions of a file whose rank is known; the others are counted.
  void deliver_exceptions(const LoggedFile& file, LogNode& node) {
    for (const LoggedException& exception : tracebacks_.finish()) {
      std::optional<int32_t> rank = exception.rank;
      if (!rank && !exception.labelled) {
        rank = file.processes.empty()       ? rank_in_path(file.path)
               : file.processes.size() == 1 ? file.processes.front().rank
                                            : std::nullopt;
      }
      if (rank) {
        deliver_exception(file, exception, *rank);
      } else {
        ++node.losses["log:exceptions_without_rank"];
      }
    }
  }

  void deliver_exception(const LoggedFile& file, const LoggedException& exception, int32_t rank) {
    const LoggedProcess* known = nodes_.process_of(file, rank);
    LogNode& node = known == nullptr ? nodes_.nameless() : nodes_.of(known->host);
    LoggedProcess process;
    process.rank = rank;
    process.pid = known == nullptr ? rank % 0x3fff'ffff + 1 : known->pid;
    node.see(exception.time_ns);
    if (known == nullptr && nameless_ranks_.insert(rank).second) {
      Process row{.node_id = node.row.node_id, .pid = process.pid, .start_ns = exception.time_ns};
      row.rank = rank;
      row.rank_source = RankSource::kEnvironment;
      sink_.accept(std::move(row));
    }
    const Line line{.number = exception.line};
    if (exception.of_communication) {
      lines_.add(node, file, line.number, exception.time_ns, &process, LogKind::kException, exception.last_line);
      return;
    }
    lines_.add(node, file, line.number, exception.time_ns, &process, LogKind::kException, exception.header);
    if (!exception.cuda_error.empty()) {
      lines_.add(node, file, line.number, exception.time_ns, &process, LogKind::kWarning, exception.cuda_error);
    }
    if (!exception.next_text.empty()) {
      const Line next{.number = exception.next_line};
      lines_.add(node, file, next.number, exception.next_ns, &process, LogKind::kException, exception.next_text);
    }
    PythonException row{.node_id = node.row.node_id, .timestamp_ns = exception.time_ns, .pid = process.pid};
    row.tid = process.pid;
    row.type = exception.type;
    row.depth = exception.depth;
    if (const std::string text = frames_to_text(exception.frames); !text.empty()) {
      row.stack_id = static_cast<int64_t>(splitmix64_text(text) >> 1);  // ids are positive
      if (stacks_.insert(row.stack_id).second) {
        sink_.accept(Stack{row.stack_id, text});
      }
    }
    sink_.accept(std::move(row));
  }

  /// The survey's row of the life that a pointer has in this line.
  LoggedComm* life_of(LoggedProcess& process, uint64_t pointer, int64_t set_up_line) {
    const auto current = process.current.find(pointer);
    if (current != process.current.end() && set_up_line == 0) {
      return &process.comms[current->second];
    }
    for (size_t i = current == process.current.end() ? 0 : current->second; i < process.comms.size(); ++i) {
      LoggedComm& comm = process.comms[i];
      const bool begins_here = set_up_line != 0 && comm.set_up_line == set_up_line;
      if (comm.comm == pointer && (set_up_line == 0 || begins_here)) {
        process.current[pointer] = i;
        return &comm;
      }
    }
    return nullptr;
  }

  void take_comm_line(LogNode& node, LoggedProcess& process, const Line& line, const CommLine& comm_line,
                      int64_t time_ns) {
    if (comm_line.what != CommLine::What::kInitStart && comm_line.what != CommLine::What::kInit) {
      return;
    }
    const LoggedComm* comm = life_of(process, comm_line.comm, line.number);
    comm = comm == nullptr ? life_of(process, comm_line.comm, 0) : comm;
    if (comm == nullptr) {
      return;
    }
    const int64_t start_ns = set_up_ns_.try_emplace(comm, time_ns).first->second;
    if (comm_line.what == CommLine::What::kInit || !comm->set_up_ended) {
      sink_.accept(set_up_row(node, process, *comm, start_ns, time_ns));
    }
  }

  void take_call(LogNode& node, LoggedProcess& process, const LogText& text, const BeganCall& call, int64_t time_ns) {
    LoggedComm* comm = life_of(process, call.comm, 0);
    if (comm == nullptr) {
      return;
    }
    Progress& progress = progress_[comm];
    if (progress.calls == 0) {
      first_call_ns_[comm] = time_ns;
    }
    const int64_t ordinal = progress.ordinal;
    progress.ordinal += call.op && is_collective(*call.op) ? 1 : 0;
    const bool newest = comm->calls - progress.calls <= keep_;
    ++progress.calls;
    if (!newest || !call.op) {
      ++summary_.calls_left;
      return;
    }
    ++summary_.calls;
    Collective row = call_row(node, process, *comm, call, ordinal, time_ns);
    row.tid = text.tid;
    sink_.accept(std::move(row));
  }

  void end_process(LogNode& node, const LoggedFile& file, LoggedProcess& process, const Line& line, int64_t time_ns,
                   std::string_view text) {
    lines_.add(node, file, line.number, time_ns, &process, process.cut ? LogKind::kCut : LogKind::kEnd, text);
    int64_t start_ns = time_ns;
    for (const LoggedComm& comm : process.comms) {
      const auto first = first_call_ns_.find(&comm);
      const int64_t created_ns = first == first_call_ns_.end() ? time_ns : first->second;
      start_ns = std::min(start_ns, created_ns);
      sink_.accept(communicator_row(node, process, comm, created_ns, time_ns));
    }
    Process row{.node_id = node.row.node_id, .pid = process.pid, .start_ns = start_ns};
    row.rank = process.rank;
    row.rank_source = process.rank_source;
    sink_.accept(std::move(row));
  }

  Survey& survey_;
  EventSink& sink_;
  LogNodes nodes_;
  LineRows lines_;
  uint64_t keep_ = 0;       // calls of each communicator
  int64_t most_lines_ = 0;  // of a file
  Summary summary_;
  std::set<int32_t> nameless_ranks_;
  std::set<const LoggedProcess*> returned_;  // of which the first error that a function returned is kept
  Tracebacks tracebacks_;
  std::set<int64_t> stacks_;
  std::unordered_map<const LoggedComm*, Progress> progress_;
  std::unordered_map<const LoggedComm*, int64_t> first_call_ns_;
  std::unordered_map<const LoggedComm*, int64_t> set_up_ns_;
  int64_t last_ns_ = 0;
  // Of the file that is being read:
  TorchrunFailures torchrun_;
  struct Failed {
    std::optional<int32_t> rank;
    int64_t line = 0;
  };
  Failed failed_;  // whose watchdog reported NCCL's error last
};

void note_problems(Survey& survey, const Note& note) {
  for (const LoggedFile& file : survey.files()) {
    if (file.damaged > 0) {
      note(fmt::format("{}: {} damaged (mixed up, cut off or too long), the first is line {}", file.path,
                       count_of(static_cast<int64_t>(file.damaged), "line"), file.first_damaged_line));
    }
    if (file.read_failed) {
      note(fmt::format("{}: could not be read beyond line {}", file.path, file.lines));
    }
    const auto copies = std::ranges::count_if(file.processes, &LoggedProcess::left_out);
    if (copies > 0) {
      note(fmt::format("{}: of {} processes another file has the newer calls; left out here", file.path, copies));
    }
  }
}

}  // namespace

Result<Summary> import_nccl_logs(std::span<const std::string> paths, EventSink& sink, const Note& note,
                                 const Options& options) {
  Survey survey;
  std::optional<Error> refused;
  for (const std::string& path : paths) {
    if (Status read = survey.read(path); !read) {
      note(fmt::format("left out: {}", read.error().what));
      refused = std::move(read.error());
    }
  }
  if (survey.files().empty()) {
    return std::unexpected(refused.value_or(Error{ErrorKind::kUsage, "no log", ""}));
  }
  survey.resolve();
  note_problems(survey, note);
  Import import(survey, sink, options);
  ST_TRY(import.read_all());
  return import.summary();
}

}  // namespace stalltrace::import
