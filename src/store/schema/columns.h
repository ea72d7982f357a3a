// SPDX-License-Identifier: Apache-2.0
// The mapping of event fields to columns: one list per table, used to bind, to read and to generate the SQL. schema.cpp
// has the same names as SQL; a test compares them. Internal to store/.
//
// `each_column(row, f)` calls f(column, field) for every column in list order. `column` is a Column or converts to one,
// and to its name; `field` is a reference into the row, or a wrapper that defines the meaning of NULL.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "model/events.h"

namespace stalltrace::store {

/// What the values of a column are, which says which of them are possible (read/plausible.h) and how they are stored
/// in a block (rows/).
enum class ValueKind : uint8_t {
  kTime,      // UTC, in ns
  kOffset,    // between two clocks, in ns
  kDuration,  // in ns
  kBytes,
  kOther,
};

/// A column's name, and what its values are. A name in ns must say which: it does not compile as a plain name, so that
/// no time is taken for a duration.
class Column {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): the lists below have plain names
  consteval Column(const char* name) : name_(name) {
    if (std::string_view(name).ends_with("_ns")) {
      throw "a column in ns is a utc(), a duration() or a clock_offset()";
    }
  }
  consteval Column(const char* name, ValueKind kind) : name_(name), kind_(kind) {}

  // NOLINTNEXTLINE(google-explicit-constructor): most functions for each_column take the name alone
  constexpr operator const char*() const { return name_; }
  [[nodiscard]] constexpr std::string_view name() const { return name_; }
  [[nodiscard]] constexpr ValueKind kind() const { return kind_; }

 private:
  const char* name_;
  ValueKind kind_ = ValueKind::kOther;
};

consteval Column utc(const char* name) { return {name, ValueKind::kTime}; }
consteval Column duration(const char* name) { return {name, ValueKind::kDuration}; }
consteval Column clock_offset(const char* name) { return {name, ValueKind::kOffset}; }
/// Only what analysis adds up needs this.
consteval Column byte_count(const char* name) { return {name, ValueKind::kBytes}; }

/// A field whose zero (or empty text) means unknown and is stored as NULL.
template <typename T>
struct OrNull {
  T& value;
};
template <typename T>
OrNull<T> or_null(T& value) {
  return {value};
}

/// Like OrNull, unless `zero_is_known`.
template <typename T>
struct OrNullUnless {
  T& value;
  bool zero_is_known;
};
template <typename T>
OrNullUnless<T> or_null_unless(T& value, bool zero_is_known) {
  return {value, zero_is_known};
}

template <typename Row, typename T>
concept RowOf = std::same_as<std::remove_const_t<Row>, T>;

template <RowOf<Node> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f("name", or_null(r.name));
  f("hostname", or_null(r.hostname));
  f("boot_id", or_null(r.boot_id));
  f("kernel", or_null(r.kernel));
  f("agent_version", or_null(r.agent_version));
  f(utc("started_ns"), r.started_ns);
  f(utc("ended_ns"), r.ended_ns);
  f(clock_offset("clock_offset_ns"), r.clock_offset_ns);
  f("missing_evidence", or_null(r.missing_evidence));
}

template <RowOf<Process> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f("pid", r.pid);
  f(utc("start_ns"), r.start_ns);
  f("exe", or_null(r.exe));
  f("cmdline", or_null(r.cmdline));
  f("rank", r.rank);
  f("rank_source", r.rank_source);
  f("local_rank", r.local_rank);
  f("world_size", r.world_size);
  f("job_id", or_null(r.job_id));
  f("cgroup_id", or_null(r.cgroup_id));
  f("netns", or_null(r.netns));
  f(utc("exit_ns"), r.exit_ns);
  f("exit_code", r.exit_code);
  f("exit_signal", r.exit_signal);
  f("oom_killed", r.oom_killed);
  f("settings", or_null(r.settings));
}

template <RowOf<Communicator> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f("pid", r.pid);
  f("comm_ptr", r.comm_ptr);
  f(utc("created_ns"), r.created_ns);
  f("comm_id_hash", or_null(r.comm_id_hash));
  f("nccl_comm_hash", or_null(r.nccl_comm_hash));
  f("rank", r.rank);
  f("rank_source", r.rank_source);
  f("nranks", r.nranks);
  f("parent_hash", or_null(r.parent_hash));
  f("split_color", r.split_color);
  f("split_key", r.split_key);
  f(utc("destroyed_ns"), r.destroyed_ns);
  f("calls_before", r.calls_before);
}

