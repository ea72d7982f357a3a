// SPDX-License-Identifier: Apache-2.0
#include "export/trace_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/hash.h"
#include "base/text.h"
#include "export/tracks/common_clock.h"
#include "export/tracks/finding_flows.h"
#include "export/tracks/participants.h"
#include "export/tracks/selection.h"

namespace stalltrace::trace_export {
namespace {

/// The time that all slices of an export lie in; findings have windows without ends.
TimeRange whole(const Report& report, const TimeRange& asked) {
  const int64_t from = std::clamp<int64_t>(report.range.from_ns, 0, kLatestNs);
  const int64_t to = std::clamp<int64_t>(report.range.to_ns, from, kLatestNs);
  return {std::clamp(asked.from_ns, from, to), std::clamp(asked.to_ns, from, to)};
}

std::vector<TimeRange> ranges_of(const Report& report, const TraceOptions& options) {
  if (!options.findings_only) {
    return {options.range};
  }
  std::vector<TimeRange> ranges;
  for (const Finding& finding : report.findings) {
    ranges.push_back(
        {std::max(finding.window.from_ns, options.range.from_ns), std::min(finding.window.to_ns, options.range.to_ns)});
  }
  return ranges;
}

/// The time that a viewer shows as zero: not after the first event, where that is known.
int64_t zero_of(const std::vector<Node>& nodes, const Report& report, const CommonClock& clock) {
  int64_t zero = report.collectives > 0 ? report.range.from_ns : kLatestNs;
  for (const Node& node : nodes) {
    zero = std::min(zero, clock.at(node.node_id, node.started_ns));
  }
  return zero == kLatestNs ? std::max<int64_t>(report.range.from_ns, 0) : std::max<int64_t>(zero, 0);
}

/// The annotations of one event; reused.
class Notes {
 public:
  Notes& clear() {
    all_.clear();
    return *this;
  }
  template <typename T>
  requires std::is_integral_v<T> Notes& add(const char* name, T value) {
    if constexpr (std::is_same_v<T, bool>) {
      all_.push_back({name, value});
    } else if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8) {
      all_.push_back({name, uint64_t{value}});
    } else {
      all_.push_back({name, int64_t{value}});
    }
    return *this;
  }
  Notes& add(const char* name, double value) {
    all_.push_back({name, value});
    return *this;
  }
  /// Unknown texts are left out; `text` must live until the event is written.
  Notes& add(const char* name, std::string_view text) {
    if (!text.empty()) {
      all_.push_back({name, text});
    }
    return *this;
  }
  Notes& unique(const char* name, std::string_view text) {
    if (!text.empty()) {
      all_.push_back({name, UniqueText{text}});
    }
    return *this;
  }
  Notes& hex(const char* name, uint64_t value) {
    all_.push_back({name, Hex{value}});
    return *this;
  }
  template <typename T>
  Notes& add(const char* name, const std::optional<T>& value) {
    return value ? add(name, *value) : *this;
  }
  operator Annotations() const { return all_; }  // NOLINT(google-explicit-constructor)

 private:
  std::vector<Annotation> all_;
};

std::string_view congestion_state(int32_t state) {
  constexpr std::array<std::string_view, 5> kNames{"open", "disorder", "CWR", "recovery", "loss"};
  return state >= 0 && static_cast<size_t>(state) < kNames.size() ? kNames[static_cast<size_t>(state)] : "";
}

constexpr size_t kMostOpenWaits = 65'536;  // threads at a time whose wait is held back: bounds the memory

class Exporter {
 public:
  Exporter(EventSource& source, const Report& report, std::span<const NodeClock> clocks, const TraceOptions& options,
           TraceEncoder& encoder, Participants participants)
      : source_(source),
        report_(report),
        clocks_(clocks),
        clock_(clocks),
        encoder_(encoder),
        selection_(ranges_of(report, options), options.ranks, clock_),
        span_(whole(report, options.range)),
        most_stalled_calls_(options.most_stalled_calls),
        writer_(encoder, options.stopped),
        participants_(std::move(participants)) {}

