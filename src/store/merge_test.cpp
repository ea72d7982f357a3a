// SPDX-License-Identifier: Apache-2.0
// Several recordings as one: read together, or merged into a file.
#include "store/merge.h"

#include <fmt/format.h>

#include <initializer_list>
#include <set>
#include <utility>

#include "store/schema/schema.h"
#include "store/sqlite/open.h"
#include "store/testing/test_support.h"
#include "tests/support/golden_text.h"

namespace stalltrace::store {
namespace {

class Merge : public ::testing::Test {
 protected:
  /// One node's run: `rows` collectives at times first, first + 10, ..., one retransmit, one sample.
  std::string record(const std::string& file, const Node& node, int64_t first_ns, int rows) {
    const std::string path = folder_ / file;
    auto writer = must(RecordingWriter::create(path));
    writer->accept(node);
    Process process;
    process.node_id = node.node_id;
    process.pid = 42;
    writer->accept(process);
    for (int i = 0; i < rows; ++i) {
      Collective row = collective_row(node.node_id, static_cast<uint64_t>(i) + 1, first_ns + 10 * i, 5);
      row.stack_id = 77;
      writer->accept(row);
    }
    writer->accept(retransmit_row(node.node_id, 900'000, first_ns));
    writer->accept(sample_row(node.node_id, first_ns));
    ProxyStep step;
    step.node_id = node.node_id;
    step.timestamp_ns = first_ns;
    step.collective_id = make_event_id(node.node_id, 1);
    writer->accept(step);
    writer->accept(Stack{77, "main"});
    writer->accept(Loss{node.node_id, "ring:tcp", 3});
    must(writer->close());
    return path;
  }

  TemporaryFolder folder_;
  std::string out_ = folder_ / "all.db";
};

void expect_time_order(const std::vector<Collective>& rows) {
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end(),
                             [](const Collective& a, const Collective& b) { return a.timestamp_ns < b.timestamp_ns; }));
}

TEST_F(Merge, MergedReadsAsReadTogether) {
  std::vector<std::string> inputs;
  for (NodeId node = 1; node <= 12; ++node) {  // more than SQLite attaches at once
    inputs.push_back(
        record("n" + std::to_string(node) + ".db", node_row(node, "node" + std::to_string(node)), 1'000 + node, 3'000));
  }
  const std::string first = bytes_of(inputs[0]);
  const MergeSummary summary = must(merge_recordings(inputs, out_));
  EXPECT_EQ(summary.nodes, 12U);
  EXPECT_EQ(summary.duplicate_nodes, 0U);
  EXPECT_TRUE(bytes_of(inputs[0]) == first);

  auto together = must(open_recordings(inputs));
  auto merged = must(open_recording(out_));
  const auto expected = collectives_of(*together);
  const auto rows = collectives_of(*merged);
  ASSERT_EQ(expected.size(), 36'000U);
  ASSERT_EQ(rows.size(), expected.size());
  expect_time_order(expected);
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i].event_id, expected[i].event_id);
    ASSERT_EQ(rows[i].comm_id_hash, expected[i].comm_id_hash);
  }
  EXPECT_EQ(must(merged->nodes()).size(), 12U);
  EXPECT_EQ(must(merged->processes()).size(), 12U);
  EXPECT_EQ(must(merged->losses()).size(), 12U);
  EXPECT_EQ(ask(out_, "SELECT count(*) FROM stack"), "1");
  EXPECT_EQ(ask(out_, "SELECT count(*) || '-' || count(DISTINCT id) FROM tcp_sample"), "12-12");
  EXPECT_EQ(ask(out_, "PRAGMA integrity_check"), "ok");
}

