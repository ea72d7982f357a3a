// SPDX-License-Identifier: Apache-2.0
#include "blackbox/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/text.h"
#include "blackbox/decode/process.h"
#include "blackbox/liveness.h"
#include "blackbox/session.h"

namespace stalltrace::blackbox {
namespace {

/// Clock offsets of files from one kernel differ by its clock's corrections in between; a larger difference means that
/// one of them is wrong.
constexpr int64_t kOneClockNs = kNsPerSecond;

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

/// One process: its file may be given twice.
using FileKey = std::tuple<std::string, uint64_t, uint32_t, uint64_t>;

FileKey key_of(const st_box_header& header) {
  return {text_of(header.boot_id), header.pid_namespace, header.pid, header.created_ns};
}

/// A larger file's events would take gigabytes. The plugin's are 64 MiB, unless STALLTRACE_RING_SIZE says otherwise.
constexpr uint64_t kMostFileBytes = 512U << 20;

/// What the first reading leaves of a file: who wrote it, its clock and its signs of life, no events.
struct SurveyedFile {
  std::string path;
  FileKey key;
  NodeKey node_key;
  std::string hostname;
  uid_t owner = 0;
  uint64_t created_ns = 0;        // CLOCK_MONOTONIC
  uint64_t anchored_ns = 0;       // the same, of its clock offset
  int64_t offset_ns = 0;          // UTC minus CLOCK_MONOTONIC
  ProcessActivity activity{};     // by that clock
  int64_t observed_until_ns = 0;  // UTC; last time at which its open calls are known to be open
  size_t node = 0;
};

bool is_one_clock(int64_t a_ns, int64_t b_ns) { return std::abs(a_ns - b_ns) <= kOneClockNs; }

class Import {
 public:
  Import(EventSink& sink, CommandLines commands) : sink_(sink), commands_(commands) {}

  /// First reading: counts and communicators only, so that the memory of all files together is small.
  Status survey(const std::string& path) {
    ST_ASSIGN(ProfilerSession session, open(path, Keep::kNothing));
    const st_box_header& header = session.header();
    FileKey key = key_of(header);
    if (!seen_.insert(key).second) {
      return {};
    }
    const int64_t offset_ns = *clock_offset_of(session.file().layout());
    // Its times are moved to the clock of its kernel when that is chosen.
    files_.push_back({.path = path,
                      .key = std::move(key),
                      .node_key = node_of(header),
                      .hostname = text_of(header.hostname),
                      .owner = session.file().owner(),
                      .created_ns = header.created_ns,
                      .anchored_ns = header.anchored_ns,
                      .offset_ns = offset_ns,
                      .activity = session.activity(session.has_writer(), offset_ns)});
    return {};
  }

  /// Second reading, one file at a time.
  ImportSummary deliver(const std::function<void(const Error&)>& note) {
    choose_clocks();
    Liveness liveness;
    for (const SurveyedFile& file : files_) {
      liveness.add(file.activity);
    }
    extend_to_peers();
    make_nodes();
    for (size_t number = 0; number < files_.size(); ++number) {
      const Status delivered = deliver_file(files_[number], liveness.death_ns(number));
      summary_.processes += delivered ? 1 : 0;
      delivered ? void() : note(delivered.error());
    }
    for (const auto& [node, losses] : losses_) {
      for (Loss& loss : losses.rows(node)) {
        sink_.accept(std::move(loss));
      }
    }
    summary_.nodes = nodes_.size();
    return summary_;
  }
  [[nodiscard]] bool empty() const { return files_.empty(); }

 private:
  static Result<ProfilerSession> open(const std::string& path, Keep keep) {
    ST_ASSIGN(ProfilerSession session, ProfilerSession::open(path, keep));
    const st_box_header& layout = session.file().layout();
    if (layout.file_bytes > kMostFileBytes) {
      return fail(fmt::format("{}: {}; of a profiler file at most {} are imported", path,
                              format_size(static_cast<int64_t>(layout.file_bytes)),
                              format_size(static_cast<int64_t>(kMostFileBytes))),
                  "give the job a smaller STALLTRACE_RING_SIZE");
    }
    const auto offset_ns = clock_offset_of(layout);
    if (!offset_ns) {
      return fail(path + ": bears no time of day", "give a file that the profiler plugin wrote", ErrorKind::kCorrupt);
    }
    ST_TRY(session.read(to_monotonic(utc_now_ns(), *offset_ns)));
    return session;
  }

  /// Takes the newest offset for all files of one kernel and user: they share its clock, so differences between their
  /// times stay exact. A file with a wrong time affects no other user's rows.
  void choose_clocks() {
    std::map<std::pair<std::string, uid_t>, std::vector<std::pair<uint64_t, int64_t>>> clocks;  // when taken, offset
    const auto clock_of = [&](const SurveyedFile& file) -> auto& {
      return clocks[{file.node_key.boot_id, file.owner}];
    };
    for (const SurveyedFile& file : files_) {
      clock_of(file).emplace_back(file.anchored_ns, file.offset_ns);
    }
    for (SurveyedFile& file : files_) {
      std::pair<uint64_t, int64_t> newest{0, file.offset_ns};
      for (const auto& [taken_ns, offset_ns] : clock_of(file)) {
        if (is_one_clock(offset_ns, file.offset_ns)) {
          newest = std::max(newest, {taken_ns, offset_ns});
        }
      }
      file.activity.move_by(newest.second - file.offset_ns);
      file.offset_ns = newest.second;
    }
  }

