// SPDX-License-Identifier: Apache-2.0
#include "blackbox/import.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "blackbox/decode/decode.h"
#include "blackbox/decode/steps.h"
#include "blackbox/format/reader.h"

namespace stalltrace {
namespace {

using namespace blackbox;

/// Newest anchors of boxes of one kernel differ by what its clock was corrected in between; by more, one of them lies.
constexpr int64_t kOneClockNs = kNsPerSecond;
/// Signs of life this much apart tell that one process outlived another.
constexpr int64_t kOutlivedNs = kNsPerSecond;

struct Box {
  Contents contents;
  EventTable table;
  int64_t offset_ns = 0;      // UTC minus CLOCK_MONOTONIC
  uid_t owner = 0;            // of its file
  int64_t last_heard_ns = 0;  // UTC
  int64_t seen_until_ns = 0;  // of what it left open, UTC
  bool left_open = false;     // its communicators had not all ended
  size_t node = 0;
};

/// The same kernel and pid namespace: there, a pid names one process.
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

int64_t far_apart(int64_t a_ns, int64_t b_ns) { return std::abs(a_ns - b_ns); }

/// A time of day on the boxes' clock.
uint64_t moment(int64_t utc_ns, int64_t offset_ns) {
  return static_cast<uint64_t>(std::max<int64_t>(utc_ns - offset_ns, 0));
}

class RingImport {
 public:
  explicit RingImport(EventSink& sink) : sink_(sink) {}

  Status load(const std::string& path) {
    ST_ASSIGN(BoxReader reader, BoxReader::open(path));
    ST_ASSIGN(Contents contents, reader.read());
    const st_box_header& header = contents.header;
    const auto offset_ns = clock_offset_of(header);
    if (!offset_ns) {
      return fail(path + ": bears no time of day", "give a file that the profiler plugin wrote", ErrorKind::kCorrupt);
    }
    if (!seen_.insert({text_of(header.boot_id), header.pid_namespace, header.pid, header.created_ns}).second) {
      return {};
    }
    Box box{.offset_ns = *offset_ns, .owner = reader.owner()};
    box.table.add(contents);
    box.left_open = std::ranges::any_of(contents.communicators,
                                        [](const st_box_communicator& entry) { return entry.destroyed_ns == 0; });
    box.contents = std::move(contents);
    boxes_.push_back(std::move(box));
    return {};
  }

  RingSummary deliver() {
    choose_clocks();
    hear_of_jobs();
    make_nodes();
    for (const Box& box : boxes_) {
      deliver_box(box);
    }
    for (const auto& [key, count] : losses_) {
      sink_.accept(Loss{key.first, key.second, count});
    }
    summary_.processes = boxes_.size();
    summary_.nodes = nodes_.size();
    return summary_;
  }
  [[nodiscard]] bool empty() const { return boxes_.empty(); }

 private:
  /// One offset for all boxes of one kernel and user: they share its clock, and their differences stay exact. What
  /// another user's box says of the time moves nobody's rows but its own.
  void choose_clocks() {
    std::map<std::pair<std::string, uid_t>, std::vector<std::pair<uint64_t, int64_t>>> clocks;  // when taken, offset
    for (const Box& box : boxes_) {
      const st_box_header& header = box.contents.header;
      clocks[{text_of(header.boot_id), box.owner}].emplace_back(header.anchored_ns, box.offset_ns);
    }
    for (Box& box : boxes_) {
      std::pair<uint64_t, int64_t> newest{0, box.offset_ns};
      for (const auto& [taken_ns, offset_ns] : clocks[{text_of(box.contents.header.boot_id), box.owner}]) {
        if (far_apart(offset_ns, box.offset_ns) <= kOneClockNs) {
          newest = std::max(newest, {taken_ns, offset_ns});
        }
      }
      box.offset_ns = newest.second;
      const uint64_t now_ns = moment(utc_now_ns(), box.offset_ns);
      const uint64_t heard = std::max(box.table.last_sign_of_life(now_ns), last_beat(box.contents.header, now_ns));
      const auto created_ns = to_utc(box.contents.header.created_ns, box.offset_ns);
      box.last_heard_ns = to_utc(heard, box.offset_ns).value_or(created_ns.value_or(box.offset_ns));
    }
  }

