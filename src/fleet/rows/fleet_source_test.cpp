// SPDX-License-Identifier: Apache-2.0
// What nodes on different hosts answer gives what their files in one folder give.
#include "fleet/rows/fleet_source.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "analysis/explain.h"
#include "lab/simulation/job.h"
#include "serve/http/api.h"
#include "serve/rows/row_frames.h"
#include "serve/testing/job_file.h"
#include "serve/testing/running_server.h"
#include "store/testing/test_support.h"

namespace stalltrace::fleet {
namespace {

using serve::HttpAnswer;
using serve::HttpRequest;
using simulation::FaultKind;

/// All that a reader and a program see of a finding.
std::string text_of(const Finding& finding) {
  std::string text =
      fmt::format("{} {} {} [{}, {}] {}\n", static_cast<int>(finding.cause), finding.stall_ms,
                  static_cast<int>(finding.severity), finding.window.from_ns, finding.window.to_ns, finding.summary);
  for (const Evidence& evidence : finding.evidence) {
    text += fmt::format("  {} {} {} {}\n", evidence.kind, evidence.count, evidence.text, evidence.events.size());
  }
  return text;
}

std::vector<std::string> texts_of(const Report& report) {
  std::vector<std::string> texts;
  std::ranges::transform(report.findings, std::back_inserter(texts), text_of);
  return texts;
}

/// The nodes of a simulated job, each with a server and an address of its own.
class Fleet {
 public:
  explicit Fleet(const simulation::JobOptions& options,
                 const std::function<void(int node, MemorySource&)>& change = {}) {
    const simulation::Job job(options);
    for (int node = 0; node < options.nodes; ++node) {
      files.push_back(folder_ / fmt::format("{}.db", simulation::Job::node_name(node)));
      MemorySource rows;
      job.record(node, rows);
      if (change) {
        change(node, rows);
      }
      serve::write_recording(files.back(), rows);
      serve_file(files.back());
    }
  }

  void serve_file(const std::string& file) {
    recordings_.push_back(serve::recordings_in_files({file}));
    apis_.push_back(std::make_unique<serve::Api>(
        *recordings_.back(), serve::ApiOptions{.copies_folder = folder_.path(), .clock = [this] {
                                                 return clock_of ? clock_of() : serve::read_host_clock();
                                               }}));
    const size_t node = servers_.size();
    servers_.push_back(std::make_unique<serve::RunningServer>(
        [this, node](const HttpRequest& request) { return answer(node, request); }));
    addresses.push_back({.host = "127.0.0.1", .port = servers_.back()->port(), .addresses = {"127.0.0.1"}});
  }

  struct Limits {
    std::chrono::milliseconds time = std::chrono::seconds(20);
    int64_t bytes = int64_t{1} << 30;
  };
  [[nodiscard]] std::unique_ptr<FleetSource> open(const Limits& limits) const {
    return store::must(FleetSource::open(addresses, {.client = {.limit = limits.time}, .most_bytes = limits.bytes}));
  }
  [[nodiscard]] std::unique_ptr<FleetSource> open() const { return open(Limits()); }
  [[nodiscard]] static ExplainResult explain_nodes(FleetSource& source) {
    ExplainOptions options;
    options.measured_clocks = source.measured_clocks();
    options.provider = &source;
    return store::must(explain(source, options));
  }
  [[nodiscard]] Report of_files(std::span<const std::string> some) const {
    const auto source = store::must(store::open_recordings(some));
    return store::must(explain(*source)).report;
  }

  std::vector<std::string> files;
  std::vector<NodeAddress> addresses;
  std::function<serve::HostClock()> clock_of;
  std::map<size_t, std::string> silent_about;   // a node, and a part of the bodies that it refuses
  bool hangs = false;                           // instead of that, it answers them never
  std::set<size_t> older;                       // nodes whose version has no table of competitors
  std::map<size_t, std::string> without_table;  // nodes whose version has no such table
  std::optional<size_t> refused_by;             // a node that refuses all requests for rows
  std::map<size_t, size_t> padded;              // a node, and bytes without use in each of its answers with rows
  /// Of the requests for rows; to be read when no request is open.
  std::vector<std::string> bodies;

  /// Whether rows of samples or waits were moved that are not near a stall, nor after the last call.
  [[nodiscard]] bool moved_all_samples() const {
    return std::ranges::any_of(bodies, [](const std::string& body) {
      return body.find("tcp_sample") != std::string::npos && body.find("narrow") == std::string::npos &&
             body.find("to_ns") != std::string::npos;
    });
  }

