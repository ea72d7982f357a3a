// SPDX-License-Identifier: Apache-2.0
// A source that gives the rows of one node after the other leads to the report that time order leads to.
#include <gtest/gtest.h>

#include "analysis/explain.h"
#include "analysis/testing/small_job.h"
#include "lab/simulation/job.h"
#include "model/memory_source.h"
#include "model/streams/node_streams.h"

namespace stalltrace::analysis {
namespace {

class NodeByNode final : public EventSource, public NodeStreams {
 public:
  explicit NodeByNode(EventSource& source) : source_(source) {}

  Status read_state(AnyRows rows) override { return source_.read_state(rows); }
  Status read_stream(TimeRange range, AnyVisitor visitor) override { return source_.read_stream(range, visitor); }
  Status read_by_node(TimeRange range, const std::set<NodeId>* nodes, AnyVisitor visitor) override {
    ST_ASSIGN(const std::vector<Node> all, source_.nodes());
    for (const Node& node : all) {
      ++asked_;
      const std::set<NodeId> one{node.node_id};
      if (nodes == nullptr || nodes->contains(node.node_id)) {
        ST_TRY(stalltrace::read_by_node(source_, range, &one, visitor));
      }
    }
    return {};
  }
  [[nodiscard]] int asked() const { return asked_; }

 private:
  EventSource& source_;
  int asked_ = 0;
};

void expect_same_report(const simulation::JobOptions& options) {
  MemorySource rows;
  simulation::Job(options).record_all(rows);
  const Report in_time_order = small_job::report_of(rows);
  NodeByNode source(rows);
  const Result<ExplainResult> explained = explain(source);
  ASSERT_TRUE(explained) << explained.error().what;
  const Report& by_node = explained->report;
  EXPECT_GT(source.asked(), options.nodes);
  EXPECT_EQ(small_job::reported(by_node), small_job::reported(in_time_order)) << options.shape;
  EXPECT_EQ(by_node.notes, in_time_order.notes);
  ASSERT_EQ(by_node.findings.size(), in_time_order.findings.size());
  for (size_t i = 0; i < by_node.findings.size(); ++i) {
    EXPECT_EQ(by_node.findings[i].stall_ms, in_time_order.findings[i].stall_ms);
    EXPECT_EQ(by_node.findings[i].confidence, in_time_order.findings[i].confidence);
  }
}

simulation::JobOptions job(simulation::Program program, simulation::Fault fault) {
  simulation::JobOptions options{
      .program = program, .nodes = 4, .ranks_per_node = 2, .steps = 24, .plugin = true, .clock_error_ms = 40};
  options.faults = {std::move(fault)};
  return options;
}

TEST(OrderOfNodes, ChangesNothing) {
  using simulation::FaultKind;
  using simulation::Program;
  expect_same_report(job(Program::kReplicas, {.kind = FaultKind::kLateRank, .rank = 5, .ms = 300, .from = 10}));
  expect_same_report(job(Program::kShards, {.kind = FaultKind::kPacketLoss, .rank = 2, .from = 8}));
  expect_same_report(job(Program::kReplicas, {.kind = FaultKind::kMismatchedCollective, .rank = 3, .from = 12}));
  simulation::JobOptions mesh = job(Program::kMesh, {.kind = FaultKind::kDeadRank, .rank = 6, .from = 12});
  mesh.tensor = 2;
  mesh.stages = 2;
  expect_same_report(mesh);
  simulation::JobOptions attached = job(Program::kReplicas, {.kind = FaultKind::kMissingCollective, .rank = 1});
  attached.plugin = false;
  attached.attach_s = 1;
  attached.faults[0].from = 18;
  expect_same_report(attached);
}

}  // namespace
}  // namespace stalltrace::analysis
