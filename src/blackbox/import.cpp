// SPDX-License-Identifier: Apache-2.0
#include "blackbox/import.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "blackbox/decode/process.h"
#include "blackbox/liveness.h"
#include "blackbox/session.h"

namespace stalltrace::blackbox {
namespace {

/// Clock offsets of files from one kernel differ by its clock's corrections in between; a larger difference means that
/// one of them is wrong.
constexpr int64_t kOneClockNs = kNsPerSecond;

struct ImportedFile {
  ProfilerSession session;
  int64_t offset_ns = 0;          // UTC minus CLOCK_MONOTONIC
  ProcessActivity activity{};     // by that clock
  int64_t observed_until_ns = 0;  // UTC; last time at which its open calls are known to be open
  size_t node = 0;
};

/// One kernel and pid namespace, in which a pid names one process.
struct NodeKey {
  std::string name;
  std::string boot_id;
  uint64_t pid_namespace = 0;
  auto operator<=>(const NodeKey&) const = default;
};

NodeKey node_of(const st_box_header& header) {
  std::string name = text_of(header.node);
  return {name.empty() ? text_of(header.hostname) : std::move(name), text_of(header.boot_id), header.pid_namespace};
}

bool is_one_clock(int64_t a_ns, int64_t b_ns) { return std::abs(a_ns - b_ns) <= kOneClockNs; }

class Import {
 public:
  Import(EventSink& sink, CommandLines commands) : sink_(sink), commands_(commands) {}

  Status load(const std::string& path) {
    ST_ASSIGN(ProfilerSession session, ProfilerSession::open(path, Keep::kAll));
    const auto offset_ns = clock_offset_of(session.file().layout());
    if (!offset_ns) {
      return fail(path + ": bears no time of day", "give a file that the profiler plugin wrote", ErrorKind::kCorrupt);
    }
    ST_TRY(session.read(to_monotonic(utc_now_ns(), *offset_ns)));
    const st_box_header& header = session.header();
    if (seen_.insert({text_of(header.boot_id), header.pid_namespace, header.pid, header.created_ns}).second) {
      files_.push_back({.session = std::move(session), .offset_ns = *offset_ns});
    }
    return {};
  }

  ImportSummary deliver() {
    choose_clocks();
    Liveness liveness;
    for (ImportedFile& file : files_) {
      file.activity = file.session.activity(file.session.has_writer(), file.offset_ns);
      liveness.add(file.activity);
    }
    extend_to_peers();
    make_nodes();
    for (size_t number = 0; number < files_.size(); ++number) {
      deliver_file(files_[number], liveness.death_ns(number));
    }
    for (const auto& [node, losses] : losses_) {
      for (Loss& loss : losses.rows(node)) {
        sink_.accept(std::move(loss));
      }
    }
    summary_.processes = files_.size();
    summary_.nodes = nodes_.size();
    return summary_;
  }
  [[nodiscard]] bool empty() const { return files_.empty(); }

 private:
  /// Takes the newest offset for all files of one kernel and user: they share its clock, so differences between their
  /// times stay exact. A file with a wrong time affects no other user's rows.
  void choose_clocks() {
    std::map<std::pair<std::string, uid_t>, std::vector<std::pair<uint64_t, int64_t>>> clocks;  // when taken, offset
    const auto clock_of = [&](const ImportedFile& file) -> auto& {
      return clocks[{text_of(file.session.header().boot_id), file.session.file().owner()}];
    };
    for (const ImportedFile& file : files_) {
      clock_of(file).emplace_back(file.session.header().anchored_ns, file.offset_ns);
    }
    for (ImportedFile& file : files_) {
      std::pair<uint64_t, int64_t> newest{0, file.offset_ns};
      for (const auto& [taken_ns, offset_ns] : clock_of(file)) {
        if (is_one_clock(offset_ns, file.offset_ns)) {
          newest = std::max(newest, {taken_ns, offset_ns});
        }
      }
      file.offset_ns = newest.second;
    }
  }

  /// An open call is known to be open until the last sign of life of any process with the same open communicator; until
  /// now, while one of them lives.
  void extend_to_peers() {
    std::unordered_map<uint64_t, int64_t> latest;  // by communicator's hash
    for (ImportedFile& file : files_) {
      const ProcessActivity& activity = file.activity;
      file.observed_until_ns =
          activity.alive && activity.has_open_communicator ? utc_now_ns() : activity.last_active_ns;
      for (const uint64_t hash : activity.open) {
        int64_t& time_ns = latest.try_emplace(hash, file.observed_until_ns).first->second;
        time_ns = std::max(time_ns, file.observed_until_ns);
      }
    }
    for (ImportedFile& file : files_) {
      for (const uint64_t hash : file.activity.open) {
        file.observed_until_ns = std::max(file.observed_until_ns, latest[hash]);
      }
    }
  }

  static int64_t started_ns(const ImportedFile& file) {
    return to_utc(file.session.header().created_ns, file.offset_ns).value_or(file.activity.last_active_ns);
  }