 private:
  HttpAnswer answer(size_t node, const HttpRequest& request) {
    if (request.path == "/v1/rows") {
      const std::lock_guard lock(mutex_);
      bodies.push_back(request.body);
    }
    if (older.contains(node) && request.body.find("competitor") != std::string::npos) {
      return serve::answer_of_error(400, "a read has no table that recordings have", "docs/serve.md has its form");
    }
    const auto without = without_table.find(node);
    if (without != without_table.end() && request.body.find('"' + without->second + '"') != std::string::npos) {
      return serve::answer_of_error(400, "a read has no table that recordings have", "docs/serve.md has its form");
    }
    if (refused_by == node && request.path == "/v1/rows") {
      return serve::answer_of_error(400, "refused", "");
    }
    const auto silent = silent_about.find(node);
    if (silent != silent_about.end() && request.body.find(silent->second) != std::string::npos) {
      while (hangs && !*request.gone) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      return serve::answer_of_error(404, "gone", "");
    }
    const auto padding = padded.find(node);
    HttpAnswer answer = apis_[node]->answer(request);
    return padding == padded.end() || !answer.next_piece ? answer : padded_answer(answer, padding->second);
  }

  static HttpAnswer padded_answer(const HttpAnswer& answer, size_t bytes) {
    std::string body;
    serve::FrameReader frames;
    for (std::string piece = store::must(answer.next_piece()); !piece.empty();
         piece = store::must(answer.next_piece())) {
      store::must(frames.add(piece, [&](serve::FrameKind kind, std::string_view content) {
        std::string padded(content);
        if (kind == serve::FrameKind::kEnd) {
          padded.insert(1, fmt::format(R"("padding":"{}",)", std::string(bytes, 'x')));
        }
        body += serve::frame_head(kind, padded.size()) + padded;
        return Status();
      }));
    }
    return {.content_type = answer.content_type, .body = std::move(body)};
  }

