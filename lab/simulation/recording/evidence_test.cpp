// SPDX-License-Identifier: Apache-2.0
// The tables of --evidence all: as many rows as an agent writes, which belong to the job that was played, and healthy
// hosts whatever its fault is.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "lab/simulation/job.h"
#include "lab/simulation/shapes.h"
#include "model/events/port_counters.h"
#include "model/memory_source.h"

namespace stalltrace::simulation {
namespace {

JobOptions with_all_evidence(std::string_view shape = "ddp", std::string_view fault = {}) {
  JobOptions options{.nodes = 2, .ranks_per_node = 4, .steps = 8};
  EXPECT_TRUE(apply_shape(shape, options).has_value());
  options.plugin = true;
  options.all_evidence = true;
  options.warm_up_ms = 0;
  if (!fault.empty()) {
    options.faults = {parse_fault(fault, options).value()};
  }
  return options;
}

MemorySource recorded(const JobOptions& options) {
  MemorySource source;
  Job(options).record_all(source);
  return source;
}

template <typename T>
std::vector<T> rows_of(MemorySource& source) {
  std::vector<T> rows;
  EXPECT_TRUE(source.stream<T>({}, [&](const T& row) { rows.push_back(row); }).has_value());
  return rows;
}

template <typename T>
bool in_order(const std::vector<T>& rows) {
  std::map<NodeId, int64_t> newest;
  return std::ranges::all_of(rows, [&](const T& row) {
    int64_t& time_ns = newest[row.node_id];
    const bool ordered = row.timestamp_ns >= time_ns;
    time_ns = row.timestamp_ns;
    return ordered;
  });
}

TEST(SimulatedEvidence, IsNotThereUnlessItIsAskedFor) {
  JobOptions options = with_all_evidence();
  options.all_evidence = false;
  MemorySource source = recorded(options);
  EXPECT_TRUE(rows_of<ProxyStep>(source).empty());
  EXPECT_TRUE(rows_of<HostSample>(source).empty());
  EXPECT_TRUE(rows_of<PortCounter>(source).empty());
  EXPECT_TRUE(rows_of<NetSpan>(source).empty());
  EXPECT_TRUE(rows_of<PythonStack>(source).empty());
  const std::vector<Collective> usual = rows_of<Collective>(source);
  options.all_evidence = true;
  MemorySource whole = recorded(options);
  const std::vector<Collective> all = rows_of<Collective>(whole);
  ASSERT_EQ(usual.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(std::tuple(all[i].event_id, all[i].timestamp_ns, all[i].duration_ns),
              std::tuple(usual[i].event_id, usual[i].timestamp_ns, usual[i].duration_ns));
  }
  options.plugin = false;
  MemorySource without = recorded(options);
  EXPECT_TRUE(rows_of<ProxyStep>(without).empty());
  EXPECT_FALSE(rows_of<HostSample>(without).empty());
}

/// The ring leaves each of two nodes once: two senders and two receivers of each call, on each channel.
TEST(SimulatedEvidence, HasTheOperationsOfBothEndsOfEachTransfer) {
  for (const char* shape : {"ddp", "fsdp", "pipeline"}) {
    SCOPED_TRACE(shape);
    MemorySource source = recorded(with_all_evidence(shape));
    std::map<EventId, Collective> calls;
    std::map<std::pair<CommHash, int64_t>, int> instances;
    for (const Collective& row : rows_of<Collective>(source)) {
      calls.emplace(row.event_id, row);
      if (is_collective(row.op)) {
        ++instances[{row.comm_id_hash, *row.seq}];
      }
    }
    const std::vector<ProxyStep> rows = rows_of<ProxyStep>(source);
    EXPECT_FALSE(rows.empty());
    EXPECT_TRUE(in_order(rows));
    std::map<bool, uint64_t> bytes;
    std::set<std::tuple<EventId, int32_t, bool>> operations;
    for (const ProxyStep& row : rows) {
      ASSERT_TRUE(calls.contains(row.collective_id));
      const Collective& call = calls.at(row.collective_id);
      EXPECT_EQ(row.pid, call.pid);
      EXPECT_EQ(row.comm_id_hash, call.comm_id_hash);
      EXPECT_EQ(row.rank, call.rank);
      EXPECT_NE(row.peer, row.rank);
      EXPECT_GT(row.timestamp_ns, call.timestamp_ns);
      EXPECT_LE(row.timestamp_ns + row.duration_ns.value_or(0), *call.end_ns() + kNsPerMs);
      EXPECT_TRUE(row.channel == 0 || row.channel == 1);
      EXPECT_TRUE(row.duration_ns || row.waits_for != ProxyWait::kNone);
      bytes[row.is_send] += row.duration_ns ? row.bytes : 0;
      operations.emplace(row.collective_id, row.channel, row.is_send);
    }
    EXPECT_EQ(bytes[true], bytes[false]);
    if (std::string_view(shape) != "pipeline") {
      EXPECT_EQ(operations.size(), instances.size() * 2 * 2 * 2);
    }
  }
}

TEST(SimulatedEvidence, KeepsAsManyStepsAsTheAgentDoes) {
  JobOptions options = with_all_evidence();
  options.channels = 64;
  MemorySource source = recorded(options);
  std::map<std::pair<int32_t, int64_t>, size_t> of_second;
  const std::vector<ProxyStep> rows = rows_of<ProxyStep>(source);
  for (const ProxyStep& row : rows) {
    ++of_second[{row.pid, (row.timestamp_ns + row.duration_ns.value_or(0)) / kNsPerSecond}];
  }
  for (const auto& [key, count] : of_second) {
    EXPECT_LE(count, 3 * 500U) << "the rounds of a second, and a part of one more";
  }
  const auto losses = source.losses();
  ASSERT_TRUE(losses.has_value());
  EXPECT_EQ(losses->size(), 2U);
  uint64_t all = rows.size();
  for (const Loss& loss : *losses) {
    EXPECT_EQ(loss.source, "profiler:short_steps:1000");
    all += loss.count;
  }
  EXPECT_EQ(all % 64, 0U) << "all channels of an operation are alike";
}

TEST(SimulatedEvidence, ShowsWhatTransfersOfAHangWaitFor) {
  for (const char* fault : {"dead_rank:rank=5", "missing_collective:rank=4", "process_stopped:rank=0"}) {
    SCOPED_TRACE(fault);
    MemorySource source = recorded(with_all_evidence("ddp", fault));
    std::set<NodeId> nodes;
    for (const ProxyStep& row : rows_of<ProxyStep>(source)) {
      if (!row.duration_ns && row.timestamp_ns > kOriginNs) {
        EXPECT_NE(row.waits_for, ProxyWait::kNone);
        EXPECT_GE(row.gpu_wait_ns + row.peer_wait_ns + row.network_wait_ns, 200 * kNsPerMs);
        nodes.insert(row.node_id);
      }
    }
    EXPECT_EQ(nodes.size(), 2U);
  }
}

/// No fault of the simulation is one of a host, and lost packets are lost between hosts.
TEST(SimulatedEvidence, HasHealthyHosts) {
  for (const char* fault : {"", "late_rank:rank=5,ms=300", "packet_loss:node=1,per_step=3", "slow_link:node=1",
                            "process_stopped:rank=5,ms=2000", "dead_rank:rank=5"}) {
    SCOPED_TRACE(fault);
    const JobOptions options = with_all_evidence("ddp", fault);
    MemorySource source = recorded(options);
    const std::vector<HostSample> rows = rows_of<HostSample>(source);
    EXPECT_TRUE(in_order(rows));
    std::map<std::tuple<NodeId, std::string, std::string>, double> values;
    std::map<NodeId, std::pair<int64_t, int64_t>> seconds;  // of how many samples, since when
    for (const HostSample& row : rows) {
      if (row.name == "drop_reasons_now") {
        const auto found = seconds.try_emplace(row.node_id, 0, row.timestamp_ns).first;
        ++found->second.first;
        EXPECT_LE(row.timestamp_ns - found->second.second, (found->second.first - 1) * kNsPerSecond);
        continue;
      }
      const auto [known, fresh] = values.try_emplace({row.node_id, row.name, row.detail}, row.value);
      EXPECT_GE(row.value, known->second) << row.name;
      if (row.name.starts_with("throttled") || row.name.starts_with("oom") || row.name.ends_with("errors") ||
          row.name == "softnet_drops" || row.name.starts_with("pressure_memory")) {
        EXPECT_TRUE(fresh) << row.name << " does not change";
      }
      known->second = row.value;
    }
    EXPECT_EQ(seconds.size(), 2U);
    EXPECT_TRUE(values.contains({Job::node_id(1), "net_rx_drops", "ib0"}));
    for (const PortCounter& row : rows_of<PortCounter>(source)) {
      if (const auto kind = kind_of_port_counter(row.name); kind != PortCounterKind::kData) {
        EXPECT_TRUE(row.value < 3 || kind == PortCounterKind::kNoCredit) << row.name;
      }
    }
  }
}

TEST(SimulatedEvidence, CountsAtThePortWhatTheNodeSentAndReceived) {
  const JobOptions options = with_all_evidence();
  const Job job(options);
  MemorySource source;
  job.record_all(source);
  std::map<NodeId, double> sent;
  for (const Flow& flow : job.history().attempts.front().flows) {
    sent[Job::node_id(flow.src / options.ranks_per_node)] += static_cast<double>(flow.bytes);
  }
  std::map<std::pair<NodeId, std::string>, std::pair<double, double>> range;  // of words
  const std::vector<PortCounter> rows = rows_of<PortCounter>(source);
  EXPECT_TRUE(in_order(rows));
  for (const PortCounter& row : rows) {
    const auto value = static_cast<double>(row.value);
    range.try_emplace({row.node_id, row.name}, value, value).first->second.second = value;
  }
  EXPECT_FALSE(range.contains({Job::node_id(0), "np_cnp_sent"})) << "of RoCE alone";
  for (int node = 0; node < 2; ++node) {
    const auto& [first, last] = range.at({Job::node_id(node), "port_xmit_data"});
    EXPECT_NEAR((last - first) * 4, sent[Job::node_id(node)], 1000);
    const auto& [before, after] = range.at({Job::node_id(node), "port_rcv_data"});
    EXPECT_NEAR((after - before) * 4, sent[Job::node_id(1 - node)], 1000);
  }
}

TEST(SimulatedEvidence, HasBurstsOfSendsAndReceivesOfItsConnections) {
  const JobOptions options = with_all_evidence("ddp", "packet_loss:node=1,per_step=3");
  MemorySource source = recorded(options);
  const auto connections = source.connections();
  ASSERT_TRUE(connections.has_value());
  std::map<std::pair<NodeId, uint64_t>, int32_t> owners;
  for (const Connection& row : *connections) {
    owners[{row.node_id, row.cookie}] = row.pid;
  }
  std::map<bool, uint64_t> bytes;
  const std::vector<NetSpan> rows = rows_of<NetSpan>(source);
  EXPECT_TRUE(in_order(rows));
  for (const NetSpan& row : rows) {
    ASSERT_TRUE(owners.contains({row.node_id, row.cookie}));
    EXPECT_EQ(owners.at({row.node_id, row.cookie}), row.pid);
    EXPECT_LE(row.duration_ns, 101 * kNsPerMs);
    EXPECT_GT(row.calls, 0U);
    bytes[row.is_send] += row.bytes;
  }
  EXPECT_GT(bytes[true], 0U);
  EXPECT_EQ(bytes[true], bytes[false]);
}

TEST(SimulatedEvidence, HasStacksWhileARankIsBehind) {
  MemorySource healthy = recorded(with_all_evidence());
  EXPECT_TRUE(rows_of<PythonStack>(healthy).empty());
  for (const char* how : {"computing", "blocked"}) {
    MemorySource source = recorded(with_all_evidence("ddp", "late_rank:rank=5,ms=400,from=4,how=" + std::string(how)));
    const std::vector<PythonStack> rows = rows_of<PythonStack>(source);
    EXPECT_GE(rows.size(), 4U);
    EXPECT_TRUE(in_order(rows));
    const auto stacks = source.stacks();
    ASSERT_TRUE(stacks.has_value());
    std::map<int64_t, std::string> frames;
    for (const Stack& stack : *stacks) {
      frames[stack.stack_id] = stack.frames;
    }
    for (const Collective& row : rows_of<Collective>(source)) {
      EXPECT_EQ(frames.contains(row.stack_id), row.op != Operation::kCommInitRank);
    }
    const auto late_pid = static_cast<int32_t>(4000 + 40 * 5);
    size_t late = 0;
    for (const PythonStack& row : rows) {
      EXPECT_EQ(row.node_id, Job::node_id(1)) << "no rank of node 0 is behind another of node 0";
      EXPECT_EQ(frames.at(row.stack_id).starts_with("prepare"), row.pid == late_pid);
      late += row.pid == late_pid ? 1 : 0;
      if (row.pid == late_pid) {
        EXPECT_EQ(row.state, std::string_view(how) == "blocked" ? "S" : "R");
      }
    }
    EXPECT_LE(late, 6U) << "the agent's budget";
  }
}

}  // namespace
}  // namespace stalltrace::simulation