  /// An open call is known to be open until the last sign of life of any process with the same open communicator; until
  /// now, while one of them lives.
  void extend_to_peers() {
    std::unordered_map<uint64_t, int64_t> latest;  // by communicator's hash
    for (SurveyedFile& file : files_) {
      const ProcessActivity& activity = file.activity;
      file.observed_until_ns =
          activity.alive && activity.has_open_communicator ? utc_now_ns() : activity.last_active_ns;
      for (const uint64_t hash : activity.open) {
        int64_t& time_ns = latest.try_emplace(hash, file.observed_until_ns).first->second;
        time_ns = std::max(time_ns, file.observed_until_ns);
      }
    }
    for (SurveyedFile& file : files_) {
      for (const uint64_t hash : file.activity.open) {
        file.observed_until_ns = std::max(file.observed_until_ns, latest[hash]);
      }
    }
  }

  static int64_t started_ns(const SurveyedFile& file) {
    return to_utc(file.created_ns, file.offset_ns).value_or(file.activity.last_active_ns);
  }

  /// The index of a file's node in nodes_. Files of one node name with different times of day belong to different
  /// nodes.
  size_t node_index(const SurveyedFile& file, std::multimap<NodeKey, size_t>& index) {
    const NodeKey& key = file.node_key;
    const auto [first, last] = index.equal_range(key);
    const auto same = std::find_if(first, last, [&](const auto& entry) {
      return is_one_clock(nodes_[entry.second].clock_offset_ns, file.offset_ns);
    });
    if (same != last) {
      return same->second;
    }
    Node node{.name = key.name, .hostname = file.hostname, .boot_id = key.boot_id};
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
    for (SurveyedFile& file : files_) {
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

  Status deliver_file(const SurveyedFile& file, std::optional<int64_t> death_ns) {
    ST_ASSIGN(ProfilerSession session, open(file.path, Keep::kAll));
    const st_box_header& header = session.header();
    if (key_of(header) != file.key) {
      return fail(file.path + ": became another process's file while it was read", "read it again");
    }
    Node& node = nodes_[file.node];
    const NodeId node_id = node.node_id;
    if (session.has_writer() && utc_now_ns() > *node.ended_ns) {  // it went on since the first reading
      node.ended_ns = utc_now_ns();
      sink_.accept(node);
    }
    const Owner owner{node_id, static_cast<int32_t>(header.pid & 0x7fff'ffff), file.offset_ns};
    Process process = decode_process(header, owner, commands_);
    process.exit_ns = death_ns;
    sink_.accept(std::move(process));
    summary_.living += session.has_writer() ? 1 : 0;
    for (Communicator& row : session.take_communicators(owner)) {
      sink_.accept(std::move(row));
    }
    deliver_steps(session, file, owner, deliver_calls(session, owner));
    const uint64_t now_ns = to_monotonic(utc_now_ns(), file.offset_ns);
    for (WaitSpan& span : decode_pauses(header, session.has_writer(), owner, now_ns)) {
      sink_.accept(std::move(span));
    }
    losses_[node_id].add(session.losses());
    losses_[node_id].add(kLostUnread, session.unread());
    return {};
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

  void deliver_steps(ProfilerSession& session, const SurveyedFile& file, const Owner& owner,
                     const std::unordered_map<uint64_t, EventId>& events) {
    std::vector<StepRow> rows = session.take_steps(owner);
    const int64_t until_ns = session.has_writer() ? utc_now_ns() : file.activity.last_active_ns;
    for (StepRow& row : session.open_steps(owner, to_monotonic(until_ns, file.offset_ns))) {
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
  std::vector<SurveyedFile> files_;
  std::vector<Node> nodes_;
  std::map<NodeId, uint64_t> numbers_;
  std::set<FileKey> seen_;
  std::map<NodeId, LossCounts> losses_;
  ImportSummary summary_;
};

}  // namespace

Result<ImportSummary> import_profiler_files(std::span<const std::string> paths, EventSink& sink,
                                            const std::function<void(const Error&)>& note, CommandLines commands) {
  Import import(sink, commands);
  std::vector<Error> refused;
  for (const std::string& path : paths) {
    if (Status surveyed = import.survey(path); !surveyed) {
      refused.push_back(std::move(surveyed.error()));
    }
  }
  if (import.empty() && !refused.empty()) {
    return std::unexpected(std::move(refused.front()));
  }
  std::ranges::for_each(refused, note);
  return import.deliver(note);
}

}  // namespace stalltrace::blackbox
