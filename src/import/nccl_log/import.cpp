// SPDX-License-Identifier: Apache-2.0
// The second reading of logs: each line becomes its row, now that communicators and ranks are known.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"
#include "import/evidence.h"
#include "import/nccl_log/survey.h"
#include "import/nccl_log/tracebacks.h"
#include "model/events/imported/torch_report.h"
#include "model/events/imported_evidence.h"
#include "model/parse/log_time.h"

namespace stalltrace::import {
namespace {

constexpr size_t kLongestText = 1024;  // NCCL's own limit of a message
// Lines that are kept as rows, of each kind: many transports leave the warnings and timeouts of a process their rows.
constexpr size_t kMostLinesOfProcess = 2048;
constexpr size_t kMostLinesOfKind = 200'000;
constexpr int64_t kUntimedLineNs = kNsPerUs;  // between lines that have no time

std::optional<LogKind> kind_of(const LogText& text) {
  if (text.level == LogText::Level::kWarn) {
    return LogKind::kWarning;
  }
  if (text.level == LogText::Level::kVersion) {
    return LogKind::kVersion;
  }
  if (text.level != LogText::Level::kInfo) {
    return std::nullopt;
  }
  if (text.message.starts_with("Channel ") && text.message.contains(" via ")) {
    return LogKind::kTransport;
  }
  const bool interface = text.message.starts_with("NET/") || text.message.starts_with("Bootstrap : Using") ||
                         text.message.starts_with("Bootstrap: Using") || text.message.starts_with("Using network");
  return interface ? std::optional(LogKind::kInterface) : std::nullopt;
}

std::optional<int32_t> rank_in_brackets(std::string_view line, std::string_view begin) {
  const size_t at = line.find(begin);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const size_t number_at = at + begin.size();
  const Result<int64_t> number = parse_integer(line.substr(number_at, line.find(']', number_at) - number_at));
  return number && *number >= 0 && *number < (1 << 24) ? std::optional(static_cast<int32_t>(*number)) : std::nullopt;
}

/// A communicator while its lines are read again.
struct Progress {
  uint64_t calls = 0;
  int64_t ordinal = 0;  // collectives so far
};

class Import {
 public:
  Import(Survey& survey, EventSink& sink, const Options& options) : survey_(survey), sink_(sink) {
    uint64_t sequences = 0;
    for (LoggedFile& file : survey_.files()) {
      for (const LoggedProcess& process : file.processes) {
        sequences += process.comms.size();
      }
    }
    keep_ = sequences == 0 ? options.most_calls : std::max<uint64_t>(options.most_calls / sequences, 8);
  }

  Status read_all() {
    make_nodes();
    for (LoggedFile& file : survey_.files()) {
      ST_TRY(read(file));
    }
    finish();
    return {};
  }
  [[nodiscard]] const Summary& summary() const { return summary_; }

 private:
  struct NodeState {
    Node row;
    uint64_t numbers = 0;
    bool untimed = false;
    bool used = false;
    int64_t first_ns = std::numeric_limits<int64_t>::max();
    int64_t last_ns = 0;
    std::map<std::string, uint64_t> losses;
  };

  /// Ids depend on nothing but names and the files' times, so that one input gives one recording.
  void make_nodes() {
    for (LoggedFile& file : survey_.files()) {
      newest_ns_ = std::max(newest_ns_, file.modified_ns);
      most_lines_ = std::max(most_lines_, file.lines);
      for (const LoggedProcess& process : file.processes) {
        if (nodes_.size() < kMostNodes) {
          nodes_.try_emplace(process.host);
        }
        summary_.processes += process.left_out ? 0 : 1;
      }
    }
    if (nodes_.empty()) {
      nameless_ = &nodes_.try_emplace("log").first->second;  // only PyTorch or Python spoke
    }
    std::set<NodeId> taken;
    const auto name_node = [&](const std::string& name, NodeState& state) {
      state.row.name = name;
      state.row.agent_version = "nccl_log";
      NodeId id = make_node_id(name, "nccl_log", newest_ns_);
      while (!taken.insert(id).second) {
        id = id % ((1U << kNodeIdBits) - 1) + 1;
      }
      state.row.node_id = id;
    };
    for (auto& [name, state] : nodes_) {
      name_node(name, state);
      state.row.hostname = name;
    }
    name_node("exceptions", own_nameless_);
    find_processes();
  }