  /// When anything was last heard of the communicators that a box has not ended: now, while a process of theirs lives.
  void hear_of_jobs() {
    std::unordered_map<uint64_t, int64_t> heard;  // by communicator's hash
    const auto each_communicator = [](const Box& box, const auto& visit) {
      for (const st_box_communicator& entry : box.contents.communicators) {
        if (entry.hash != 0 && entry.destroyed_ns == 0) {
          visit(entry.hash);
        }
      }
    };
    for (Box& box : boxes_) {
      box.seen_until_ns = box.left_open && box.contents.has_writer ? utc_now_ns() : box.last_heard_ns;
      each_communicator(box, [&](uint64_t hash) {
        int64_t& latest = heard.try_emplace(hash, box.seen_until_ns).first->second;
        latest = std::max(latest, box.seen_until_ns);
      });
    }
    for (Box& box : boxes_) {
      each_communicator(box, [&](uint64_t hash) { box.seen_until_ns = std::max(box.seen_until_ns, heard[hash]); });
    }
  }

  /// The place of a box's node in nodes_. Boxes that say another time of day than those of the same name are apart.
  size_t node_index(const Box& box, std::multimap<NodeKey, size_t>& index) {
    const st_box_header& header = box.contents.header;
    const NodeKey key = node_of(header);
    const auto [first, last] = index.equal_range(key);
    const auto same = std::find_if(first, last, [&](const auto& entry) {
      return far_apart(nodes_[entry.second].clock_offset_ns, box.offset_ns) <= kOneClockNs;
    });
    if (same != last) {
      return same->second;
    }
    Node node{.name = key.name, .hostname = text_of(header.hostname), .boot_id = key.boot_id};
    node.started_ns = to_utc(header.created_ns, box.offset_ns).value_or(box.last_heard_ns);
    node.ended_ns = node.started_ns;
    node.clock_offset_ns = box.offset_ns;
    node.agent_version = "import";
    nodes_.push_back(std::move(node));
    return index.emplace(key, nodes_.size() - 1)->second;
  }