  Result<TraceSummary> run() {
    encoder_.begin(zero_of(participants_.nodes(), report_, clock_));
    put_findings();
    ST_TRY(participants_.declare_ranks(selection_, writer_));
    ST_ASSIGN(const std::vector<Stack> stacks, source_.stacks());
    for (const Stack& stack : stacks) {
      stacks_[stack.stack_id] = stack.frames;
    }
    ST_TRY(put_stalls());
    put_processes();
    put_nodes();
    ST_TRY(each<Collective>([this](const Collective& row) { put_collective(row); }));
    ST_TRY(each<Collective>([this](const Collective& row) { put_launch(row); }));
    ST_TRY(each<Collective>([this](const Collective& row) { put_kernel(row); }));
    ST_TRY(each<ProxyStep>([this](const ProxyStep& row) { put(row); }));
    ST_TRY(each<WaitSpan>([this](const WaitSpan& row) { put(row); }));
    put_open_waits();
    ST_TRY(each<PythonStack>([this](const PythonStack& row) { put(row); }));
    ST_TRY(each<LogLine>([this](const LogLine& row) { put(row); }));
    ST_TRY(each<NetSpan>([this](const NetSpan& row) { put(row); }));
    ST_TRY(each<TcpEvent>([this](const TcpEvent& row) { put(row); }));
    ST_TRY(each<TcpSample>([this](const TcpSample& row) { put(row); }));
    ST_TRY(each<PacketDrop>([this](const PacketDrop& row) { put(row); }));
    ST_TRY(each<HostSample>([this](const HostSample& row) { put(row); }));
    ST_TRY(each<PortCounter>([this](const PortCounter& row) { put(row); }));
    ST_TRY(encoder_.finish());
    TraceSummary summary = writer_.summary();
    summary.stalls_without_calls = stalls_without_calls();
    summary.absent_ranks = participants_.absent_ranks();
    return summary;
  }

 private:
  template <StreamedType T>
  Status each(const EventSource::Visitor<T>& visit) {
    ST_TRY(writer_.status());
    ST_TRY(selection_.each<T>(source_, visit));
    return writer_.status();
  }

  [[nodiscard]] int64_t at(NodeId node, int64_t time_ns) const { return clock_.at(node, time_ns); }
  /// The end of an interval of a node; none where it has no duration.
  [[nodiscard]] static std::optional<int64_t> end_of(int64_t begin_ns, const std::optional<int64_t>& duration_ns) {
    return duration_ns ? std::optional(end_after(begin_ns, *duration_ns)) : std::nullopt;
  }
  std::string_view frames_of(int64_t stack_id) const {
    const auto found = stacks_.find(stack_id);
    return found == stacks_.end() ? std::string_view() : std::string_view(found->second);
  }
  /// "node3:1535", as explain --instance takes it.
  std::string_view event_name(EventId id) {
    name_ = fmt::format("{}:{}", participants_.node_name(node_of(id)), number_of(id));
    return name_;
  }

  [[nodiscard]] uint64_t stalls_without_calls() const;
  void put_findings();
  Status put_stalls();
  void put_processes();
  void put_nodes();
  void put_collective(const Collective& row);
  void put_launch(const Collective& row);
  void put_kernel(const Collective& row);
  void put(const ProxyStep& row);
  void put(const WaitSpan& row);
  void put_open_waits();
  void put_wait(const WaitSpan& row, int64_t end_ns);
  void put(const PythonStack& row);
  void put(const LogLine& row);
  void put(const NetSpan& row);
  void put(const TcpEvent& row);
  void put(const TcpSample& row);
  void put(const PacketDrop& row);
  void put(const HostSample& row);
  void put(const PortCounter& row);

  TrackId connection(NodeId node, uint64_t cookie, int32_t pid, const Endpoint& from, const Endpoint& to);

