// SPDX-License-Identifier: Apache-2.0
// Lines of NCCL's Inspector as events: a host is a node; each line is a call that ended. NCCL numbers the calls of each
// operation of a communicator by themselves, so that each is a call sequence, with a hash of its own.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "base/hash.h"
#include "base/text.h"
#include "import/evidence.h"
#include "import/host_nodes.h"
#include "import/lines.h"
#include "import/nccl_inspector/record.h"
#include "import/read_files.h"
#include "model/events/imported/inspector.h"
#include "model/events/imported_evidence.h"

namespace stalltrace::import {
namespace {

constexpr size_t kMostSequences = 100'000;
constexpr uint64_t kLeastKept = 64;  // of a sequence, by Options::most_calls

class Import {
 public:
  Import(EventSink& sink, const Note& note, uint64_t most) : sink_(sink), note_(note), most_(most) {}

  Status read(const std::string& path) {
    ST_ASSIGN(LineReader lines, LineReader::open(path));
    uint64_t damaged = 0;
    int64_t first_damaged = 0;
    int64_t number = 0;
    NodeState* node = nullptr;
    while (const auto line = lines.next()) {
      number = line->number;
      const auto record = line->cut ? std::nullopt : read_inspector_line(line->text);
      if (record) {
        node = &take(path, *record);
      } else if (line->text.find("\"coll_perf\"") != std::string_view::npos || line->text.starts_with("{\"header\"")) {
        first_damaged = damaged++ == 0 ? line->number : first_damaged;
      }
    }
    if (node == nullptr) {
      return fail(fmt::format("{}: no whole line of NCCL's Inspector", path), {}, ErrorKind::kCorrupt);
    }
    if (damaged > 0) {
      note_(fmt::format("{}: {} damaged, the first is line {}", path, count_of(static_cast<int64_t>(damaged), "line"),
                        first_damaged));
      node->losses["inspector:damaged_lines"] += damaged;
    }
    if (lines.failed()) {
      note_(fmt::format("{}: could not be read beyond line {}", path, number));
    }
    ++summary_.files;
    return {};
  }

  void refuse(const std::string& path) { ++nodes_.of(path, "").losses["inspector:unreadable_file"]; }

  void finish() {
    deliver_kept();
    for (const auto& [key, process] : processes_) {
      Process row{.node_id = key.first, .pid = key.second, .start_ns = process.first_ns};
      sink_.accept(std::move(row));
      ++summary_.processes;
    }
    for (auto& [name, state] : nodes_.all()) {
      state.row.missing_evidence = kLacksBegins;
      ++summary_.nodes;
    }
    nodes_.deliver(sink_);
  }
  [[nodiscard]] const Summary& summary() const { return summary_; }

 private:
  struct Numbers {
    uint64_t numbers = 0;  // of its events
  };
  using NodeState = HostNodes<Numbers>::State;
  struct ProcessState {
    int64_t first_ns = std::numeric_limits<int64_t>::max();
    std::set<CommHash> comms;
  };
  using SequenceKey = std::tuple<NodeId, int32_t, CommHash, int32_t>;

  NodeState& take(const std::string& path, const InspectorRecord& record) {
    NodeState& node = nodes_.of(path, record.host);
    const NodeId id = node.row.node_id;
    if (!record.op) {
      ++node.losses["inspector:unknown_operations"];
      return node;
    }
    Collective row;
    row.node_id = id;
    row.op = *record.op;
    // Without the times of its events a call began at the latest its duration before its line was written.
    row.timestamp_ns = record.started_ns.value_or(std::max<int64_t>(record.dumped_ns - record.duration_ns, 0));
    row.called_ns = row.timestamp_ns;
    row.duration_ns = record.duration_ns;
    row.completion = Completion::kProfiler;
    if (record.started_ns && record.by_device) {
      row.kernel_start_ns = record.started_ns;
      row.kernel_end_ns = *record.started_ns + record.duration_ns;
    }
    row.seq = record.number;
    row.rank = record.rank;
    row.rank_source = RankSource::kInit;
    row.nranks = record.nranks;
    row.comm_id_hash = inspector_sequence(record.comm, *record.op);
    row.comm_ptr = row.comm_id_hash;
    row.pid = record.pid;
    row.bytes = record.bytes;
    row.peer = record.peer;
    node.row.started_ns = std::min(node.row.started_ns, row.timestamp_ns);
    node.row.ended_ns = std::max(node.row.ended_ns.value_or(0), row.timestamp_ns + record.duration_ns);
    ProcessState& process = processes_[{id, record.pid}];
    process.first_ns = std::min(process.first_ns, row.timestamp_ns);
    if (process.comms.insert(row.comm_id_hash).second) {
      deliver_communicator(record, row);
    }
    keep(node, std::move(row));
    return node;
  }

  void deliver_communicator(const InspectorRecord& record, const Collective& row) {
    Communicator comm{.node_id = row.node_id, .pid = row.pid, .comm_ptr = row.comm_ptr};
    comm.comm_id_hash = row.comm_id_hash;
    comm.nccl_comm_hash = record.comm;
    comm.rank = row.rank;
    comm.rank_source = row.rank_source;
    comm.nranks = row.nranks;
    comm.created_ns = row.timestamp_ns;
    sink_.accept(std::move(comm));
  }

  /// Without a limit each row is delivered at once.
  void keep(NodeState& node, Collective row) {
    if (most_ == std::numeric_limits<uint64_t>::max()) {
      return deliver(node, std::move(row));
    }
    const SequenceKey key{row.node_id, row.pid, row.comm_id_hash, row.rank.value_or(0)};
    if (kept_.size() >= kMostSequences && !kept_.contains(key)) {
      ++summary_.calls_left;
      return;
    }
    std::deque<Collective>& calls = kept_[key];
    calls.push_back(std::move(row));
    if (calls.size() > std::max(most_ / kept_.size(), kLeastKept)) {
      calls.pop_front();
      ++summary_.calls_left;
    }
  }

  void deliver_kept() {
    std::map<NodeId, NodeState*> by_id;
    for (auto& [name, state] : nodes_.all()) {
      by_id.emplace(state.row.node_id, &state);
    }
    for (auto& [key, calls] : kept_) {
      const size_t most = std::max(most_ / kept_.size(), kLeastKept);
      const size_t left = calls.size() > most ? calls.size() - most : 0;
      summary_.calls_left += left;
      for (size_t i = left; i < calls.size(); ++i) {
        deliver(*by_id.at(std::get<0>(key)), std::move(calls[i]));
      }
    }
  }

  void deliver(NodeState& node, Collective row) {
    row.event_id = make_event_id(row.node_id, ++node.numbers);
    ++summary_.calls;
    sink_.accept(std::move(row));
  }

  EventSink& sink_;
  const Note& note_;
  uint64_t most_;
  Summary summary_;
  HostNodes<Numbers> nodes_{std::string(kInspectorFormat)};
  std::map<std::pair<NodeId, int32_t>, ProcessState> processes_;
  std::map<SequenceKey, std::deque<Collective>> kept_;
};

}  // namespace

Result<Summary> import_nccl_inspector(std::span<const std::string> paths, EventSink& sink, const Note& note,
                                      const Options& options) {
  Import import(sink, note, options.most_calls);
  ST_TRY(read_files(import, paths, note, "no line of NCCL's Inspector"));
  import.finish();
  return import.summary();
}

}  // namespace stalltrace::import
