// SPDX-License-Identifier: Apache-2.0
// Flight Recorder dumps as events: a dump is a node with one process, since it names neither its host nor its pid.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "import/evidence.h"
#include "import/file_node.h"
#include "import/flight_recorder/dump.h"
#include "model/events/imported_evidence.h"

namespace stalltrace::import {
namespace {

constexpr size_t kLargestDump = size_t{128} << 20;

Result<Dump> load(const std::string& path) {
  ST_ASSIGN(const std::string bytes, read_whole(path, kLargestDump));
  Result<Dump> dump = read_dump(bytes);
  return dump ? std::move(dump) : with_context(path, std::move(dump.error()));
}

class Import {
 public:
  Import(EventSink& sink, uint64_t calls_per_dump) : sink_(sink), keep_(calls_per_dump) {}

  void deliver(const std::string& path, const Dump& dump) {
    ++summary_.files;
    ++summary_.nodes;
    ++summary_.processes;
    Rank who = announce(path);
    who.dump = &dump;
    int64_t first_ns = who.written_ns;
    int64_t last_ns = 0;
    bool timed = true;
    for (size_t i = 0; i < dump.entries.size(); ++i) {
      const DumpEntry& entry = dump.entries[i];
      timed = timed && entry.created_ns > 0;
      if (entry.created_ns > 0) {
        first_ns = std::min(first_ns, entry.created_ns);
        last_ns = std::max({last_ns, entry.created_ns, entry.completed_ns.value_or(0)});
      }
    }
    const std::vector<bool> numbered = newest_of_numbers(dump.entries);
    stack_ids_.assign(dump.stacks.size(), 0);
    const size_t skipped = dump.entries.size() > keep_ ? dump.entries.size() - keep_ : 0;
    summary_.calls_left += skipped;
    for (size_t i = skipped; i < dump.entries.size(); ++i) {
      const DumpEntry& entry = dump.entries[i];
      deliver_call(who, entry, numbered[i], timed ? entry.created_ns : first_ns + static_cast<int64_t>(i) * kNsPerUs);
    }
    finish(path, who, first_ns, std::max(last_ns, first_ns), timed);
    for (const auto& [source, count] :
         {std::pair("dump:entries_not_kept", dump.entries_left), std::pair("dump:stacks_not_kept", dump.stacks_left)}) {
      if (count > 0) {
        sink_.accept(Loss{who.node, source, count});
      }
    }
  }

  /// A file that can't be read is a node without calls: the report says what is lost.
  void deliver_unreadable(const std::string& path) {
    const Rank who = announce(path);
    sink_.accept(Node{.node_id = who.node,
                      .name = std::string(base_name(path)),
                      .agent_version = "flight_recorder",
                      .started_ns = who.written_ns,
                      .ended_ns = who.written_ns,
                      .missing_evidence = fmt::format("{} {}", kLacksDurations, kLacksPids)});
    sink_.accept(Loss{who.node, "dump:unreadable_file", 1});
  }
  [[nodiscard]] const Summary& summary() const { return summary_; }

 private:
  /// A process group that has calls.
  struct Group {
    uint64_t pointer = 0;
    std::span<const int32_t> ranks;  // global ones; empty: not in the dump
    std::optional<int32_t> rank;     // of the dump's process
    std::string description;
    CommHash hash = 0;
  };
  struct Rank {
    NodeId node = 0;
    int32_t pid = 0;
    std::optional<int32_t> rank;
    int64_t written_ns = 0;
    uint64_t numbers = 0;
    const Dump* dump = nullptr;
    std::map<std::string, Group> groups;
  };

  /// Which entries are the last of their group and number: those of a coalesced group have one number.
  static std::vector<bool> newest_of_numbers(const std::vector<DumpEntry>& entries) {
    std::vector<bool> newest(entries.size());
    std::map<std::string_view, std::unordered_set<int64_t>> numbers;
    for (size_t i = entries.size(); i-- > 0;) {
      const DumpEntry& entry = entries[i];
      newest[i] = entry.number && numbers[entry.group].insert(*entry.number).second;
    }
    return newest;
  }

  Rank announce(const std::string& path) {
    Rank who;
    who.rank = rank_of_dump(path);
    who.pid = who.rank ? *who.rank % 0x3fff'ffff + 1 : ++unnamed_;
    const Node node = nodes_.make(path, "flight_recorder");
    who.written_ns = node.started_ns;
    who.node = node.node_id;
    return who;
  }

  static CommHash hash_of(const DumpEntry& entry, std::span<const int32_t> ranks) {
    uint64_t hash = splitmix64_text(entry.group, splitmix64_text("flight_recorder"));
    hash = splitmix64_text(entry.group_description, hash);
    for (const int32_t rank : ranks) {
      hash = splitmix64_fold(hash, static_cast<uint64_t>(rank));
    }
    return hash;
  }

  /// The group of an entry, and whether it is its first one.
  static std::pair<const Group&, bool> group_of(Rank& who, const DumpEntry& entry) {
    const auto [known, is_new] = who.groups.try_emplace(entry.group);
    Group& group = known->second;
    if (is_new) {
      group.pointer = who.groups.size();
      if (const auto listed = who.dump->groups.find(entry.group); listed != who.dump->groups.end()) {
        group.ranks = listed->second;
      }
      group.rank = rank_in(who, group.ranks);
    }
    if (is_new || group.description != entry.group_description) {
      group.description = entry.group_description;
      group.hash = hash_of(entry, group.ranks);
    }
    return {group, is_new};
  }

