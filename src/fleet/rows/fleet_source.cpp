// SPDX-License-Identifier: Apache-2.0
#include "fleet/rows/fleet_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "fleet/rows/received_rows.h"
#include "fleet/rows/rows_conversation.h"

namespace stalltrace::fleet {
namespace {

constexpr int64_t kShareOfOne = 4;  // one of several nodes may take a quarter of the room
constexpr size_t kMostNamedWithoutRoom = 20;
/// Of one time that nodes are asked, where nearly nothing is left of the limit.
constexpr std::chrono::nanoseconds kLeastLimit{std::chrono::milliseconds(50)};

template <typename T>
constexpr std::string_view kTableOf = EventTraits<T>::kTable;

/// What every analysis reads. Tables that hold few rows, or none, come at once with them.
serve::RowsRequest first_request() {
  serve::RowsRequest request;
  for (const std::string_view table : {kTableOf<Node>, kTableOf<Process>, kTableOf<Communicator>, kTableOf<Connection>,
                                       kTableOf<Loss>, kTableOf<BenchmarkRun>, kTableOf<Collective>,
                                       kTableOf<KernelMessage>, kTableOf<LogLine>, kTableOf<BenchmarkResult>}) {
    request.reads.push_back({.table = std::string(table)});
  }
  for (const std::string_view table : later_tables()) {
    request.reads.push_back({.table = std::string(table)});
  }
  return request;
}

constexpr std::array kEvidenceOfThreads{kTableOf<TcpEvent>, kTableOf<TcpSample>, kTableOf<WaitSpan>};
constexpr std::array kEvidenceOfHosts{kTableOf<PacketDrop>, kTableOf<HostSample>, kTableOf<PortCounter>};

/// One table that is missing is brought with those that are read after it.
std::vector<serve::RowsRequest::Read> reads_with(std::string_view table, TimeRange range) {
  std::vector<serve::RowsRequest::Read> reads;
  const bool to_the_end = range.to_ns == kForever;
  if (to_the_end && std::ranges::find(kEvidenceOfThreads, table) != kEvidenceOfThreads.end()) {
    for (const std::string_view each : kEvidenceOfThreads) {
      reads.push_back({.table = std::string(each), .range = range});
    }
  } else {
    reads.push_back({.table = std::string(table), .range = range});
  }
  return reads;
}

std::string tables_in(const std::vector<serve::RowsRequest::Read>& reads) {
  std::string tables;
  for (const serve::RowsRequest::Read& read : reads) {
    tables += read.table + " ";
  }
  return tables;
}

bool covers(TimeRange all, TimeRange part) { return all.from_ns <= part.from_ns && all.to_ns >= part.to_ns; }

}  // namespace

Result<std::unique_ptr<FleetSource>> FleetSource::open(std::vector<NodeAddress> nodes, FleetSourceOptions options) {
  std::unique_ptr<FleetSource> source(new FleetSource(std::move(nodes), std::move(options)));
  source->begin_with(first_request().reads);
  if (source->answering() > 0) {
    ST_TRY(source->choose_recordings());
  }
  return source;
}

size_t FleetSource::answering() const { return static_cast<size_t>(std::ranges::count(lost_, false)); }

void FleetSource::lose(size_t node, Error error, bool found_no_room) {
  if (!lost_[node]) {
    lost_[node] = true;
    if (found_no_room) {
      without_room_.push_back(nodes_[node].shown());
    }
    failed_.push_back({nodes_[node].shown(), std::move(error)});
  }
}

/// Within half of what is left of the limit.
std::vector<Status> FleetSource::converse(std::span<const NodeAddress> nodes,
                                          std::span<Conversation* const> conversations) {
  ClientOptions client = options_.client;
  client.limit =
      std::chrono::floor<std::chrono::milliseconds>(std::max<std::chrono::nanoseconds>(time_left() / 2, kLeastLimit));
  const int64_t begin_ns = monotonic_now_ns();
  std::vector<Status> ended = fleet::converse(nodes, conversations, client);
  asked_for_ += std::chrono::nanoseconds(monotonic_now_ns() - begin_ns);
  return ended;
}

/// What a node may still send.
int64_t FleetSource::most_bytes_of(size_t node) const {
  const int64_t of_one = nodes_.size() == 1 ? options_.most_bytes : options_.most_bytes / kShareOfOne;
  return of_one - kept_bytes_[node];
}

/// Makes room for what is read next. The index of the first of its tables.
size_t FleetSource::prepare_for(const Reads& reads) {
  const size_t first = brought_.size();
  for (const serve::RowsRequest::Read& read : reads) {
    brought_.push_back(std::make_unique<Brought>(Brought{.read = read, .of = {}}));
    brought_.back()->of.resize(recordings_.size());
  }
  return first;
}

void FleetSource::keep(ReceivedRows& received, const Reads& reads, size_t first, size_t recording) {
  notes_.insert(received.notes().begin(), received.notes().end());
  int64_t& left_out = rows_left_out_[{recording, tables_in(reads)}];
  left_out = std::max(left_out, received.rows_left_out());
  std::vector<std::unique_ptr<store::TableBlocks>> tables = received.take_tables();
  for (size_t at = 0; at < tables.size(); ++at) {
    brought_[first + at]->of[recording] = std::move(tables[at]);
  }
}

void FleetSource::begin_with(const Reads& reads) {
  Room room{options_.most_bytes};
  std::vector<std::unique_ptr<OpeningConversation>> asked;
  std::vector<Conversation*> conversations;
  for (size_t node = 0; node < nodes_.size(); ++node) {
    asked.push_back(
        std::make_unique<OpeningConversation>(serve::RowsRequest{.reads = reads}, room, most_bytes_of(node)));
    conversations.push_back(asked.back().get());
  }
  std::vector<Status> ended = converse(nodes_, conversations);
  std::vector<ReceivedRows*> received;  // by recording
  for (size_t node = 0; node < nodes_.size(); ++node) {
    const std::optional<RowsConversation>& sent = asked[node]->rows;
    moved_.bytes += sent ? sent->moved_bytes : 0;
    if (!ended[node]) {
      lose(node, std::move(ended[node].error()), sent && sent->found_no_room);
      continue;
    }
    kept_bytes_[node] += sent->moved_bytes;
    const InfoConversation& about = asked[node]->about;
    if (about.clock) {
      clocks_[node] = *about.clock;
    }
    for (const RecordingInfo& recording : about.info.recordings) {
      recordings_.push_back({.node = node, .name = recording.name, .runs = {}});
      moved_.recording_bytes += recording.size_bytes;
    }
    for (auto& [index, rows] : asked[node]->rows->received) {
      received.push_back(&rows);
    }
  }
  moved_.recordings = std::ssize(recordings_);
  const size_t first = prepare_for(reads);
  for (size_t recording = 0; recording < received.size(); ++recording) {
    keep(*received[recording], reads, first, recording);
  }
}

/// Asks every node that has not failed.
Status FleetSource::bring(const Reads& reads) {
  Room room{options_.most_bytes - std::accumulate(kept_bytes_.begin(), kept_bytes_.end(), int64_t{0})};
  std::vector<NodeAddress> asked;
  std::vector<size_t> nodes;
  std::vector<std::unique_ptr<RowsConversation>> kept;
  std::vector<Conversation*> conversations;
  for (size_t node = 0; node < nodes_.size(); ++node) {
    std::vector<RowsConversation::Wanted> wanted;
    for (size_t i = 0; i < recordings_.size() && !lost_[node]; ++i) {
      if (recordings_[i].node == node) {
        wanted.push_back({.recording = i, .name = recordings_[i].name, .request = {.reads = reads}});
        if (std::ranges::any_of(reads, &serve::RowsRequest::Read::narrow)) {
          wanted.back().request.windows = windows_;
          wanted.back().request.shifts_ns = shifts_of(i);
        }
      }
    }
    if (!wanted.empty()) {
      asked.push_back(nodes_[node]);
      nodes.push_back(node);
      kept.push_back(std::make_unique<RowsConversation>(std::move(wanted), room, most_bytes_of(node)));
      conversations.push_back(kept.back().get());
    }
  }
  std::vector<Status> ended = converse(asked, conversations);
  const size_t first = prepare_for(reads);
  const size_t failed_before = failed_.size();
  for (size_t i = 0; i < asked.size(); ++i) {
    moved_.bytes += kept[i]->moved_bytes;
    if (!ended[i]) {
      lose(nodes[i], std::move(ended[i].error()), kept[i]->found_no_room);
      continue;
    }
    kept_bytes_[nodes[i]] += kept[i]->moved_bytes;
    for (auto& [recording, received] : kept[i]->received) {
      keep(received, reads, first, recording);
    }
  }
  if (failed_.size() > failed_before) {
    ST_TRY(choose_recordings());
    return fail(fmt::format("{} does not answer any more", failed_.back().node), "ask again", ErrorKind::kInterrupted);
  }
  return {};
}

/// Decides which recording each node is read from, of those whose nodes have not failed.
Status FleetSource::choose_recordings() {
  unified_ = {};
  measured_clocks_.clear();
  const Brought* nodes = find(kTableOf<Node>, {}, true);
  const Brought* processes = find(kTableOf<Process>, {}, true);
  const Brought* calls = find(kTableOf<Collective>, {}, true);
  for (size_t i = 0; i < recordings_.size(); ++i) {
    if (lost_[recordings_[i].node]) {
      continue;
    }
    std::map<NodeId, int64_t> rows;
    for (const auto& [node, count] : processes->of[i]->rows_of_nodes()) {
      rows[node] += 0;
    }
    for (const auto& [node, count] : calls->of[i]->rows_of_nodes()) {
      rows[node] += count;
    }
    auto runs = store::nodes_of(*nodes->of[i]);
    if (!runs) {
      lose(recordings_[i].node, std::move(runs.error()));
      return choose_recordings();
    }
    recordings_[i].runs = *std::move(runs);
    unified_.add(i, recordings_[i].runs, rows);
  }
  ST_TRY(unified_.decide());
  const int64_t now_ns = options_.client.clock.now_ns();
  for (size_t i = 0; i < recordings_.size(); ++i) {
    const Recording& recording = recordings_[i];
    if (lost_[recording.node]) {
      continue;
    }
    if (unified_.is_copy(i)) {
      notes_.insert(fmt::format("read once: {} of {} is also served by another node of this answer",
                                printable(recording.name), nodes_[recording.node].shown()));
    }
    const auto clock = clocks_.find(recording.node);
    for (const Node& run : recording.runs) {
      const auto unified_id = unified_.unified_id(i, run.node_id);
      if (unified_id && clock != clocks_.end()) {
        if (const auto measured = measured_clock(run, clock->second, now_ns)) {
          measured_clocks_.push_back({*unified_id, measured->offset_ns, measured->error_ns});
        }
      }
    }
  }
  return {};
}

FleetSource::Brought* FleetSource::find(std::string_view table, TimeRange range, bool completely) {
  for (const auto& brought : brought_) {
    const serve::RowsRequest::Read& read = brought->read;
    if (read.table == table &&
        (read.narrow ? narrow_ && read.range == range : completely || covers(read.range, range))) {
      return brought.get();
    }
  }
  return nullptr;
}

Result<FleetSource::Brought*> FleetSource::have(std::string_view table, TimeRange range, bool completely) {
  Brought* found = find(table, range, completely);
  if (found == nullptr) {
    ST_TRY(bring(reads_with(table, range)));
    found = find(table, range, completely);
  }
  return found;
}

std::vector<const store::TableBlocks*> FleetSource::tables_of(const Brought& brought) const {
  std::vector<const store::TableBlocks*> tables;
  for (size_t i = 0; i < recordings_.size(); ++i) {
    tables.push_back(lost_[recordings_[i].node] ? nullptr : brought.of[i].get());
  }
  return tables;
}

/// With the ids that the recording itself has.
std::map<NodeId, int64_t> FleetSource::shifts_of(size_t recording) const {
  std::map<NodeId, int64_t> shifts_ns;
  for (const Node& run : recordings_[recording].runs) {
    const auto unified_id = unified_.unified_id(recording, run.node_id);
    const auto shift = unified_id ? shifts_ns_.find(*unified_id) : shifts_ns_.end();
    if (shift != shifts_ns_.end()) {
      shifts_ns[run.node_id] = shift->second;
    }
  }
  return shifts_ns;
}

Status FleetSource::read_state(AnyRows rows) {
  return std::visit(
      [&]<typename T>(std::vector<T>* all) -> Status {
        ST_ASSIGN(const Brought* brought, have(kTableOf<T>, {}, true));
        return store::read_row_blocks(tables_of(*brought), unified_, all);
      },
      rows);
}

Status FleetSource::read_stream(TimeRange range, AnyVisitor visitor) {
  return std::visit(
      [&]<typename T>(const Visitor<T>* visit) -> Status {
        ST_ASSIGN(const Brought* brought, have(kTableOf<T>, range, false));
        return store::visit_row_blocks(tables_of(*brought), unified_, range, visit);
      },
      visitor);
}

Status FleetSource::read_by_node(TimeRange range, const std::set<NodeId>* nodes, AnyVisitor visitor) {
  return std::visit(
      [&]<typename T>(const Visitor<T>* visit) -> Status {
        ST_ASSIGN(const Brought* brought, have(kTableOf<T>, range, false));
        const std::vector<const store::TableBlocks*> tables = tables_of(*brought);
        for (size_t i = 0; i < tables.size(); ++i) {
          if (tables[i] == nullptr || (nodes != nullptr && !has_any(i, *nodes))) {
            continue;
          }
          if (nodes == nullptr || recordings_[i].runs.size() == 1) {
            ST_TRY(store::visit_row_blocks(*tables[i], i, unified_, range, visit));
            continue;
          }
          const Visitor<T> visit_asked = [&](const T& row) {
            if (nodes->contains(row.node_id)) {
              (*visit)(row);
            }
          };
          ST_TRY(store::visit_row_blocks(*tables[i], i, unified_, range, &visit_asked));
        }
        return {};
      },
      visitor);
}

bool FleetSource::has_any(size_t recording, const std::set<NodeId>& nodes) const {
  return std::ranges::any_of(recordings_[recording].runs, [&](const Node& run) {
    const std::optional<NodeId> id = unified_.unified_id(recording, run.node_id);
    return id && nodes.contains(*id);
  });
}

Status FleetSource::begin(const analysis::EvidenceReads& reads, const std::vector<NodeClock>& clocks) {
  shifts_ns_.clear();
  int64_t drift_ns = 0;  // nodes do not know how clocks drift, and get wider windows
  for (const NodeClock& clock : clocks) {
    shifts_ns_[clock.node_id] = clock.shift_ns;
    drift_ns = std::max(drift_ns, clock.drift.most_ns());
  }
  std::vector<TimeRange> windows = reads.windows.intervals();
  for (TimeRange& window : windows) {
    window = {window.from_ns - drift_ns, window.to_ns + drift_ns};
  }
  windows_ = serve::joined_windows(std::move(windows));
  Reads all;
  for (const std::string_view table : kEvidenceOfHosts) {
    all.push_back({.table = std::string(table), .range = reads.host});
  }
  all.push_back({.table = std::string(kTableOf<TcpEvent>), .range = reads.rows});
  for (const std::string_view table : {kTableOf<TcpSample>, kTableOf<WaitSpan>, kTableOf<ProxyStep>}) {
    all.push_back({.table = std::string(table), .range = reads.rows, .narrow = true});
  }
  std::erase_if(brought_,
                [](const auto& brought) { return brought->read.narrow; });  // of an analysis that was given up
  ST_TRY(bring(all));
  narrow_ = true;
  return {};
}

int64_t FleetSource::rows_left_out() const {
  int64_t rows = 0;
  for (const auto& [asked, left_out] : rows_left_out_) {
    rows += lost_[recordings_[asked.first].node] ? 0 : left_out;
  }
  return rows;
}

std::optional<std::string> FleetSource::no_room_note() const {
  if (without_room_.empty()) {
    return std::nullopt;
  }
  const size_t named = std::min(without_room_.size(), kMostNamedWithoutRoom);
  std::string note =
      fmt::format("no room for the rows of {} of {}, which are not in this report: {}", without_room_.size(),
                  count_of(std::ssize(nodes_), "node"), fmt::join(std::span(without_room_).first(named), ", "));
  if (named < without_room_.size()) {
    note += fmt::format(" and {} more", without_room_.size() - named);
  }
  return fmt::format("{}; all nodes together have {} here, one of several a quarter of it: ask fewer at a time", note,
                     format_size(options_.most_bytes));
}

std::vector<std::string> FleetSource::notes() const { return {notes_.begin(), notes_.end()}; }

}  // namespace stalltrace::fleet