  /// A node's recording ends with the last that was heard of it or, while something of it is unfinished, of its job.
  void make_nodes() {
    std::multimap<NodeKey, size_t> index;
    for (Box& box : boxes_) {
      box.node = node_index(box, index);
      Node& node = nodes_[box.node];
      node.started_ns =
          std::min(node.started_ns, to_utc(box.contents.header.created_ns, box.offset_ns).value_or(box.last_heard_ns));
      node.ended_ns = std::max(*node.ended_ns, box.seen_until_ns);
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

  /// Whether another ended a communicator in order that `box` left open, and after anything was heard of that: NCCL
  /// tells the other ranks of a death within milliseconds, and they abort.
  static bool ended_without(const Box& box, const Box& other) {
    return std::ranges::any_of(other.contents.communicators, [&](const st_box_communicator& ended) {
      const auto ended_ns = to_utc(ended.destroyed_ns, other.offset_ns);
      return ended.hash != 0 && ended_ns && *ended_ns > box.last_heard_ns &&
             std::ranges::any_of(box.contents.communicators, [&](const st_box_communicator& left) {
               return left.hash == ended.hash && left.destroyed_ns == 0;
             });
    });
  }

  /// A process that is gone without having ended its communicators has died. When is known only as far as others
  /// outlived it: where all fell silent at once, which went first is not known.
  [[nodiscard]] bool outlived(const Box& box) const {
    return std::ranges::any_of(boxes_, [&](const Box& other) {
      return &other != &box && (other.contents.has_writer || other.last_heard_ns - box.last_heard_ns > kOutlivedNs ||
                                ended_without(box, other));
    });
  }

  void deliver_box(const Box& box) {
    const st_box_header& header = box.contents.header;
    const Node& node = nodes_[box.node];
    const Owner owner{node.node_id, static_cast<int32_t>(header.pid & 0x7fff'ffff), box.offset_ns};
    Process process = decode_process(header, owner);
    if (box.left_open && !box.contents.has_writer && outlived(box)) {
      process.exit_ns = box.last_heard_ns;
    }
    sink_.accept(std::move(process));
    summary_.living += box.contents.has_writer ? 1 : 0;
    std::map<uint64_t, const st_box_communicator*> communicators;
    for (const st_box_communicator& entry : box.contents.communicators) {
      communicators[entry.serial] = &entry;
      if (auto row = decode_communicator(entry, owner)) {
        sink_.accept(std::move(*row));
      }
    }
    deliver_collectives(box, owner, communicators);
    for (WaitSpan& span : decode_pauses(box.contents, owner, moment(utc_now_ns(), box.offset_ns))) {
      sink_.accept(std::move(span));
    }
    for (const Loss& loss : decode_losses(box.contents, node.node_id)) {
      losses_[{loss.node_id, loss.source}] += loss.count;
    }
  }

  using Communicators = std::map<uint64_t, const st_box_communicator*>;
  static const st_box_communicator* find(const Communicators& communicators, uint64_t serial) {
    const auto found = communicators.find(serial);
    return found == communicators.end() ? nullptr : found->second;
  }

  void deliver_collectives(const Box& box, const Owner& owner, const Communicators& communicators) {
    std::vector<BoxCall> calls;
    for (const auto& [id, entry] : box.table.entries()) {
      if (auto call = decode_call(entry, box.table, find(communicators, entry.event.communicator), owner)) {
        calls.push_back(std::move(*call));
      }
    }
    number_in_call_order(calls);
    std::ranges::sort(calls, {}, [](const BoxCall& call) { return call.row.timestamp_ns; });
    std::unordered_map<uint64_t, EventId> events;
    for (BoxCall& call : calls) {
      call.row.event_id = make_event_id(owner.node_id, ++numbers_[owner.node_id]);
      events[call.id] = call.row.event_id;
      ++summary_.collectives;
      summary_.open += call.row.completion == Completion::kOpen ? 1 : 0;
      sink_.accept(std::move(call.row));
    }
    deliver_steps(box, owner, communicators, events);
  }

  void deliver_steps(const Box& box, const Owner& owner, const Communicators& communicators,
                     const std::unordered_map<uint64_t, EventId>& events) {
    StepDecoder decoder;
    std::vector<StepRow> rows;
    const auto add = [&](std::optional<StepRow> row) {
      if (row) {
        rows.push_back(std::move(*row));
      }
    };
    std::vector<st_box_event> open;
    for (const auto& [id, entry] : box.table.entries()) {
      const bool is_step = entry.event.type == ST_BOX_PROXY_STEP;
      if (entry.open && (is_step || entry.event.type == ST_BOX_PROXY_OP)) {
        open.push_back(entry.event);
      } else if (is_step) {
        add(decoder.ended_step(entry.event, find(communicators, entry.event.communicator), owner));
      }
    }
    for (const auto& [id, entry] : box.table.entries()) {
      if (entry.event.type == ST_BOX_PROXY_OP && !entry.open) {
        add(decoder.ended_operation(entry.event, find(communicators, entry.event.communicator), owner));
      }
    }
    const int64_t seen_ns = box.contents.has_writer ? utc_now_ns() : box.last_heard_ns;
    const auto lookup = [&](uint64_t serial) { return find(communicators, serial); };
    for (StepRow& row : decoder.open_operations(open, moment(seen_ns, owner.clock_offset_ns), lookup, owner)) {
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
  std::vector<Box> boxes_;
  std::vector<Node> nodes_;
  std::map<NodeId, uint64_t> numbers_;
  std::set<std::tuple<std::string, uint64_t, uint32_t, uint64_t>> seen_;
  std::map<std::pair<NodeId, std::string>, uint64_t> losses_;
  RingSummary summary_;
};

}  // namespace

Result<RingSummary> import_rings(std::span<const std::string> paths, EventSink& sink,
                                 const std::function<void(const Error&)>& note) {
  RingImport import(sink);
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

}  // namespace stalltrace