template <RowOf<Collective> Row, typename F>
void each_column(Row& r, F&& f) {
  f("event_id", r.event_id);
  f("node_id", r.node_id);
  f(utc("timestamp_ns"), r.timestamp_ns);
  f(duration("duration_ns"), r.duration_ns);
  f(duration("launch_ns"), r.launch_ns);
  f("library", r.library);
  f("op", r.op);
  f("completion", r.completion);
  f("seq", r.seq);
  f("rank", r.rank);
  f("rank_source", r.rank_source);
  f("nranks", r.nranks);
  f("comm_id_hash", or_null(r.comm_id_hash));
  f("comm_ptr", or_null(r.comm_ptr));
  f("pid", r.pid);
  f("tid", r.tid);
  f("cgroup_id", or_null(r.cgroup_id));
  f("count", r.count);
  f("datatype", r.datatype);
  f(byte_count("bytes"), or_null_unless(r.bytes, r.count == 0));
  f("reduce_op", r.reduce_op);
  f("root", r.root);
  f("peer", r.peer);
  f("stream", r.stream);
  f("group_id", or_null(r.group_id));
  f("return_code", r.return_code);
  f("stack_id", or_null(r.stack_id));
  f(utc("called_ns"), or_null(r.called_ns));
  f(utc("kernel_start_ns"), r.kernel_start_ns);
  f(utc("kernel_end_ns"), r.kernel_end_ns);
}

template <RowOf<Connection> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f("cookie", r.cookie);
  f("pid", or_null(r.pid));
  f("netns", or_null(r.netns));
  f("family", or_null(r.family));
  f("saddr", or_null(r.source.address));
  f("sport", or_null(r.source.port));
  f("daddr", or_null(r.destination.address));
  f("dport", or_null(r.destination.port));
  f(utc("opened_ns"), r.opened_ns);
  f(utc("closed_ns"), r.closed_ns);
  f("rank", r.rank);
  f("peer_rank", r.peer_rank);
  f("thread_name", or_null(r.thread_name));
  f("comm_id_hash", or_null(r.comm_id_hash));
  f("channel", r.channel);
}

template <RowOf<TcpEvent> Row, typename F>
void each_column(Row& r, F&& f) {
  f("event_id", r.event_id);
  f("node_id", r.node_id);
  f(utc("timestamp_ns"), r.timestamp_ns);
  f("event", r.event);
  f("pid", or_null(r.pid));
  f("rank", r.rank);
  f("cookie", or_null(r.cookie));
  f("saddr", or_null(r.source.address));
  f("sport", or_null(r.source.port));
  f("daddr", or_null(r.destination.address));
  f("dport", or_null(r.destination.port));
  f("seq", or_null_unless(r.seq, r.len != 0));
  f("len", or_null_unless(r.len, r.seq != 0));
  f("state", r.state);
  f("cgroup_id", or_null(r.cgroup_id));
}

template <RowOf<TcpSample> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f(utc("timestamp_ns"), r.timestamp_ns);
  f("cookie", r.cookie);
  f("pid", or_null(r.pid));
  f("srtt_us", or_null(r.srtt_us));
  f("cwnd", r.cwnd);
  f("packets_out", r.packets_out);
  f("retrans_out", r.retrans_out);
  f("lost_out", r.lost_out);
  f("total_retrans", r.total_retrans);
  f("dsack_dups", r.dsack_dups);
  f("mss", r.mss);
  f("bytes_acked", r.bytes_acked);
  f("bytes_received", r.bytes_received);
  f("unacked_bytes", r.unacked_bytes);
  f("notsent_bytes", r.notsent_bytes);
  f("unread_bytes", r.unread_bytes);
  f("snd_wnd", r.snd_wnd);
  f("rcv_wnd", r.rcv_wnd);
  f(duration("busy_ns"), r.busy_ns);
  f(duration("receiver_limited_ns"), r.receiver_limited_ns);
  f(duration("sndbuf_limited_ns"), r.sndbuf_limited_ns);
  f("ca_state", r.ca_state);
  f("retransmits", r.retransmits);
  f("backoff", r.backoff);
  f("tcp_state", r.tcp_state);
}

template <RowOf<NetSpan> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f(utc("timestamp_ns"), r.timestamp_ns);
  f(duration("duration_ns"), r.duration_ns);
  f("cookie", r.cookie);
  f("pid", or_null(r.pid));
  f("tid", or_null(r.tid));
  f("is_send", r.is_send);
  f(byte_count("bytes"), r.bytes);
  f("calls", r.calls);
}

template <RowOf<WaitSpan> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f(utc("timestamp_ns"), r.timestamp_ns);
  f(duration("window_ns"), r.window_ns);
  f(duration("waited_ns"), r.waited_ns);
  f("open", r.open);
  f("count", r.count);
  f("kind", r.kind);
  f("pid", r.pid);
  f("tid", r.tid);
  f("thread_name", or_null(r.thread_name));
  f("by_pid", or_null(r.by_pid));
  f("by_name", or_null(r.by_name));
  f(duration("by_waited_ns"), or_null_unless(r.by_waited_ns, r.by_pid != 0));
}