  /// The process of each rank that is one process only, for lines that name the rank alone.
  void find_processes() {
    std::set<int32_t> several;  // as in the logs of two attempts of a job
    for (const LoggedFile& file : survey_.files()) {
      for (const LoggedProcess& process : file.processes) {
        if (!process.rank || process.left_out) {
          continue;
        }
        const auto [known, fresh] = process_of_rank_.try_emplace(*process.rank, &process);
        if (!fresh && (known->second->pid != process.pid || known->second->host != process.host)) {
          several.insert(*process.rank);
        }
      }
    }
    std::erase_if(process_of_rank_, [&](const auto& known) { return several.contains(known.first); });
  }

  /// The process of a rank: the file's own, else the only one of all files; null: not known.
  [[nodiscard]] const LoggedProcess* process_of(const LoggedFile& file, int32_t rank) const {
    const LoggedProcess* own = nullptr;
    for (const LoggedProcess& process : file.processes) {
      if (process.rank == rank && !process.left_out) {
        if (own != nullptr) {
          own = nullptr;
          break;
        }
        own = &process;
      }
    }
    const auto known = process_of_rank_.find(rank);
    return own != nullptr ? own : known == process_of_rank_.end() ? nullptr : known->second;
  }

  NodeState& node_of(std::string_view host) {
    const auto found = nodes_.find(host);
    return found != nodes_.end() ? found->second : nodes_.begin()->second;
  }

  Status read(LoggedFile& file) {
    ST_ASSIGN(LineReader lines, LineReader::open(file.path));
    ++summary_.files;
    progress_.clear();
    kept_of_process_.clear();
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
    NodeState& node = node_of(file.processes.empty() ? std::string_view() : file.processes.front().host);
    node.used = true;
    deliver_exceptions(file, node);
    node.losses["log:damaged_lines"] += file.damaged;
    node.losses["log:too_many_processes"] += file.refused;
    return {};
  }

  int64_t time_of(const LoggedFile& file, const Line& line, std::string_view prefix, bool timed) {
    const TimeHint hint = last_ns_ > 0 ? TimeHint{last_ns_, false} : TimeHint{file.modified_ns, true};
    if (const auto own_ns = timed ? find_time(prefix, hint) : std::nullopt) {
      last_ns_ = std::max<int64_t>(*own_ns, 0);
    } else if (!timed || last_ns_ == 0) {
      last_ns_ = newest_ns_ - (most_lines_ - line.number) * kUntimedLineNs;
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
      if (text.level == LogText::Level::kNone && is_timeout(raw)) {
        take_of_torch(file, line, raw, LogKind::kTimeout, raw);
      } else if (const auto report = text.level == LogText::Level::kNone ? read_torch_report(raw) : std::nullopt) {
        take_of_torch(file, line, raw, LogKind::kWarning, report->text);
      } else if (text.level == LogText::Level::kVersion) {
        NodeState& node = node_of(file.processes.empty() ? std::string_view() : file.processes.front().host);
        add_line(node, file, line, time_of(file, line, text.prefix, true), nullptr, LogKind::kVersion, text.message);
      }
      return;
    }
    LoggedProcess& process = file.processes[found->second];
    if (process.left_out) {
      return;
    }
    NodeState& node = node_of(process.host);
    node.untimed = node.untimed || !process.all_timed;
    const int64_t time_ns = time_of(file, line, text.prefix, process.all_timed);
    see(node, time_ns);
    const Statement statement = read_statement(text.message);
    if (const auto* call = std::get_if<BeganCall>(&statement)) {
      take_call(node, process, text, *call, time_ns);
    } else if (const auto* comm_line = std::get_if<CommLine>(&statement)) {
      take_comm_line(node, process, line, *comm_line, time_ns);
    } else if (const auto kind = kind_of(text)) {
      add_line(node, file, line, time_ns, &process, *kind, text.message);
    }
    if (line.number == process.last_line) {
      end_process(node, file, process, line, time_ns, text.message);
    }
  }

  static void see(NodeState& node, int64_t time_ns) {
    node.used = true;
    node.first_ns = std::min(node.first_ns, time_ns);
    node.last_ns = std::max(node.last_ns, time_ns);
  }

  /// A watchdog's line, or a report of one of PyTorch's checks.
  void take_of_torch(const LoggedFile& file, const Line& line, std::string_view raw, LogKind kind,
                     std::string_view text) {
    NodeState& node = node_of(file.processes.empty() ? std::string_view() : file.processes.front().host);
    const bool timed = file.processes.empty() || file.processes.front().all_timed;
    const int64_t time_ns = time_of(file, line, raw, timed);
    see(node, time_ns);
    LoggedProcess speaker;
    // Not the launcher's label, which can number hosts, and not "[PG ID 1 PG GUID 3(tp) Rank 1]": a rank of a group.
    speaker.rank = rank_in_brackets(raw, "[rank");
    const LoggedProcess* only = file.processes.size() == 1 ? &file.processes.front() : nullptr;
    if (only != nullptr && (!speaker.rank || !only->rank || speaker.rank == only->rank)) {
      speaker.pid = only->pid;
      speaker.rank = speaker.rank ? speaker.rank : only->rank;
    }
    speaker.rank = speaker.rank ? speaker.rank : rank_in_brackets(raw, "[Rank ");
    add_line(node, file, line, time_ns, &speaker, kind, text);
  }