  EventSource& source_;
  const Report& report_;
  std::span<const NodeClock> clocks_;
  CommonClock clock_;
  TraceEncoder& encoder_;
  Selection selection_;
  TimeRange span_;
  size_t most_stalled_calls_;
  TrackWriter writer_;
  Participants participants_;
  std::optional<FindingFlows> flows_;
  std::unordered_map<int64_t, std::string> stacks_;
  /// Of each thread (node, pid, tid) the wait that was reported while it lasted, until its next row comes.
  std::map<std::tuple<NodeId, int32_t, int32_t>, WaitSpan> open_waits_;
  TrackId findings_ = kNoTrack;
  Notes notes_;
  std::string name_;
};

/// Instances of findings whose list is full. Others may affect more collectives than have stalled.
uint64_t Exporter::stalls_without_calls() const {
  uint64_t missing = 0;
  for (const Finding& finding : report_.findings) {
    size_t calls = 0;
    for (const StalledInstance& instance : finding.stalled) {
      calls += instance.calls.size();
    }
    const auto listed = static_cast<int64_t>(finding.stalled.size());
    if (calls >= most_stalled_calls_ && finding.collectives_affected > listed) {
      missing += static_cast<uint64_t>(finding.collectives_affected - listed);
    }
  }
  return missing;
}

void Exporter::put_findings() {
  if (report_.findings.empty()) {
    return;
  }
  findings_ = writer_.process("findings", 0);
  const auto name = [] { return std::string("findings"); };
  const auto begin_of = [this](size_t i) {
    return std::clamp(report_.findings[i].window.from_ns, span_.from_ns, span_.to_ns);
  };
  std::vector<size_t> by_time(report_.findings.size());
  std::iota(by_time.begin(), by_time.end(), size_t{0});
  std::ranges::stable_sort(by_time, {}, begin_of);
  for (const size_t i : by_time) {
    const Finding& finding = report_.findings[i];
    const int64_t from = begin_of(i);
    const int64_t to = std::clamp(finding.window.to_ns, from, std::max(from, span_.to_ns));
    notes_.clear()
        .add("finding", static_cast<int64_t>(i) + 1)
        .unique("summary", finding.summary)
        .add("severity", to_text(finding.severity))
        .add("confidence", finding.confidence)
        .add("lost_ms", finding.stall_ms)
        .add("collectives_affected", finding.collectives_affected)
        .unique("do", finding.remedy);
    std::string culprit;
    if (finding.culprit) {
      culprit = fmt::format("{}{}", finding.culprit->rank ? fmt::format("rank {} ", *finding.culprit->rank) : "",
                            finding.culprit->node);
    }
    std::string evidence;
    for (const Evidence& one : finding.evidence) {
      evidence += (evidence.empty() ? "" : "\n") + one.text;
    }
    notes_.unique("culprit", culprit).unique("evidence", evidence);
    if (finding.comm_id_hash != 0) {
      notes_.hex("comm_id_hash", finding.comm_id_hash);
    }
    writer_.slice(
        {findings_, RowKind::kFindings, 0, name},
        {.category = "finding", .name = to_text(finding.cause), .begin_ns = from, .end_ns = to, .annotations = notes_});
  }
}

/// One slice for each stalled instance, where its culprit is. Before the calls that it leads to: of events at one time
/// a viewer takes the first one as the origin.
Status Exporter::put_stalls() {
  std::vector<std::optional<ProcessKey>> culprits;
  for (const Finding& finding : report_.findings) {
    culprits.push_back(participants_.culprit_of(finding, report_));
  }
  flows_.emplace(report_.findings, culprits, clock_);
  if (!flows_->empty()) {
    ST_TRY(each<Collective>([this](const Collective& row) {
      if (participants_.selected({row.node_id, row.pid})) {
        flows_->match(row);
      }
    }));
  }
  const auto name = [] { return std::string("stalls that others waited in"); };
  std::unordered_set<FlowId> without_origin;
  for (const StallSlice* slice : flows_->slices_by_time()) {
    const StallSlice& stall = *slice;
    if (stall.flows.empty() && !selection_.has(stall.begin_ns, stall.end_ns)) {
      continue;
    }
    TrackId parent = stall.culprit ? participants_.process(stall.culprit->first, stall.culprit->second) : kNoTrack;
    parent = parent == kNoTrack ? findings_ : parent;
    const Finding& finding = report_.findings[stall.finding];
    notes_.clear()
        .add("finding", static_cast<int64_t>(stall.finding) + 1)
        .add("waiting_calls", static_cast<int64_t>(stall.flows.size()));
    const bool written = writer_.slice({parent, RowKind::kStalls, 0, name}, {.category = "stall",
                                                                             .name = to_text(finding.cause),
                                                                             .begin_ns = stall.begin_ns,
                                                                             .end_ns = stall.end_ns,
                                                                             .annotations = notes_,
                                                                             .flows_out = stall.flows});
    if (!written) {
      without_origin.insert(stall.flows.begin(), stall.flows.end());
    }
  }
  flows_->remove(without_origin);
  return {};
}

/// The ends of processes.
void Exporter::put_processes() {
  const auto name = [] { return std::string("process"); };
  for (const Process& process : participants_.processes()) {
    const int64_t time = process.exit_ns ? at(process.node_id, *process.exit_ns) : -1;
    const TrackId parent =
        time >= 0 && selection_.has(time, time) ? participants_.process(process.node_id, process.pid) : kNoTrack;
    if (parent == kNoTrack) {
      continue;
    }
    notes_.clear()
        .add("exit_code", process.exit_code)
        .add("exit_signal", process.exit_signal)
        .add("oom_killed", process.oom_killed)
        .unique("exe", process.exe)
        .unique("command", process.cmdline);
    writer_.instant({parent, RowKind::kProcess, 0, name},
                    {.category = "process", .name = "exit", .time_ns = time, .annotations = notes_});
  }
}

/// How each node's clock was moved, and what was lost on it.
void Exporter::put_nodes() {
  const auto clock_name = [] { return std::string("clock"); };
  for (const NodeClock& clock : clocks_) {
    const TrackId parent = participants_.node(clock.node_id);
    notes_.clear().add("moved_by_ns", clock.shift_ns);
    clock.error_ns ? notes_.add("known_within_ns", *clock.error_ns)
                   : notes_.add("problem", std::string_view("nothing bounds its distance from the others' clocks"));
    if (parent != kNoTrack) {
      writer_.instant({parent, RowKind::kClock, 0, clock_name},
                      {.category = "clock", .name = "clock", .time_ns = span_.from_ns, .annotations = notes_});
    }
  }
  const auto losses_name = [] { return std::string("losses"); };
  for (const Loss& loss : report_.losses) {
    const TrackId parent = participants_.node(loss.node_id);
    if (parent != kNoTrack && loss.count > 0) {
      name_ = "lost: " + loss.source;
      writer_.instant({parent, RowKind::kLosses, 0, losses_name},
                      {.category = "loss",
                       .name = name_,
                       .time_ns = span_.to_ns,
                       .annotations = notes_.clear().add("count", loss.count)});
    }
  }
}

/// From arrival to completion. Without an end while it is open; an instant where no end is reported.
void Exporter::put_collective(const Collective& row) {
  const TrackId parent = participants_.process(row.node_id, row.pid);
  if (parent == kNoTrack) {
    return;
  }
  const bool nccl = row.library == Library::kNccl || row.library == Library::kRccl;
  notes_.clear().unique("id", event_name(row.event_id)).add("seq", row.seq).add("completion", to_text(row.completion));
  if (row.bytes != 0) {
    notes_.add("bytes", row.bytes);
  }
  if (row.count) {
    const std::string_view known = nccl && row.datatype ? nccl_datatype_name(*row.datatype) : std::string_view();
    notes_.add("count", *row.count);
    known.empty() ? notes_.add("datatype", row.datatype) : notes_.add("datatype", known);
  }
  if (nccl && row.reduce_op) {
    notes_.add("reduce_op", nccl_reduce_op_name(*row.reduce_op));
  }
  notes_.add("root", row.root).add("peer", row.peer);
  if (row.return_code && *row.return_code != 0) {
    notes_.add("return_code", *row.return_code);
  }
  notes_.add("stack", frames_of(row.stack_id));
  const auto name = [&] {
    const std::string ranks = row.nranks ? fmt::format(" ({} ranks)", *row.nranks) : "";
    return row.comm_id_hash == 0 ? fmt::format("collectives of unknown communicator {:#x}{}", row.comm_ptr, ranks)
                                 : fmt::format("collectives of {}{}", format_hash(row.comm_id_hash), ranks);
  };
  const uint64_t which = row.comm_id_hash == 0 ? splitmix64_mix(row.comm_ptr + 1) : row.comm_id_hash;
  const TrackWriter::Row where{parent, RowKind::kCollectives, which, name};
  const int64_t begin = at(row.node_id, row.timestamp_ns);
  if (row.completion == Completion::kUnobserved) {
    writer_.instant(where,
                    {.category = "unobserved", .name = to_text(row.op), .time_ns = begin, .annotations = notes_});
    return;
  }
  writer_.slice(where, {.category = "collective",
                        .name = to_text(row.op),
                        .begin_ns = begin,
                        .end_ns = end_of(begin, row.duration_ns),
                        .annotations = notes_,
                        .flows_in = flows_->flows_to(row.event_id)});
}

/// The call on the CPU alone.
void Exporter::put_launch(const Collective& row) {
  const TrackId parent = row.launch_ns ? participants_.process(row.node_id, row.pid) : kNoTrack;
  if (parent == kNoTrack) {
    return;
  }
  const auto name = [&] { return fmt::format("calls on the CPU, thread {}", row.tid); };
  const int64_t begin = at(row.node_id, row.called_ns != 0 ? row.called_ns : row.timestamp_ns);
  writer_.slice({parent, RowKind::kLaunches, static_cast<uint64_t>(row.tid), name},
                {.category = "launch",
                 .name = to_text(row.op),
                 .begin_ns = begin,
                 .end_ns = end_of(begin, row.launch_ns),
                 .annotations = notes_.clear().add("seq", row.seq)});
}

/// The device's part.
void Exporter::put_kernel(const Collective& row) {
  const TrackId parent = row.kernel_start_ns ? participants_.process(row.node_id, row.pid) : kNoTrack;
  if (parent == kNoTrack) {
    return;
  }
  const auto name = [&] { return fmt::format("GPU kernels, stream {:#x}", row.stream); };
  const std::optional<int64_t> end =
      row.kernel_end_ns ? std::optional(at(row.node_id, *row.kernel_end_ns)) : std::nullopt;
  writer_.slice({parent, RowKind::kKernels, row.stream, name}, {.category = "kernel",
                                                                .name = to_text(row.op),
                                                                .begin_ns = at(row.node_id, *row.kernel_start_ns),
                                                                .end_ns = end,
                                                                .annotations = notes_.clear().add("seq", row.seq)});
}

void Exporter::put(const ProxyStep& row) {
  const TrackId parent = participants_.process(row.node_id, row.pid);
  if (parent == kNoTrack) {
    return;
  }
  notes_.clear()
      .add("channel", row.channel)
      .add("step", row.step)
      .add("steps", row.steps)
      .add("bytes", row.bytes)
      .add("gpu_wait_ns", row.gpu_wait_ns)
      .add("peer_wait_ns", row.peer_wait_ns)
      .add("network_wait_ns", row.network_wait_ns)
      .add("waits_for", to_text(row.waits_for));
  if (row.collective_id != 0) {
    notes_.unique("collective", event_name(row.collective_id));
  }
  const auto name = [&] {
    return fmt::format(
        "NCCL proxy: {} {}", row.is_send ? "to" : "from",
        row.peer ? fmt::format("rank {} of {}", *row.peer, format_hash(row.comm_id_hash)) : "unknown rank");
  };
  const uint64_t which = splitmix64_fold(
      row.comm_id_hash, static_cast<uint64_t>(row.peer.value_or(-1)) << 1U | static_cast<uint64_t>(row.is_send));
  const int64_t begin = at(row.node_id, row.timestamp_ns);
  writer_.slice({parent, RowKind::kProxySteps, which, name}, {.category = "proxy_step",
                                                              .name = row.is_send ? "send" : "receive",
                                                              .begin_ns = begin,
                                                              .end_ns = end_of(begin, row.duration_ns),
                                                              .annotations = notes_});
}

/// A long wait is reported while it lasts, and again when it has ended, with the same begin: the last row of them
/// counts. Rows come in the order of their begins.
void Exporter::put(const WaitSpan& row) {
  const std::tuple thread{row.node_id, row.pid, row.tid};
  if (const auto found = open_waits_.find(thread); found != open_waits_.end()) {
    const WaitSpan before = std::move(found->second);
    open_waits_.erase(found);
    if (before.timestamp_ns != row.timestamp_ns) {
      put_wait(before, at(row.node_id, row.timestamp_ns));
    }
  }
  if (!row.open) {
    put_wait(row, kForever);
    return;
  }
  if (open_waits_.size() >= kMostOpenWaits) {
    put_open_waits();
  }
  open_waits_.emplace(thread, row);
}

/// Those whose ends were not recorded.
void Exporter::put_open_waits() {
  for (const auto& [thread, row] : open_waits_) {
    put_wait(row, kForever);
  }
  open_waits_.clear();
}

/// A wait lasts as long as it was observed, but not beyond `end_ns`.
void Exporter::put_wait(const WaitSpan& row, int64_t end_ns) {
  const int64_t begin = at(row.node_id, row.timestamp_ns);
  const int64_t end = std::min(end_after(begin, row.window_ns), end_ns);
  if (row.open && !selection_.has(begin, end)) {
    return;  // only as something without an end does it overlap the range
  }
  const TrackId parent = participants_.process(row.node_id, row.pid);
  if (parent == kNoTrack) {
    return;
  }
  notes_.clear().add("waited_ns", row.waited_ns).add("occasions", row.count);
  if (row.by_pid != 0 || !row.by_name.empty()) {
    notes_.add("ran_instead", row.by_name).add("ran_instead_pid", row.by_pid).add("ran_instead_ns", row.by_waited_ns);
  }
  const auto name = [&] {
    return fmt::format("thread {}{}{}", row.tid, row.thread_name.empty() ? "" : " ", row.thread_name);
  };
  if (row.open) {
    notes_.add("open", true);
  }
  const bool whole_window = row.waited_ns >= row.window_ns;
  name_ = whole_window ? std::string(to_text(row.kind)) : fmt::format("{}, partly", to_text(row.kind));
  writer_.slice({parent, RowKind::kWaits, static_cast<uint64_t>(row.tid), name},
                {.category = "wait", .name = name_, .begin_ns = begin, .end_ns = end, .annotations = notes_});
}

void Exporter::put(const PythonStack& row) {
  const TrackId parent = participants_.process(row.node_id, row.rank_pid);
  if (parent == kNoTrack) {
    return;
  }
  const std::string_view frames = frames_of(row.stack_id);
  const std::string_view innermost = frames.substr(0, frames.find('\n'));
  notes_.clear()
      .add("activity", row.activity)
      .add("state", row.state)
      .add("stack", frames)
      .add("problem", row.problem)
      .add("pid", row.pid);
  if (row.collecting) {
    notes_.add("collects_garbage", true);
  }
  const auto name = [] { return std::string("Python"); };
  writer_.instant({parent, RowKind::kPython, 0, name}, {.category = "python",
                                                        .name = innermost.empty() ? "no frames" : innermost,
                                                        .time_ns = at(row.node_id, row.timestamp_ns),
                                                        .annotations = notes_});
}

void Exporter::put(const LogLine& row) {
  const TrackId parent = participants_.process(row.node_id, row.pid);
  if (parent == kNoTrack) {
    return;
  }
  notes_.clear().unique("text", row.text).add("file", row.file);
  if (row.line != 0) {
    notes_.add("line", row.line);
  }
  const auto name = [] { return std::string("log"); };
  writer_.instant({parent, RowKind::kLog, 0, name}, {.category = "log",
                                                     .name = to_text(row.kind),
                                                     .time_ns = at(row.node_id, row.timestamp_ns),
                                                     .annotations = notes_});
}

/// The folder of a connection, below the process that owns it.
TrackId Exporter::connection(NodeId node, uint64_t cookie, int32_t pid, const Endpoint& from, const Endpoint& to) {
  const Connection* row = participants_.connection(node, cookie);
  const TrackId parent = participants_.process(node, row != nullptr && row->pid != 0 ? row->pid : pid);
  if (parent == kNoTrack) {
    return kNoTrack;
  }
  return writer_.folder(parent, RowKind::kConnection, cookie, [&] {
    if (row == nullptr) {
      return from.address.empty() ? fmt::format("connection {}", cookie)
                                  : fmt::format("{} -> {}", format_endpoint(from), format_endpoint(to));
    }
    std::string whose;
    if (row->peer_rank) {
      whose = fmt::format(", rank {}", *row->peer_rank);
    }
    if (row->channel) {
      whose += fmt::format(", channel {}", *row->channel);
    }
    return fmt::format("{} -> {}{}", format_endpoint(row->source), format_endpoint(row->destination), whose);
  });
}

void Exporter::put(const NetSpan& row) {
  const TrackId parent = connection(row.node_id, row.cookie, row.pid, {}, {});
  if (parent == kNoTrack) {
    return;
  }
  const auto name = [&] { return std::string(row.is_send ? "sends" : "receives"); };
  const int64_t begin = at(row.node_id, row.timestamp_ns);
  writer_.slice({parent, row.is_send ? RowKind::kSends : RowKind::kReceives, 0, name},
                {.category = row.is_send ? "net_send" : "net_receive",
                 .name = row.is_send ? "send" : "receive",
                 .begin_ns = begin,
                 .end_ns = end_after(begin, row.duration_ns),
                 .annotations = notes_.clear().add("bytes", row.bytes).add("calls", row.calls)});
}

void Exporter::put(const TcpEvent& row) {
  const TrackId parent = connection(row.node_id, row.cookie, row.pid, row.source, row.destination);
  if (parent == kNoTrack) {
    return;
  }
  notes_.clear();
  if (row.event == TcpEventKind::kCongestionState) {
    notes_.add("state", congestion_state(row.state));
  } else if (row.state != 0) {
    notes_.add("errno", row.state);
  }
  if (row.len != 0) {
    notes_.add("bytes", row.len);
  }
  const auto name = [] { return std::string("events"); };
  writer_.instant({parent, RowKind::kTcpEvents, 0, name}, {.category = "tcp_event",
                                                           .name = to_text(row.event),
                                                           .time_ns = at(row.node_id, row.timestamp_ns),
                                                           .annotations = notes_});
}

void Exporter::put(const TcpSample& row) {
  const TrackId parent = connection(row.node_id, row.cookie, row.pid, {}, {});
  if (parent == kNoTrack) {
    return;
  }
  const int64_t time = at(row.node_id, row.timestamp_ns);
  const auto put_one = [&](uint64_t which, const char* name, const char* unit, int64_t value) {
    writer_.counter({parent, RowKind::kCounter, which, [&] { return std::string(name); }}, unit, time, value);
  };
  put_one(0, "congestion window", "packets", row.cwnd);
  if (row.srtt_us != 0) {
    put_one(1, "round trip time", "us", row.srtt_us);
  }
  put_one(2, "unacknowledged", "bytes", row.unacked_bytes);
  put_one(3, "not yet sent", "bytes", row.notsent_bytes);
  put_one(4, "not yet read", "bytes", row.unread_bytes);
}

void Exporter::put(const PacketDrop& row) {
  const TrackId parent = connection(row.node_id, row.cookie, row.pid, {}, {});
  if (parent == kNoTrack) {
    return;
  }
  notes_.clear()
      .add("packets", row.packets)
      .add("bytes", row.bytes)
      .add("direction", std::string_view(row.incoming ? "incoming" : "outgoing"));
  const auto name = [] { return std::string("packets dropped by the host"); };
  const int64_t begin = at(row.node_id, row.timestamp_ns);
  writer_.slice({parent, RowKind::kPacketDrops, 0, name}, {.category = "packet_drop",
                                                           .name = row.reason,
                                                           .begin_ns = begin,
                                                           .end_ns = end_after(begin, row.duration_ns),
                                                           .annotations = notes_});
}

void Exporter::put(const HostSample& row) {
  const TrackId parent = participants_.node(row.node_id);
  if (parent == kNoTrack) {
    return;
  }
  const auto name = [&] { return row.detail.empty() ? row.name : fmt::format("{} {}", row.name, row.detail); };
  const char* unit = row.name.ends_with("_us") ? "us" : row.name.ends_with("_bytes") ? "bytes" : "count";
  const uint64_t which = splitmix64_text(row.detail, splitmix64_text(row.name));
  writer_.counter({parent, RowKind::kCounter, which, name}, unit, at(row.node_id, row.timestamp_ns), row.value);
}

void Exporter::put(const PortCounter& row) {
  const TrackId parent = participants_.node(row.node_id);
  if (parent == kNoTrack) {
    return;
  }
  const auto name = [&] { return fmt::format("{} port {} {}", row.device, row.port, row.name); };
  const uint64_t which =
      splitmix64_fold(splitmix64_text(row.device, splitmix64_text(row.name)), static_cast<uint64_t>(row.port));
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  writer_.counter({parent, RowKind::kCounter, which, name}, "as sysfs has it", at(row.node_id, row.timestamp_ns),
                  static_cast<int64_t>(std::min(row.value, kMost)));
}

}  // namespace

Result<TraceSummary> export_trace(EventSource& source, const Report& report, std::span<const NodeClock> clocks,
                                  const TraceOptions& options, TraceEncoder& encoder) {
  ST_ASSIGN(Participants participants, Participants::read(source));
  return Exporter(source, report, clocks, options, encoder, std::move(participants)).run();
}

}  // namespace stalltrace::trace_export