template <RowOf<Competitor> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f("pid", r.pid);
  f(utc("start_ns"), r.start_ns);
  f("cmdline", or_null(r.cmdline));
  f("cgroup", or_null(r.cgroup));
  f("rank_pid", or_null(r.rank_pid));
  f(utc("exit_ns"), r.exit_ns);
}

template <RowOf<GraphUse> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f("pid", r.pid);
  f(utc("start_ns"), r.start_ns);
  f("captured", r.captured);
  f("launches", r.launches);
  f(utc("first_launch_ns"), r.first_launch_ns);
  f(utc("last_launch_ns"), r.last_launch_ns);
}

template <RowOf<ProxyStep> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f(utc("timestamp_ns"), r.timestamp_ns);
  f(duration("duration_ns"), r.duration_ns);
  f("collective_id", or_null(r.collective_id));
  f("comm_id_hash", or_null(r.comm_id_hash));
  f("pid", or_null(r.pid));
  f("tid", or_null(r.tid));
  f("rank", r.rank);
  f("peer", r.peer);
  f("channel", r.channel);
  f("is_send", r.is_send);
  f("step", r.step);
  f("steps", r.steps);
  f(byte_count("bytes"), r.bytes);
  f(duration("gpu_wait_ns"), r.gpu_wait_ns);
  f(duration("peer_wait_ns"), r.peer_wait_ns);
  f(duration("network_wait_ns"), r.network_wait_ns);
  f("waits_for", r.waits_for);
}

template <RowOf<PythonStack> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f(utc("timestamp_ns"), r.timestamp_ns);
  f(duration("duration_ns"), r.duration_ns);
  f("pid", r.pid);
  f("rank_pid", r.rank_pid);
  f("tid", or_null(r.tid));
  f("state", or_null(r.state));
  f("activity", or_null(r.activity));
  f("collecting", r.collecting);
  f("stack_id", or_null(r.stack_id));
  f("problem", or_null(r.problem));
}

template <RowOf<PythonException> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f(utc("timestamp_ns"), r.timestamp_ns);
  f("pid", r.pid);
  f("tid", r.tid);
  f("type", r.type);
  f("stack_id", or_null(r.stack_id));
  f("depth", r.depth);
}

template <RowOf<LogLine> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f(utc("timestamp_ns"), r.timestamp_ns);
  f("pid", or_null(r.pid));
  f("rank", r.rank);
  f("kind", r.kind);
  f("line", r.line);
  f("file", or_null(r.file));
  f("text", or_null(r.text));
}

template <RowOf<KernelMessage> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f(utc("timestamp_ns"), r.timestamp_ns);
  f("kind", r.kind);
  f("code", r.code);
  f("device", or_null(r.device));
  f("pid", or_null(r.pid));
  f("process", or_null(r.process));
  f("line", r.line);
  f("file", or_null(r.file));
  f("text", or_null(r.text));
}

template <RowOf<BenchmarkRun> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f("run", r.run);
  f(utc("started_ns"), r.started_ns);
  f("test", or_null(r.test));
  f("nranks", or_null(r.nranks));
  f("hosts", or_null(r.hosts));
  f("most_bytes", or_null(r.most_bytes));
  f("ended", r.ended);
  f("failed", r.failed);
  f("problem", or_null(r.problem));
  f("line", r.line);
  f("file", or_null(r.file));
}

template <RowOf<BenchmarkResult> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f(utc("timestamp_ns"), r.timestamp_ns);
  f("run", r.run);
  f(byte_count("bytes"), r.bytes);
  f("count", r.count);
  f("datatype", or_null(r.datatype));
  f("reduce_op", or_null(r.reduce_op));
  f("root", r.root);
  f("in_place", r.in_place);
  f("time_us", r.time_us);
  f("algbw_gbs", r.algbw_gbs);
  f("busbw_gbs", r.busbw_gbs);
  f("wrong", r.wrong);
  f("line", r.line);
}

template <RowOf<TraceProfile> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f(utc("started_ns"), r.started_ns);
  f(duration("duration_ns"), r.duration_ns);
  f("rank", r.rank);
  f("world_size", r.world_size);
  f("backend", or_null(r.backend));
  f("on_device", r.on_device);
  f(duration("compute_ns"), r.compute_ns);
  f(duration("communication_ns"), r.communication_ns);
  f(duration("overlap_ns"), r.overlap_ns);
  f(duration("copy_ns"), r.copy_ns);
  f(duration("idle_ns"), r.idle_ns);
  f("steps", r.steps);
  f("kernels", r.kernels);
  f("file", or_null(r.file));
}

