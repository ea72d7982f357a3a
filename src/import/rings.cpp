// SPDX-License-Identifier: Apache-2.0
#include "import/rings.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "blackbox/decode.h"
#include "blackbox/reader.h"
#include "blackbox/steps.h"

namespace stalltrace {
namespace {

using namespace blackbox;

/// Signs of life this much apart tell that one process outlived another.
constexpr int64_t kOutlivedNs = kNsPerSecond;

struct Box {
  Contents contents;
  EventTable table;
  int64_t offset_ns = 0;      // UTC minus CLOCK_MONOTONIC
  int64_t last_heard_ns = 0;  // UTC
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
    Box box{.offset_ns = *offset_ns};
    box.table.add(contents);
    box.left_open = std::ranges::any_of(contents.communicators,
                                        [](const st_box_communicator& entry) { return entry.destroyed_ns == 0; });
    box.contents = std::move(contents);
    boxes_.push_back(std::move(box));
    return {};
  }

  RingSummary deliver() {
    choose_clocks();
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
  /// One offset for all boxes of one kernel: they share its clock, and their differences stay exact.
  void choose_clocks() {
    std::map<std::string, std::pair<uint64_t, int64_t>> newest;  // by boot id: when taken, offset
    for (const Box& box : boxes_) {
      auto& best = newest[text_of(box.contents.header.boot_id)];
      best = std::max(best, {box.contents.header.anchored_ns, box.offset_ns});
    }
    for (Box& box : boxes_) {
      box.offset_ns = newest[text_of(box.contents.header.boot_id)].second;
      const uint64_t now_ns = moment(utc_now_ns(), box.offset_ns);
      const uint64_t heard = std::max(box.table.last_sign_of_life(now_ns), last_beat(box.contents.header, now_ns));
      const auto created_ns = to_utc(box.contents.header.created_ns, box.offset_ns);
      box.last_heard_ns = to_utc(heard, box.offset_ns).value_or(created_ns.value_or(box.offset_ns));
    }
  }

  /// A node's recording ends with the last that was heard of it, or, while something of it is unfinished, now.
  void make_nodes() {
    std::map<NodeKey, size_t> index;
    for (Box& box : boxes_) {
      const st_box_header& header = box.contents.header;
      const NodeKey key = node_of(header);
      const auto [found, fresh] = index.try_emplace(key, nodes_.size());
      box.node = found->second;
      const int64_t started_ns = to_utc(header.created_ns, box.offset_ns).value_or(box.last_heard_ns);
      if (fresh) {
        nodes_.push_back({.name = key.name, .hostname = text_of(header.hostname), .boot_id = key.boot_id});
        nodes_.back().started_ns = started_ns;
        nodes_.back().ended_ns = started_ns;
        nodes_.back().clock_offset_ns = box.offset_ns;
        nodes_.back().agent_version = "import";
      }
      Node& node = nodes_[box.node];
      node.started_ns = std::min(node.started_ns, started_ns);
      node.ended_ns = std::max(*node.ended_ns, box.left_open ? utc_now_ns() : box.last_heard_ns);
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

  /// A process that is gone without having ended its communicators has died. When is known only as far as others
  /// outlived it: where all fell silent at once, which went first is not known.
  [[nodiscard]] bool outlived(const Box& box) const {
    return std::ranges::any_of(boxes_, [&](const Box& other) {
      return &other != &box && (other.contents.has_writer || other.last_heard_ns - box.last_heard_ns > kOutlivedNs);
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
      summary_.open += call.row.duration_ns ? 0 : 1;
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