  store::TemporaryFolder folder_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<serve::Recordings>> recordings_;
  std::vector<std::unique_ptr<serve::Api>> apis_;
  std::vector<std::unique_ptr<serve::RunningServer>> servers_;
};

simulation::JobOptions job_with(std::vector<simulation::Fault> faults, bool plugin = true) {
  simulation::JobOptions options{.nodes = 3, .ranks_per_node = 3, .steps = 40, .plugin = plugin};
  options.faults = std::move(faults);
  return options;
}

void expect_the_same(const simulation::JobOptions& options) {
  const Fleet fleet(options);
  const auto source = fleet.open();
  const Report here = fleet.of_files(fleet.files);
  const Report there = Fleet::explain_nodes(*source).report;
  EXPECT_TRUE(source->failed().empty());
  EXPECT_FALSE(here.findings.empty());
  EXPECT_THAT(texts_of(there), testing::ElementsAreArray(texts_of(here)));
  EXPECT_FALSE(fleet.moved_all_samples());
  EXPECT_EQ(there.collectives, here.collectives);
  EXPECT_EQ(there.ranks, here.ranks);
  EXPECT_EQ(there.notes, here.notes);
  EXPECT_EQ(there.healthy, here.healthy);
  EXPECT_EQ(there.range, here.range);
}

/// With the plugin, and as a tracer alone sees it, where that shows the fault, too.
TEST(FleetSource, FindsWhatTheFilesShow) {
  struct Case {
    std::string name;
    simulation::Fault fault;
    bool without_plugin = false;
  };
  const std::vector<Case> cases{
      {"late rank", {.kind = FaultKind::kLateRank, .rank = 5, .ms = 80, .from = 20}},
      {"late once", {.kind = FaultKind::kLateRank, .rank = 2, .ms = 900, .computes = false, .from = 30, .to = 31}},
      {"slow device", {.kind = FaultKind::kSlowDevice, .rank = 1, .ms = 80, .from = 20}},
      {"dead rank", {.kind = FaultKind::kDeadRank, .rank = 6, .from = 30}, true},
      {"stopped", {.kind = FaultKind::kProcessStopped, .rank = 3, .ms = 2000, .from = 30, .to = 31}},
      {"missing", {.kind = FaultKind::kMissingCollective, .rank = 4, .from = 30}, true},
      {"mismatched", {.kind = FaultKind::kMismatchedCollective, .rank = 4, .from = 30}},
      {"slow link", {.kind = FaultKind::kSlowLink, .rank = 5, .factor = 40, .from = 20}},
      {"packet loss", {.kind = FaultKind::kPacketLoss, .rank = 5, .per_step = 2, .from = 20}, true}};
  for (const Case& one : cases) {
    for (const bool plugin : {true, false}) {
      if (plugin || one.without_plugin) {
        SCOPED_TRACE(one.name + (plugin ? ", with the plugin" : ""));
        simulation::JobOptions options = job_with({one.fault}, plugin);
        options.hang_s = 20;
        expect_the_same(options);
      }
    }
  }
}

TEST(FleetSource, FindsWhatTheFilesShowWhereClocksAreWrong) {
  simulation::JobOptions options = job_with({{.kind = FaultKind::kPacketLoss, .rank = 5, .per_step = 2, .from = 20}});
  options.clock_error_ms = 3000;
  expect_the_same(options);
}

TEST(FleetSource, FindsNothingInAHealthyJobAndMovesLittle) {
  const Fleet fleet(job_with({}));
  const auto source = fleet.open();
  EXPECT_TRUE(Fleet::explain_nodes(*source).report.findings.empty());
  EXPECT_EQ(source->moved().recordings, 3);
  EXPECT_GT(source->moved().bytes, 0);
  EXPECT_LT(static_cast<double>(source->moved().bytes), 0.05 * static_cast<double>(source->moved().recording_bytes));
}

TEST(FleetSource, ANodeThatFailsLaterIsLeftOutOfTheWholeAnalysis) {
  Fleet fleet(job_with({{.kind = FaultKind::kLateRank, .rank = 5, .ms = 200, .from = 20}}));
  fleet.silent_about[2] = "windows";
  const auto source = fleet.open();
  EXPECT_EQ(source->answering(), 3U);
  ExplainOptions options;
  options.provider = source.get();
  EXPECT_FALSE(explain(*source, options).has_value()) << "an analysis of a part of a node would be wrong";
  ASSERT_EQ(source->failed().size(), 1U);
  EXPECT_EQ(source->failed()[0].node, fleet.addresses[2].shown());
  EXPECT_EQ(source->answering(), 2U);
  EXPECT_THAT(texts_of(Fleet::explain_nodes(*source).report),
              testing::ElementsAreArray(texts_of(fleet.of_files(std::span(fleet.files).first(2)))));
}

/// Whichever table they are of.
TEST(FleetSource, ImpossibleRowsAreCountedAsThoseOfFilesAre) {
  const Fleet fleet(
      job_with({{.kind = FaultKind::kLateRank, .rank = 5, .ms = 80, .from = 20}}), [](int node, MemorySource& rows) {
        WaitSpan wait{.node_id = simulation::Job::node_id(node), .window_ns = int64_t{1} << 60};
        ASSERT_TRUE(rows.collectives({}, [&](const Collective& row) { wait.timestamp_ns = row.timestamp_ns; }));
        if (node == 1) {
          rows.accept(wait);
        }
      });
  const auto source = fleet.open();
  EXPECT_FALSE(Fleet::explain_nodes(*source).report.findings.empty());
  EXPECT_EQ(source->rows_left_out(), 1);
}

/// All answer at the same time, each within its own limit.
TEST(FleetSource, TheRowsOfAllNodesTogetherHaveALimit) {
  simulation::JobOptions options = job_with({});
  options.nodes = 8;
  options.ranks_per_node = 1;
  const Fleet fleet(options);
  const int64_t all_bytes = fleet.open()->moved().bytes;
  const auto source = fleet.open({.bytes = all_bytes * 5 / 8});
  EXPECT_GE(source->answering(), 3U);
  EXPECT_LE(source->answering(), 5U);
  EXPECT_EQ(source->failed().size(), 8 - source->answering());
  EXPECT_THAT(source->no_room_note().value_or(""),
              testing::HasSubstr(fmt::format("{} of 8 nodes", 8 - source->answering())));
  EXPECT_EQ(fleet.open()->no_room_note(), std::nullopt);
}

/// It may be asked several times, and each of its answers would fit.
TEST(FleetSource, ANodeHasAQuarterOfTheRoomHoweverOftenItIsAsked) {
  Fleet fleet(job_with({{.kind = FaultKind::kLateRank, .rank = 5, .ms = 200, .from = 20}}));
  fleet.padded[2] = 1 << 20;
  const auto source = fleet.open({.bytes = 6 << 20});
  EXPECT_EQ(source->answering(), 3U);
  EXPECT_EQ(source->no_room_note(), std::nullopt);
  ExplainOptions options;
  options.provider = source.get();
  EXPECT_FALSE(explain(*source, options).has_value()) << "an analysis of a part of a node would be wrong";
  ASSERT_EQ(source->failed().size(), 1U);
  EXPECT_EQ(source->failed()[0].node, fleet.addresses[2].shown());
  EXPECT_THAT(source->no_room_note().value_or(""), testing::HasSubstr(fleet.addresses[2].shown()));
  EXPECT_THAT(texts_of(Fleet::explain_nodes(*source).report),
              testing::ElementsAreArray(texts_of(fleet.of_files(std::span(fleet.files).first(2)))));
}

TEST(FleetSource, ANodeThatHangsLeavesTimeForTheOthers) {
  for (const std::string from_here : {"", "windows"}) {
    Fleet fleet(job_with({{.kind = FaultKind::kLateRank, .rank = 5, .ms = 200, .from = 20}}));
    fleet.silent_about[2] = from_here;
    fleet.hangs = true;
    const auto source = fleet.open({.time = std::chrono::seconds(8)});
    ExplainOptions options;
    options.provider = source.get();
    EXPECT_EQ(source->answering(), from_here.empty() ? 2U : 3U);
    EXPECT_EQ(explain(*source, options).has_value(), from_here.empty()) << from_here;
    EXPECT_GT(source->time_left(), std::chrono::nanoseconds(0)) << from_here;
    EXPECT_THAT(texts_of(Fleet::explain_nodes(*source).report),
                testing::ElementsAreArray(texts_of(fleet.of_files(std::span(fleet.files).first(2)))));
    ASSERT_EQ(source->failed().size(), 1U);
    EXPECT_EQ(source->failed()[0].node, fleet.addresses[2].shown());
    EXPECT_EQ(source->failed()[0].error.kind, ErrorKind::kInterrupted);
  }
}

/// Tables that it does not have are empty.
TEST(FleetSource, ANodeOfAnOlderVersionIsRead) {
  Fleet fleet(job_with({{.kind = FaultKind::kLateRank, .rank = 5, .ms = 200, .from = 20}}));
  fleet.older = {0, 2};
  const auto source = fleet.open();
  EXPECT_TRUE(source->failed().empty());
  EXPECT_EQ(source->answering(), 3U);
  EXPECT_THAT(texts_of(Fleet::explain_nodes(*source).report),
              testing::ElementsAreArray(texts_of(fleet.of_files(fleet.files))));
}

/// A table that is asked for alone.
TEST(FleetSource, ATableThatAnOlderVersionLacksIsEmptyThere) {
  Fleet fleet(job_with({}), [](int node, MemorySource& rows) {
    PythonStack stack{.node_id = simulation::Job::node_id(node)};
    ASSERT_TRUE(rows.collectives({}, [&](const Collective& row) { stack.timestamp_ns = row.timestamp_ns; }));
    rows.accept(stack);
  });
  const auto nodes_with_stacks = [&] {
    const auto source = fleet.open();
    size_t rows = 0;
    EXPECT_TRUE(source->python_stacks({}, [&](const PythonStack&) { ++rows; }).has_value());
    EXPECT_TRUE(source->failed().empty());
    return rows;
  };
  EXPECT_EQ(nodes_with_stacks(), 3U);
  fleet.without_table = {{0, "python_stack"}, {2, "python_stack"}};
  EXPECT_EQ(nodes_with_stacks(), 1U);
}

TEST(FleetSource, ANodeThatRefusesAllRowsHasFailed) {
  Fleet fleet(job_with({}));
  fleet.refused_by = 1;
  const auto source = fleet.open();
  ASSERT_EQ(source->failed().size(), 1U);
  EXPECT_EQ(source->failed()[0].node, fleet.addresses[1].shown());
  EXPECT_EQ(source->failed()[0].error.what, "refused");
  EXPECT_EQ(fleet.bodies.size(), 4U) << "it is asked once more, without the tables of later versions";
}

TEST(FleetSource, ARecordingThatTwoNodesServeIsReadOnce) {
  Fleet fleet(job_with({{.kind = FaultKind::kLateRank, .rank = 5, .ms = 200, .from = 20}}));
  fleet.serve_file(fleet.files[1]);
  const auto source = fleet.open();
  const Report there = Fleet::explain_nodes(*source).report;
  EXPECT_EQ(there.ranks, 9);
  EXPECT_THAT(texts_of(there), testing::ElementsAreArray(texts_of(fleet.of_files(fleet.files))));
  ASSERT_EQ(source->notes().size(), 1U);
  EXPECT_THAT(source->notes()[0], testing::HasSubstr(fleet.addresses[3].shown()));
}

}  // namespace
}  // namespace stalltrace::fleet