template <RowOf<TraceStep> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f(utc("timestamp_ns"), r.timestamp_ns);
  f(duration("duration_ns"), r.duration_ns);
  f("step", r.step);
  f(duration("compute_ns"), r.compute_ns);
  f(duration("communication_ns"), r.communication_ns);
  f(duration("overlap_ns"), r.overlap_ns);
  f(duration("idle_ns"), r.idle_ns);
}

template <RowOf<TraceCollective> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f("number", r.number);
  f("op", or_null(r.op));
  f("process_group", or_null(r.process_group));
  f("datatype", or_null(r.datatype));
  f("elements", r.elements);
  f("ordinal", r.ordinal);
  f("calls", r.calls);
  f(duration("total_ns"), r.total_ns);
  f(duration("exposed_ns"), r.exposed_ns);
  f(duration("shortest_ns"), r.shortest_ns);
  f(duration("longest_ns"), r.longest_ns);
}

template <RowOf<PacketCapture> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f(utc("started_ns"), r.started_ns);
  f(duration("duration_ns"), r.duration_ns);
  f("packets", r.packets);
  f("tcp_packets", r.tcp_packets);
  f("flows", r.flows);
  f("missed", r.missed);
  f("too_big", r.too_big);
  f("least_mtu", r.least_mtu);
  f("too_big_from", or_null(r.too_big_from));
  f("unreachable", r.unreachable);
  f("cut", r.cut);
  f("file", or_null(r.file));
}

template <RowOf<PacketFlow> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f("flow", r.flow);
  f(utc("started_ns"), r.started_ns);
  f(duration("duration_ns"), r.duration_ns);
  f("saddr", or_null(r.source.address));
  f("sport", or_null(r.source.port));
  f("daddr", or_null(r.destination.address));
  f("dport", or_null(r.destination.port));
  f("packets", r.packets);
  f("payload_bytes", r.payload_bytes);
  f("retransmits", r.retransmits);
  f("retransmitted_bytes", r.retransmitted_bytes);
  f("lost_before", r.lost_before);
  f("spurious", r.spurious);
  f("syn_retransmits", r.syn_retransmits);
  f("reordered", r.reordered);
  f("duplicate_acks", r.duplicate_acks);
  f("zero_windows", r.zero_windows);
  f(duration("zero_window_ns"), r.zero_window_ns);
  f("resets", r.resets);
  f("missing_bytes", r.missing_bytes);
  f("opened", r.opened);
  f("closed", r.closed);
  f("mss", r.mss);
  f("largest_delivered_bytes", r.largest_delivered_bytes);
  f("unacked_bytes", r.unacked_bytes);
  f(duration("unacked_ns"), r.unacked_ns);
  f("repeats", r.repeats);
  f("repeated_bytes", r.repeated_bytes);
}

template <RowOf<PacketEvent> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f(utc("timestamp_ns"), r.timestamp_ns);
  f("kind", r.kind);
  f("flow", r.flow);
  f("saddr", or_null(r.source.address));
  f("sport", or_null(r.source.port));
  f("daddr", or_null(r.destination.address));
  f("dport", or_null(r.destination.port));
  f("seq", r.seq);
  f("len", r.len);
  f("packet", r.packet);
}

template <RowOf<PacketDrop> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f(utc("timestamp_ns"), r.timestamp_ns);
  f(duration("duration_ns"), r.duration_ns);
  f("cookie", r.cookie);
  f("pid", or_null(r.pid));
  f("incoming", r.incoming);
  f("netns", or_null(r.netns));
  f("reason", r.reason);
  f("packets", r.packets);
  f(byte_count("bytes"), r.bytes);
}

template <RowOf<HostSample> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f(utc("timestamp_ns"), r.timestamp_ns);
  f("name", r.name);
  f("detail", or_null(r.detail));
  f("value", r.value);
}

template <RowOf<PortCounter> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f(utc("timestamp_ns"), r.timestamp_ns);
  f("device", r.device);
  f("port", r.port);
  f("name", r.name);
  f("value", r.value);
}

template <RowOf<ClockReading> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f(utc("timestamp_ns"), r.timestamp_ns);
  f(utc("utc_ns"), r.utc_ns);
  f(duration("window_ns"), r.window_ns);
  f(duration("max_error_ns"), r.max_error_ns);
}

template <RowOf<Stack> Row, typename F>
void each_column(Row& r, F&& f) {
  f("stack_id", r.stack_id);
  f("frames", r.frames);
}

template <RowOf<Loss> Row, typename F>
void each_column(Row& r, F&& f) {
  f("node_id", r.node_id);
  f("source", r.source);
  f("count", r.count);
}

/// The primary key of a streamed table.
template <StreamedType T>
inline constexpr std::string_view kIdColumn = EventTraits<T>::kKind == TableKind::kEvents ? "event_id" : "id";

}  // namespace stalltrace::store