TEST_F(Merge, SameRunTwiceIsKeptOnce) {
  const std::string a = record("a.db", node_row(5, "n"), 0, 100);
  const std::string b = record("b.db", node_row(5, "n"), 0, 2'000);  // the same run, a copy with more rows
  const std::vector<std::string> inputs{a, b, a};
  EXPECT_EQ(collectives_of(*must(open_recordings(inputs))).size(), 2'000U);
  EXPECT_EQ(must(must(open_recordings(inputs))->nodes()).size(), 1U);
  const MergeSummary summary = must(merge_recordings(inputs, out_));
  EXPECT_EQ(summary.nodes, 1U);
  EXPECT_EQ(summary.duplicate_nodes, 2U);
  EXPECT_EQ(ask(out_, "SELECT count(*) FROM collective"), "2000");
}

TEST_F(Merge, TwoRunsWithOneIdAreDistinguished) {
  const std::vector<std::string> inputs{record("a.db", node_row(0x7fffff, "a"), 0, 1'500),
                                        record("b.db", node_row(0x7fffff, "b"), 5, 1'500),
                                        record("c.db", node_row(1, "c"), 7, 10)};
  const MergeSummary summary = must(merge_recordings(inputs, out_));
  EXPECT_EQ(summary.nodes, 3U);
  EXPECT_EQ(summary.renumbered_nodes, 1U);
  for (EventSource* source : std::initializer_list<EventSource*>{must(open_recordings(inputs)).release(),
                                                                 must(open_recording(out_)).release()}) {
    const std::unique_ptr<EventSource> owned(source);
    const auto rows = collectives_of(*owned);
    ASSERT_EQ(rows.size(), 3'010U);
    expect_time_order(rows);
    std::set<EventId> ids;
    std::set<NodeId> nodes;
    for (const Collective& row : rows) {
      ids.insert(row.event_id);
      nodes.insert(row.node_id);
      ASSERT_EQ(node_of(row.event_id), row.node_id);
    }
    EXPECT_EQ(ids.size(), rows.size());
    EXPECT_EQ(nodes.size(), 3U);
    must(owned->proxy_steps({}, [&](const ProxyStep& step) {
      EXPECT_EQ(node_of(step.collective_id), step.node_id);
      EXPECT_EQ(nodes.erase(step.node_id), 1U);
    }));
    EXPECT_TRUE(nodes.empty());
  }
}

/// Rows of the tables, without what depends on the order of merging: the ids of nodes, and numbers of rows.
std::string content_of(const std::string& path) {
  constexpr const char* kOfNodes = "FROM {} JOIN node USING(node_id)";
  std::string content;
  for (const auto& [table, line] : std::initializer_list<std::pair<std::string, std::string>>{
           {"process", "pid"},
           {"collective", "timestamp_ns || ' ' || (event_id & 0xffffffff) || ' ' || stack_id"},
           {"tcp_events", "timestamp_ns || event"},
           {"tcp_sample", "timestamp_ns"},
           {"proxy_step", "collective_id & 0xffffffff"},
           {"loss", "source || count"},
           {"segment", "source || (first_id & 0xffffffff) || ' ' || rows"}}) {
    content += ask(path, fmt::format("SELECT group_concat(line, char(10)) FROM "
                                     "(SELECT name || ' ' || boot_id || ' ' || {} AS line {} ORDER BY 1)",
                                     line, fmt::format(fmt::runtime(kOfNodes), table))) +
               "\n";
  }
  return content + ask(path, "SELECT group_concat(stack_id || frames) FROM stack");
}

TEST_F(Merge, OrderAndRepetitionsDoNotMatter) {
  const auto node = [](NodeId id, const std::string& name) {
    Node row = node_row(id, name);
    row.boot_id = "boot of " + name;
    row.started_ns = 1'000;
    return row;
  };
  // Ids are drawn by chance: here all nodes have one.
  const std::string a = record("a.db", node(7, "a"), 0, 1'500);
  const std::string b = record("b.db", node(7, "b"), 5, 700);
  const std::string c = record("c.db", node(7, "c"), 9, 20);
  int made = 0;
  const auto merged = [&](std::vector<std::string> inputs) {
    const std::string out = folder_ / fmt::format("merged{}.db", made++);
    must(merge_recordings(inputs, out));
    return out;
  };
  const std::string all = merged({a, b, c});
  const std::string expected = content_of(all);
  EXPECT_EQ(content_of(merged({merged({a, b}), c})), expected);
  EXPECT_EQ(content_of(merged({a, merged({b, c})})), expected);
  EXPECT_EQ(content_of(merged({merged({c, b}), a})), expected);
  EXPECT_EQ(content_of(merged({all, all, b, c})), expected);
  EXPECT_EQ(content_of(merged({merged({a, b}), merged({b, c})})), expected);
  EXPECT_EQ(ask(all, "SELECT count(DISTINCT node_id) || ' ' || count(DISTINCT event_id) FROM collective"), "3 2220");
}

TEST_F(Merge, TakesRecordingsOfAnOlderSchema) {
  const std::string old = folder_ / "old.db";
  {
    Database db = must(Database::open(old, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
    must(migrate(db, migrations().first(1)));
    must(
        db.execute("INSERT INTO node(node_id, name, started_ns, clock_offset_ns) VALUES(9, 'old', 1, 0);"
                   "INSERT INTO connection(node_id, cookie, opened_ns, pid) VALUES(9, 5, 1, 42)"));
  }
  const std::vector<std::string> inputs{old, record("new.db", node_row(1, "new"), 0, 10)};
  must(merge_recordings(inputs, out_));
  for (EventSource* source : std::initializer_list<EventSource*>{must(open_recordings(inputs)).release(),
                                                                 must(open_recording(out_)).release()}) {
    const std::unique_ptr<EventSource> owned(source);
    EXPECT_EQ(must(owned->nodes()).size(), 2U);
    EXPECT_EQ(must(owned->connections()).at(0).pid, 42);
    EXPECT_EQ(must(owned->connections()).at(0).comm_id_hash, 0U);
    EXPECT_EQ(must(owned->stacks()).size(), 1U);
    int steps = 0;
    must(owned->proxy_steps({}, [&](const ProxyStep&) { ++steps; }));
    EXPECT_EQ(steps, 1);
    must(owned->python_stacks({}, [](const PythonStack&) { ADD_FAILURE() << "the old schema has no such table"; }));
  }
}

TEST_F(Merge, NeverOverwritesAndLeavesNothingBehind) {
  const std::vector<std::string> inputs{record("a.db", node_row(1, "a"), 0, 10), folder_ / "missing.db"};
  EXPECT_FALSE(merge_recordings(inputs, out_));
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"a.db"});
  const auto refused = merge_recordings(std::span(inputs).first(1), inputs[0]);
  ASSERT_FALSE(refused);
  golden::expect_text(refused.error().what, {{folder_.path(), "FOLDER"}});
  EXPECT_FALSE(merge_recordings({}, out_));
}

TEST_F(Merge, TakesRecordingsStillBeingWritten) {
  auto writer = must(RecordingWriter::create(folder_ / "live.db"));
  writer->accept(node_row(3, "live"));
  writer->accept(collective_row(3, 1, 10, 5));
  must(writer->flush());
  const std::vector<std::string> inputs{folder_ / "live.db", record("done.db", node_row(4, "done"), 0, 10)};
  must(merge_recordings(inputs, out_));
  EXPECT_EQ(collectives_of(*must(open_recording(out_))).size(), 11U);
}

}  // namespace
}  // namespace stalltrace::store