  void deliver_call(Rank& who, const DumpEntry& entry, bool numbered, int64_t time_ns) {
    const auto [group, is_new] = group_of(who, entry);
    Collective row;
    row.event_id = make_event_id(who.node, ++who.numbers);
    row.node_id = who.node;
    row.library = entry.library;
    row.op = entry.op.value_or(Operation::kGroup);
    row.timestamp_ns = time_ns;
    row.called_ns = time_ns;
    if (entry.state == DumpEntry::State::kCompleted) {
      row.completion = Completion::kSync;
      row.duration_ns = std::max<int64_t>(entry.completed_ns.value_or(time_ns) - time_ns, 0);
    } else {
      row.completion =
          entry.retired || entry.state == DumpEntry::State::kUnknown ? Completion::kUnobserved : Completion::kOpen;
    }
    row.kernel_start_ns = entry.started_ns;
    if (numbered && entry.op && entry.group_known) {
      row.seq = entry.number;
    }
    row.rank = group.rank;
    row.rank_source = row.rank ? RankSource::kEnvironment : RankSource::kUnknown;
    if (!group.ranks.empty()) {
      row.nranks = static_cast<int32_t>(group.ranks.size());
    }
    row.comm_id_hash = entry.group_known ? group.hash : 0;
    row.comm_ptr = group.pointer;
    row.pid = who.pid;
    row.count = entry.count;
    row.datatype = entry.datatype;
    row.bytes = payload_bytes(row.op, entry.count.value_or(0), entry.datatype ? nccl_datatype_size(*entry.datatype) : 0,
                              row.nranks.value_or(0));
    if (entry.stack) {
      row.stack_id = deliver_stack(*who.dump, *entry.stack);
    }
    if (is_new) {
      Communicator comm{.node_id = who.node, .pid = who.pid, .comm_ptr = group.pointer};
      comm.comm_id_hash = row.comm_id_hash;
      comm.nccl_comm_hash = row.comm_id_hash;
      comm.rank = row.rank;
      comm.rank_source = row.rank_source;
      comm.nranks = row.nranks;
      comm.created_ns = time_ns;
      sink_.accept(std::move(comm));
    }
    ++summary_.calls;
    sink_.accept(std::move(row));
  }

  static std::optional<int32_t> rank_in(const Rank& who, std::span<const int32_t> ranks) {
    if (!who.rank || ranks.empty()) {
      return who.rank;
    }
    const auto found = std::ranges::find(ranks, *who.rank);
    return found == ranks.end() ? std::nullopt : std::optional(static_cast<int32_t>(found - ranks.begin()));
  }

  /// Its id. Calls of one dump share stacks.
  int64_t deliver_stack(const Dump& dump, uint32_t stack) {
    int64_t& id = stack_ids_[stack];
    if (id == 0) {
      const std::string text = frames_to_text(dump.stacks[stack]);
      id = static_cast<int64_t>(splitmix64_text(text) >> 1);  // ids are positive
      if (stacks_.size() < kMostStacks && stacks_.insert(id).second) {
        sink_.accept(Stack{id, text});
      }
    }
    return id;
  }

  void finish(const std::string& path, const Rank& who, int64_t first_ns, int64_t last_ns, bool timed) {
    Node node{.node_id = who.node, .name = std::string(base_name(path)), .agent_version = "flight_recorder"};
    node.started_ns = first_ns;
    node.ended_ns = std::max(last_ns, who.written_ns);
    node.missing_evidence = fmt::format("{} {}", kLacksDurations, kLacksPids);
    if (!timed) {
      node.missing_evidence += fmt::format(" {}", kLacksTimes);
    }
    sink_.accept(std::move(node));
    Process process{.node_id = who.node, .pid = who.pid, .start_ns = first_ns};
    process.rank = who.rank;
    process.rank_source = who.rank ? RankSource::kEnvironment : RankSource::kUnknown;
    sink_.accept(std::move(process));
    sink_.accept(LogLine{.node_id = who.node,
                         .timestamp_ns = std::max(last_ns, who.written_ns),
                         .pid = who.pid,
                         .rank = who.rank,
                         .kind = LogKind::kEnd,
                         .line = 0,
                         .file = path,
                         .text = fmt::format("dump written, version {}", printable(who.dump->version))});
  }

  static constexpr size_t kMostStacks = 20'000;
  EventSink& sink_;
  uint64_t keep_;
  Summary summary_;
  FileNodes nodes_;
  int32_t unnamed_ = 0;  // dumps without a rank
  std::set<int64_t> stacks_;
  std::vector<int64_t> stack_ids_;  // of the dump that is delivered, by its stacks; 0: not delivered
};

}  // namespace

Result<Summary> import_flight_recorder(std::span<const std::string> paths, EventSink& sink, const Note& note,
                                       const Options& options) {
  Import import(sink, std::max<uint64_t>(options.most_calls / std::max<size_t>(paths.size(), 1), 64));
  std::optional<Error> refused;
  for (const std::string& path : paths) {
    const Result<Dump> dump = load(path);
    if (!dump) {
      note(fmt::format("left out: {}", dump.error().what));
      refused = dump.error();
      import.deliver_unreadable(path);
      continue;
    }
    if (dump->entries.empty()) {
      note(fmt::format("{}: holds no collectives", path));
    }
    import.deliver(path, *dump);
  }
  if (import.summary().files == 0) {
    return std::unexpected(refused.value_or(Error{ErrorKind::kUsage, "no dump", ""}));
  }
  return import.summary();
}

}  // namespace stalltrace::import
