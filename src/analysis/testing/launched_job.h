// SPDX-License-Identifier: Apache-2.0
// A job of three ranks that are being set up, as rows: processes with their variables, attempts to connect, open calls.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "analysis/causes/set_up/unreached.h"
#include "analysis/explain.h"
#include "analysis/testing/small_job.h"
#include "base/clock.h"
#include "model/memory_source.h"

namespace stalltrace::analysis {

using small_job::kOriginNs;
constexpr int32_t kWorld = 3;

/// Of one host, node 1, unless others are added. The ranks start one second after the recording began, which goes on
/// for `seen_ns`; the pid of rank N is 100 + N.
class SetUpRows {
 public:
  explicit SetUpRows(int64_t seen_ns = 20 * kNsPerSecond) : seen_ns_(seen_ns) { add_host(1); }

  /// With a clock that is `behind_ns` behind node 1's.
  void add_host(NodeId id, int64_t behind_ns = 0) {
    Node node{.node_id = id, .name = "node" + std::to_string(id), .boot_id = "boot" + std::to_string(id)};
    node.started_ns = kOriginNs - behind_ns;
    node.ended_ns = node.started_ns + seen_ns_;
    source_.accept(node);
  }

  static std::string settings(const std::string& port = "29500", const std::string& address = "10.0.0.1",
                              int32_t world_size = kWorld) {
    return "MASTER_ADDR=" + address + "\nMASTER_PORT=" + port + "\nWORLD_SIZE=" + std::to_string(world_size);
  }
  Process process(int32_t rank, NodeId node = 1) const {
    Process process{
        .node_id = node, .pid = 100 + rank, .start_ns = kOriginNs + kNsPerSecond, .exe = "/usr/bin/python3"};
    process.rank = rank;
    process.rank_source = RankSource::kEnvironment;
    process.world_size = kWorld;
    process.settings = settings();
    return process;
  }
  void start(const Process& process) { source_.accept(process); }
  /// Rank 0 has `settings_of_zero` where given.
  void start_all(const std::optional<std::string>& settings_of_zero = std::nullopt) {
    for (int32_t rank = 0; rank < kWorld; ++rank) {
      Process one = process(rank);
      one.settings = rank == 0 && settings_of_zero ? *settings_of_zero : one.settings;
      start(one);
    }
  }
  /// A process that ends `lived_ns` after its start.
  static Process ended(Process process, int64_t lived_ns, int32_t exit_code) {
    process.exit_ns = process.start_ns + lived_ns;
    process.exit_code = exit_code;
    return process;
  }
  static Process killed(Process process, int64_t lived_ns, int32_t signal) {
    process.exit_ns = process.start_ns + lived_ns;
    process.exit_signal = signal;
    return process;
  }

  /// Connects once a second; an `error` of 0: with success.
  void connect(int32_t pid, uint16_t port, int32_t error = 0, int attempts = 1, NodeId node = 1,
               const std::string& address = "10.0.0.1") {
    for (int i = 0; i < attempts; ++i) {
      TcpEvent event{.event_id = make_event_id(node, ++events_), .node_id = node};
      event.timestamp_ns = kOriginNs + (2 + i) * kNsPerSecond;
      event.event = error == 0 ? TcpEventKind::kConnect : TcpEventKind::kConnectFailed;
      event.pid = pid;
      event.cookie = events_;
      event.destination = {address, port};
      event.state = error;
      source_.accept(event);
    }
  }
  /// Is inside the set-up of a communicator from `from_ns` after the origin on, to the end or for `duration_ns`.
  void set_up(int32_t pid, int64_t from_ns = 3 * kNsPerSecond, std::optional<int64_t> duration_ns = std::nullopt,
              NodeId node = 1) {
    Collective call = this->call(pid, node, Operation::kCommInitRank, from_ns);
    call.nranks = kWorld;
    call.duration_ns = duration_ns;
    source_.accept(call);
  }
  void reduce(int32_t pid, NodeId node = 1) {
    Collective call = this->call(pid, node, Operation::kAllReduce, 3 * kNsPerSecond);
    call.duration_ns = kNsPerMs;
    call.seq = 0;
    source_.accept(call);
  }
  /// Node 1 has the address.
  void own(const std::string& address) {
    Connection row{.node_id = 1, .cookie = 999, .pid = 1, .family = 2, .source = {address, 22}};
    row.destination = {"10.0.0.9", 40000};
    source_.accept(row);
  }
  MemorySource& source() { return source_; }
  void lose(const std::string& what, NodeId node = 1) { source_.accept(Loss{node, what, 7}); }

  Report report(std::set<ProcessKey> called = {}) {
    const Result<ExplainResult> result = explain(source_, {.window = {}, .instance = {}, .called = std::move(called)});
    EXPECT_TRUE(result.has_value());
    return result ? result->report : Report{};
  }
  /// The only finding, about this rank.
  Finding failure_of(int32_t rank, Severity severity = Severity::kCritical) {
    const Report report = this->report();
    EXPECT_EQ(report.findings.size(), 1U);
    if (report.findings.empty()) {
      return {};
    }
    const Finding& finding = report.findings.front();
    EXPECT_EQ(finding.cause, Cause::kInitFailure);
    EXPECT_EQ(finding.severity, severity);
    EXPECT_TRUE(finding.culprit);
    EXPECT_EQ(finding.culprit.value_or(Culprit{}).rank, rank) << finding.summary;
    return finding;
  }
  void expect_silence() {
    for (const Finding& finding : report().findings) {
      ADD_FAILURE() << finding.summary;
    }
  }

 private:
  Collective call(int32_t pid, NodeId node, Operation op, int64_t from_ns) {
    Collective call{.event_id = make_event_id(node, ++events_), .node_id = node};
    call.timestamp_ns = kOriginNs + from_ns;
    call.op = op;
    call.library = Library::kGloo;
    call.completion = Completion::kCall;
    call.rank = pid - 100;
    call.comm_id_hash = 7;
    call.comm_ptr = 0xc000;
    call.pid = call.tid = pid;
    return call;
  }

  int64_t seen_ns_;
  MemorySource source_;
  uint64_t events_ = 0;
};

}  // namespace stalltrace::analysis