  /// The index of a file's node in nodes_. Files of one node name with different times of day belong to different
  /// nodes.
  size_t node_index(const ImportedFile& file, std::multimap<NodeKey, size_t>& index) {
    const st_box_header& header = file.session.header();
    const NodeKey key = node_of(header);
    const auto [first, last] = index.equal_range(key);
    const auto same = std::find_if(first, last, [&](const auto& entry) {
      return is_one_clock(nodes_[entry.second].clock_offset_ns, file.offset_ns);
    });
    if (same != last) {
      return same->second;
    }
    Node node{.name = key.name, .hostname = text_of(header.hostname), .boot_id = key.boot_id};
    node.started_ns = started_ns(file);
    node.ended_ns = node.started_ns;
    node.clock_offset_ns = file.offset_ns;
    node.agent_version = "import";
    nodes_.push_back(std::move(node));
    return index.emplace(key, nodes_.size() - 1)->second;
  }

  /// A node's recording ends at the last time at which one of its processes, or an open call of theirs, was observed.
  void make_nodes() {
    std::multimap<NodeKey, size_t> index;
    for (ImportedFile& file : files_) {
      file.node = node_index(file, index);
      Node& node = nodes_[file.node];
      node.started_ns = std::min(node.started_ns, started_ns(file));
      node.ended_ns = std::max(*node.ended_ns, file.observed_until_ns);
    }
    std::set<NodeId> taken;
    for (Node& node : nodes_) {
      node.node_id = make_node_id(node.name, node.boot_id, node.started_ns);
      while (!taken.insert(node.node_id).second) {
        node.node_id = node.node_id % ((1U << kNodeIdBits) - 1) + 1;
      }
      sink_.accept(node);
    }
  }

  void deliver_file(ImportedFile& file, std::optional<int64_t> death_ns) {
    ProfilerSession& session = file.session;
    const st_box_header& header = session.header();
    const NodeId node_id = nodes_[file.node].node_id;
    const Owner owner{node_id, static_cast<int32_t>(header.pid & 0x7fff'ffff), file.offset_ns};
    Process process = decode_process(header, owner, commands_);
    process.exit_ns = death_ns;
    sink_.accept(std::move(process));
    summary_.living += session.has_writer() ? 1 : 0;
    for (Communicator& row : session.take_communicators(owner)) {
      sink_.accept(std::move(row));
    }
    deliver_steps(file, owner, deliver_calls(session, owner));
    const uint64_t now_ns = to_monotonic(utc_now_ns(), file.offset_ns);
    for (WaitSpan& span : decode_pauses(header, session.has_writer(), owner, now_ns)) {
      sink_.accept(std::move(span));
    }
    losses_[node_id].add(session.losses());
    losses_[node_id].add(kLostUnread, session.unread());
  }

  /// Returns the rows' event ids by the calls' ids in the file.
  std::unordered_map<uint64_t, EventId> deliver_calls(ProfilerSession& session, const Owner& owner) {
    std::unordered_map<uint64_t, EventId> events;
    for (ProfilerCall& call : session.take_calls(owner)) {
      call.row.event_id = make_event_id(owner.node_id, ++numbers_[owner.node_id]);
      events[call.id] = call.row.event_id;
      ++summary_.collectives;
      summary_.open += call.row.completion == Completion::kOpen ? 1 : 0;
      sink_.accept(std::move(call.row));
    }
    return events;
  }

  void deliver_steps(ImportedFile& file, const Owner& owner, const std::unordered_map<uint64_t, EventId>& events) {
    std::vector<StepRow> rows = file.session.take_steps(owner);
    const int64_t until_ns = file.session.has_writer() ? utc_now_ns() : file.activity.last_active_ns;
    for (StepRow& row : file.session.open_steps(owner, to_monotonic(until_ns, file.offset_ns))) {
      rows.push_back(std::move(row));
    }
    std::ranges::sort(rows, {}, [](const StepRow& step) { return step.row.timestamp_ns; });
    for (StepRow& step : rows) {
      const auto event = events.find(step.collective);
      step.row.collective_id = event == events.end() ? 0 : event->second;
      sink_.accept(std::move(step.row));
    }
  }

  EventSink& sink_;
  CommandLines commands_;
  std::vector<ImportedFile> files_;
  std::vector<Node> nodes_;
  std::map<NodeId, uint64_t> numbers_;
  std::set<std::tuple<std::string, uint64_t, uint32_t, uint64_t>> seen_;
  std::map<NodeId, LossCounts> losses_;
  ImportSummary summary_;
};

}  // namespace

Result<ImportSummary> import_profiler_files(std::span<const std::string> paths, EventSink& sink,
                                            const std::function<void(const Error&)>& note, CommandLines commands) {
  Import import(sink, commands);
  std::vector<Error> refused;
  for (const std::string& path : paths) {
    if (Status loaded = import.load(path); !loaded) {
      refused.push_back(std::move(loaded.error()));
    }
  }
  if (import.empty() && !refused.empty()) {
    return std::unexpected(std::move(refused.front()));
  }
  std::ranges::for_each(refused, note);
  return import.deliver();
}

}  // namespace stalltrace::blackbox
