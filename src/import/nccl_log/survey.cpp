// SPDX-License-Identifier: Apache-2.0
#include "import/nccl_log/survey.h"

#include <algorithm>

#include "base/text.h"
#include "import/file_node.h"
#include "model/parse/log_time.h"

namespace stalltrace::import {
namespace {

// Bounds of a log made to exhaust memory; the largest jobs have less of each.
constexpr size_t kMostProcesses = 32'768;
constexpr size_t kMostComms = 65'536;

void note_damage(LoggedFile& file, int64_t line) {
  ++file.damaged;
  file.first_damaged_line = file.first_damaged_line == 0 ? line : file.first_damaged_line;
  file.last_damaged_line = line;
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r") == std::string_view::npos; }

/// Whether text at the end of a file may be the beginning of a line of NCCL's: of a known host, or too short to say.
bool may_begin_line(const LoggedFile& file, std::string_view text) {
  if (text.find("NCCL") != std::string_view::npos) {
    return true;
  }
  const std::string_view last_word = text.substr(text.find_last_of(" \t\r:]>") + 1);
  return std::ranges::any_of(file.processes, [&](const LoggedProcess& process) {
    return text.find(process.host + ":") != std::string_view::npos || process.host.starts_with(last_word);
  });
}

/// A line of a known process that ends before "NCCL": "node0:103:2", "node0:103:203 [3] NCCL IN". Other libraries put
/// the process into brackets.
bool is_head_alone(const LoggedFile& file, std::string_view text) {
  constexpr size_t kLongestPrefix = 256;
  constexpr std::string_view kDigits = "0123456789";
  const std::string_view head = text.substr(0, kLongestPrefix);
  for (size_t colon = head.find(':'); colon != std::string_view::npos; colon = head.find(':', colon + 1)) {
    const size_t before = head.find_last_of(" \t:]>", colon == 0 ? 0 : colon - 1);
    const size_t begin = before == std::string_view::npos ? 0 : before + 1;
    const size_t pid_end = std::min(head.find_first_not_of(kDigits, colon + 1), head.size());
    if (begin >= colon || !file.index.contains(std::string(head.substr(begin, pid_end - begin)))) {
      continue;
    }
    const size_t tid_end = std::min(head.find_first_not_of(kDigits, pid_end + 1), head.size());
    return pid_end == head.size() || (head[pid_end] == ':' && (tid_end == head.size() || head[tid_end] == ' '));
  }
  return false;
}

void note_call(LoggedComm& comm, const BeganCall& call) {
  comm.nranks = call.nranks;
  comm.unknown_calls = comm.unknown_calls || !call.op;
  comm.point_to_point = comm.point_to_point || (call.op && is_point_to_point(*call.op));
  if (comm.calls++ == 0) {
    comm.first_op_count = call.op_count;
  } else {
    comm.counts_rise = comm.counts_rise && call.op_count > comm.last_op_count;
  }
  comm.last_op_count = call.op_count;
  comm.collectives += call.op && is_collective(*call.op) ? 1 : 0;
}

}  // namespace

Status Survey::read(const std::string& path) {
  ST_ASSIGN(LineReader lines, LineReader::open(path));
  LoggedFile& file = files_.emplace_back();
  file.path = path;
  file.modified_ns = modified_ns(path);
  std::string scratch;
  while (const auto line = lines.next()) {
    file.lines = line->number;
    take(file, *line, scratch);
  }
  file.read_failed = lines.failed();
  return {};
}

void Survey::take(LoggedFile& file, const Line& line, std::string& scratch) {
  const std::string_view raw = without_escapes(line.text, scratch);
  const LogText text = read_log_text(raw);
  if (text.level == LogText::Level::kVersion && file.version.empty()) {
    file.version = text.message.substr(0, 64);
  }
  LoggedProcess* process = process_of(file, text);
  if (process != nullptr) {
    process->last_line = line.number;
    process->device = process->device ? process->device : text.device;
    if (!process->prefix_rank) {
      process->prefix_rank = rank_in_prefix(text.prefix);
    }
  }
  const Statement statement = process == nullptr ? Statement() : read_statement(text.message);
  const auto* call = std::get_if<BeganCall>(&statement);
  const bool incomplete =
      !line.terminated && call == nullptr && !is_blank(raw) && (process != nullptr || may_begin_line(file, raw));
  const bool head_alone = text.level == LogText::Level::kNone && is_head_alone(file, raw);
  if (text.damaged || line.cut || incomplete || head_alone || file.read_failed) {
    note_damage(file, line.number);
  }
  if (!line.terminated && !is_blank(raw)) {
    file.last_damaged_line = line.number + 1;  // what the processes of the file wrote next is missing, calls too
  }
  if (process == nullptr) {
    return;
  }
  if (call != nullptr) {
    if (LoggedComm* comm = comm_of(file, *process, call->comm, false)) {
      note_call(*comm, *call);
    }
    process->last_call_line = line.number;
    process->prefix_rank = process->prefix_rank ? process->prefix_rank : call->global_rank;
    process->all_timed = process->all_timed && find_time(text.prefix, {file.modified_ns, true}).has_value();
  } else if (const auto* comm_line = std::get_if<CommLine>(&statement)) {
    const bool begins = comm_line->what == CommLine::What::kInitStart || comm_line->what == CommLine::What::kInit;
    LoggedComm* comm = comm_of(file, *process, comm_line->comm, begins);
    if (comm == nullptr) {
      return;
    }
    comm->nranks = comm_line->nranks;
    if (begins) {
      comm->set_up = comm->set_up ? comm->set_up : *comm_line;
      comm->set_up_line = comm->set_up_line == 0 ? line.number : comm->set_up_line;
      comm->set_up_ended = comm->set_up_ended || comm_line->what == CommLine::What::kInit;
    } else {
      comm->ended_line = line.number;
      comm->aborted = comm_line->what == CommLine::What::kAbort;
      if (!comm->rank) {
        comm->rank = comm_line->rank;
        comm->rank_source = RankSource::kInit;
      }
    }
  } else if (std::holds_alternative<BrokenLine>(statement)) {
    process->last_broken_line = line.number;
    note_damage(file, line.number);
  }
}

LoggedProcess* Survey::process_of(LoggedFile& file, const LogText& text) {
  if (text.host.empty()) {
    return nullptr;
  }
  std::string key(text.host);
  key += ':';
  key += std::to_string(text.pid);
  const auto known = file.index.find(key);
  if (known != file.index.end()) {
    return &file.processes[known->second];
  }
  if (processes_ == kMostProcesses || text.host.size() > 255) {
    ++file.refused;
    return nullptr;
  }
  ++processes_;
  file.index.emplace(std::move(key), file.processes.size());
  LoggedProcess& process = file.processes.emplace_back();
  process.host = text.host;
  process.pid = text.pid;
  return &process;
}

LoggedComm* Survey::comm_of(LoggedFile& file, LoggedProcess& process, uint64_t pointer, bool begins) {
  const auto known = process.current.find(pointer);
  if (known != process.current.end()) {
    LoggedComm& comm = process.comms[known->second];
    const bool over = comm.calls > 0 || comm.ended_line > 0;
    if (!begins || !over) {
      return &comm;
    }
  }
  if (comms_ == kMostComms) {
    ++file.refused;
    return nullptr;
  }
  ++comms_;
  process.current[pointer] = process.comms.size();
  LoggedComm& comm = process.comms.emplace_back();
  comm.comm = pointer;
  return &comm;
}

}  // namespace stalltrace::import