  /// The exceptions of a file whose rank is known; the others are counted.
  void deliver_exceptions(const LoggedFile& file, NodeState& node) {
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
    const LoggedProcess* known = process_of(file, rank);
    NodeState& node = known == nullptr ? *nameless_ : node_of(known->host);
    LoggedProcess process;
    process.rank = rank;
    process.pid = known == nullptr ? rank % 0x3fff'ffff + 1 : known->pid;
    see(node, exception.time_ns);
    if (known == nullptr && nameless_ranks_.insert(rank).second) {
      Process row{.node_id = node.row.node_id, .pid = process.pid, .start_ns = exception.time_ns};
      row.rank = rank;
      row.rank_source = RankSource::kEnvironment;
      sink_.accept(std::move(row));
    }
    const Line line{.number = exception.line};
    if (exception.of_communication) {
      add_line(node, file, line, exception.time_ns, &process, LogKind::kException, exception.last_line);
      return;
    }
    add_line(node, file, line, exception.time_ns, &process, LogKind::kException, exception.header);
    if (!exception.next_text.empty()) {
      const Line next{.number = exception.next_line};
      add_line(node, file, next, exception.next_ns, &process, LogKind::kException, exception.next_text);
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

  void add_line(NodeState& node, const LoggedFile& file, const Line& line, int64_t time_ns,
                const LoggedProcess* process, LogKind kind, std::string_view text) {
    see(node, time_ns);
    const int32_t pid = process == nullptr ? 0 : process->pid;
    if (kind != LogKind::kEnd && kind != LogKind::kCut) {
      const int32_t rank = process == nullptr ? -1 : process->rank.value_or(-1);  // a watchdog's pid may be unknown
      if (++kept_of_process_[{pid, rank, kind}] > kMostLinesOfProcess || kept_of_kind_[kind] >= kMostLinesOfKind) {
        ++node.losses["log:lines_not_kept"];
        return;
      }
      ++kept_of_kind_[kind];
    }
    sink_.accept(LogLine{.node_id = node.row.node_id,
                         .timestamp_ns = time_ns,
                         .pid = pid,
                         .rank = process == nullptr ? std::nullopt : process->rank,
                         .kind = kind,
                         .line = line.number,
                         .file = file.path,
                         .text = std::string(text.substr(0, kLongestText))});
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

  void take_comm_line(NodeState& node, LoggedProcess& process, const Line& line, const CommLine& comm_line,
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
      deliver_set_up(node, process, *comm, start_ns, time_ns);
    }
  }

  void deliver_set_up(NodeState& node, const LoggedProcess& process, const LoggedComm& comm, int64_t start_ns,
                      int64_t end_ns) {
    Collective row;
    row.event_id = make_event_id(node.row.node_id, ++node.numbers);
    row.node_id = node.row.node_id;
    row.op = comm.set_up->parent != 0 ? Operation::kCommSplit : Operation::kCommInitRank;
    row.timestamp_ns = start_ns;
    row.called_ns = start_ns;
    if (comm.set_up_ended) {
      row.completion = Completion::kCall;
      row.duration_ns = std::max<int64_t>(end_ns - start_ns, 0);
    }
    row.rank = comm.rank;
    row.rank_source = comm.rank_source;
    row.nranks = comm.nranks;
    row.comm_id_hash = comm.hash;
    row.comm_ptr = comm.comm;
    row.pid = process.pid;
    sink_.accept(std::move(row));
  }

  void take_call(NodeState& node, LoggedProcess& process, const LogText& text, const BeganCall& call, int64_t time_ns) {
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
    const bool pair = is_point_to_point(*call.op);
    Collective row;
    row.event_id = make_event_id(node.row.node_id, ++node.numbers);
    row.node_id = node.row.node_id;
    row.op = *call.op;
    row.timestamp_ns = time_ns;
    row.called_ns = time_ns;
    row.completion = Completion::kUnobserved;
    if (!pair && comm->order == LoggedComm::Order::kOpCount) {
      row.seq = static_cast<int64_t>(std::min<uint64_t>(call.op_count, kMostCallNumber));
    } else if (!pair && comm->order == LoggedComm::Order::kOrdinal) {
      row.seq = ordinal;
    }
    row.rank = comm->rank;
    row.rank_source = comm->rank ? comm->rank_source : RankSource::kUnknown;
    row.nranks = call.nranks;
    row.comm_id_hash = comm->hash;
    row.comm_ptr = call.comm;
    row.pid = process.pid;
    row.tid = text.tid;
    row.count = call.count;
    row.datatype = call.datatype;
    const int element = call.datatype ? nccl_datatype_size(*call.datatype) : 0;
    row.bytes = payload_bytes(row.op, call.count.value_or(0), element, call.nranks);
    row.reduce_op = call.reduce_op;
    if (pair) {
      row.peer = call.root;
    } else if (row.op == Operation::kBroadcast || row.op == Operation::kReduce || row.op == Operation::kGather ||
               row.op == Operation::kScatter) {
      row.root = call.root;
    }
    row.stream = call.stream;
    sink_.accept(std::move(row));
  }

  void end_process(NodeState& node, const LoggedFile& file, LoggedProcess& process, const Line& line, int64_t time_ns,
                   std::string_view text) {
    add_line(node, file, line, time_ns, &process, process.cut ? LogKind::kCut : LogKind::kEnd, text);
    int64_t start_ns = time_ns;
    for (const LoggedComm& comm : process.comms) {
      const auto first = first_call_ns_.find(&comm);
      const int64_t created_ns = first == first_call_ns_.end() ? time_ns : first->second;
      start_ns = std::min(start_ns, created_ns);
      Communicator row{.node_id = node.row.node_id, .pid = process.pid, .comm_ptr = comm.comm};
      row.comm_id_hash = comm.hash;
      row.nccl_comm_hash = comm.set_up && comm.set_up->comm_id != 0 ? comm.hash : 0;
      row.rank = comm.rank;
      row.rank_source = comm.rank_source;
      row.nranks = comm.nranks;
      if (comm.set_up) {
        row.split_color = comm.set_up->color;
        row.split_key = comm.set_up->key;
      }
      row.created_ns = created_ns;
      if (comm.ended_line > 0 && !comm.aborted) {
        row.destroyed_ns = std::max(time_ns, created_ns);
      }
      sink_.accept(std::move(row));
    }
    Process row{.node_id = node.row.node_id, .pid = process.pid, .start_ns = start_ns};
    row.rank = process.rank;
    row.rank_source = process.rank_source;
    sink_.accept(std::move(row));
  }

  void finish() {
    for (auto& [name, state] : nodes_) {
      finish(state);
    }
    finish(own_nameless_);
  }

  void finish(NodeState& state) {
    if (!state.used) {
      return;
    }
    ++summary_.nodes;
    state.row.missing_evidence = kLacksDurations;
    if (&state == nameless_) {
      state.row.missing_evidence += fmt::format(" {}", kLacksPids);
    }
    if (state.untimed) {
      state.row.missing_evidence += fmt::format(" {}", kLacksTimes);
    }
    state.row.started_ns = std::min(state.first_ns, state.last_ns);
    state.row.ended_ns = state.last_ns;
    sink_.accept(state.row);
    for (const auto& [source, count] : state.losses) {
      if (count > 0) {
        sink_.accept(Loss{state.row.node_id, source, count});
      }
    }
  }

  static constexpr size_t kMostNodes = 8192;
  static constexpr uint64_t kMostCallNumber = uint64_t{1} << 40;

  Survey& survey_;
  EventSink& sink_;
  uint64_t keep_ = 0;
  Summary summary_;
  std::map<std::string, NodeState, std::less<>> nodes_;
  NodeState own_nameless_;
  NodeState* nameless_ = &own_nameless_;  // of exceptions of ranks of which no process is known
  std::set<int32_t> nameless_ranks_;
  std::unordered_map<int32_t, const LoggedProcess*> process_of_rank_;
  Tracebacks tracebacks_;
  std::set<int64_t> stacks_;
  std::unordered_map<const LoggedComm*, Progress> progress_;
  std::unordered_map<const LoggedComm*, int64_t> first_call_ns_;
  std::unordered_map<const LoggedComm*, int64_t> set_up_ns_;
  std::map<std::tuple<int32_t, int32_t, LogKind>, size_t> kept_of_process_;  // pid, rank; in the current file
  std::map<LogKind, size_t> kept_of_kind_;
  int64_t newest_ns_ = 0;
  int64_t most_lines_ = 0;
  int64_t last_ns_ = 0;
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
