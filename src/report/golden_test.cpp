// SPDX-License-Identifier: Apache-2.0
// Text and JSON output, byte for byte. STALLTRACE_UPDATE_GOLDEN=1 rewrites the files; review the diff.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "report/inspection.h"
#include "report/live_text.h"
#include "report/report_json.h"
#include "report/report_text.h"
#include "tests/support/golden_text.h"
#include "tests/support/source_tree.h"

namespace stalltrace::report {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kStart = 1'800'000'000LL * kNsPerSecond;

void expect_golden(const std::string& name, const std::string& actual) {
  const std::string path = source_path("src/report/testdata/" + name);
  if (std::getenv("STALLTRACE_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(write_file(path, actual).has_value());
  }
  const Result<std::string> expected = read_file(path);
  ASSERT_TRUE(expected.has_value()) << path;
  EXPECT_EQ(actual, *expected) << "rewrite with STALLTRACE_UPDATE_GOLDEN=1 if this is meant";
}

Report healthy_report() {
  Report report;
  report.nodes = 4;
  report.ranks = 4;
  report.range = {kStart, kStart + 8 * kNsPerSecond};
  report.collectives = 3200;
  report.judged_range = report.range;
  report.judged = 3200;
  return report;
}

/// Sets the window of --from +2s --to +4s.
void judge_two_seconds(Report& report) {
  report.judged_range = {kStart + 2 * kNsPerSecond, kStart + 4 * kNsPerSecond};
  report.judged = 800;
}

Report empty_window_report() {
  Report report = healthy_report();
  judge_two_seconds(report);
  report.judged = 0;
  return report;
}

Finding loss_finding() {
  Finding finding{.cause = Cause::kPacketLoss, .severity = Severity::kHigh, .confidence = 0.97};
  finding.link = LinkEndpoints{1, 2, Endpoint{"10.77.0.2", 40112}, Endpoint{"10.77.0.3", 50001}};
  finding.comm_id_hash = 0x123456789abcdef0ULL;
  finding.collectives_affected = 37;
  finding.stall_ms = 5120.4;
  finding.window = {kStart + 2 * kNsPerSecond, kStart + 7 * kNsPerSecond};
  finding.summary =
      "Packets are lost on the way from rank 1 (node1, pid 4711) to rank 2 (node2, pid 4712): the job lost 5.12 s in "
      "37 collectives while TCP repeated them.";
  finding.evidence = {{"collective", 37, "AllReduce transfers took up to 412 ms; usual here is 9.1 ms", {}},
                      {"tcp_retransmit_skb", 120, "120 retransmissions by the sender", {make_event_id(7, 42)}}};
  finding.remedy = "check the path 10.77.0.2 -> 10.77.0.3";
  return finding;
}

Report sick_report() {
  Report report = healthy_report();
  report.healthy = false;
  report.findings.push_back(loss_finding());
  Finding stopped{.cause = Cause::kProcessStopped, .severity = Severity::kCritical, .confidence = 0.99};
  stopped.culprit = Culprit{"node3", 3, 4713};
  stopped.op = Operation::kReduceScatter;
  stopped.collectives_affected = 1;
  stopped.stall_ms = 1003.2;
  stopped.window = {kStart + kNsPerSecond, kStart + 2 * kNsPerSecond};
  stopped.summary = "Rank 3 (node3, pid 4713) was stopped: the job lost 1 s in 1 collective.";
  stopped.evidence = {{"wait_span", 1, "its threads were stopped for 99 % of the stalled time", {}}};
  stopped.remedy = "find out who stopped pid 4713 on node3";
  report.findings.push_back(stopped);
  report.losses = {{7, "ring:collective", 12}, {8, "ring:tcp", 1}};
  report.node_names = {{7, "node1"}};
  report.lost_events = 13;
  report.notes = {"communicator 0x123456789abcdef0 has 5 ranks, 4 recorded; not recorded: rank 4"};
  return report;
}

Report part_of_sick_report() {
  Report report = sick_report();
  report.findings.resize(1);
  report.findings[0].stall_ms = 1800;
  judge_two_seconds(report);
  return report;
}

Report unknown_report() {
  Report report = healthy_report();
  report.healthy = false;
  Finding finding{.cause = Cause::kUnknown, .severity = Severity::kLow, .confidence = 0.3};
  finding.culprit = Culprit{"node1", std::nullopt, 99};
  finding.collectives_affected = 12;
  finding.stall_ms = 1204.5;
  finding.window = {kStart + kNsPerSecond, kStart + 3 * kNsPerSecond};
  finding.summary = "The others waited for pid 99 on node1 (rank unknown), and the recording does not show why.";
  finding.evidence = {{"missing", 1, "missing: scheduler states of the rank (wait_span)", {}}};
  finding.remedy = "record again with scheduler tracing on";
  report.findings.push_back(finding);
  return report;
}

/// The second of two attempts, or both at the same time.
Report attempts_report(bool at_once) {
  Report report = sick_report();
  report.findings.erase(report.findings.begin());
  report.findings[0].attempt = 2;
  report.losses.clear();
  report.notes.clear();
  const int64_t middle_ns = kStart + kNsPerSecond / 2;
  report.attempts.push_back({.number = 1,
                             .ranks = 2,
                             .nodes = 1,
                             .range = {kStart - kNsPerSecond, at_once ? report.range.to_ns : middle_ns},
                             .end = "rank 1 (node3, pid 4611) ended with exit code 1, before any other"});
  report.attempts[0].ended_by = Culprit{"node3", 1, 4611};
  report.attempts.push_back({.number = 2,
                             .ranks = 4,
                             .nodes = 2,
                             .range = {middle_ns, report.range.to_ns},
                             .end = "all its ranks ended without an error"});
  return report;
}

TEST(ReportGolden, Attempts) {
  expect_golden("attempts.txt", report_to_text(attempts_report(false)));
  expect_golden("attempts_at_once.txt", report_to_text(attempts_report(true)));
  expect_golden("attempts.json", report_to_json(attempts_report(false)));
}

Report failed_ranks_report() {
  Report report = healthy_report();
  report.failed_ranks = 1;
  report.notes = {"rank 1 (node1, pid 11) ended with exit code 1, after AllReduce number 98"};
  return report;
}

/// A job that died: in a collective, or while no rank was inside one.
Finding ended_job_finding(int64_t collectives) {
  Finding finding{.cause = Cause::kDeadRank, .severity = Severity::kCritical, .confidence = 0.99};
  finding.culprit = Culprit{"node2", 2, 4712};
  finding.ended_job = true;
  finding.collectives_affected = collectives;
  finding.stall_ms = 6.41;
  finding.window = {kStart + kNsPerSecond, kStart + kNsPerSecond + 6'410'000};
  finding.summary = "Rank 2 (node2, pid 4712) ended by itself with exit code 1, before any other rank: the job ended.";
  finding.remedy = "read the log of pid 4712 on node2 first";
  return finding;
}

Report ended_job_report() {
  Report report = healthy_report();
  report.healthy = false;
  report.findings = {ended_job_finding(1), ended_job_finding(0)};
  return report;
}

TEST(ReportGolden, Text) {
  expect_golden("healthy.txt", report_to_text(healthy_report()));
  expect_golden("sick.txt", report_to_text(sick_report()));
  expect_golden("sick_colour.txt", report_to_text(sick_report(), {.colour = true}));
  expect_golden("unknown.txt", report_to_text(unknown_report()));
  expect_golden("nothing.txt", report_to_text(Report{}));
  Report warned;
  warned.has_others_evidence = true;
  warned.notes = {"rank 3 warned: NET/IB : Got async event : port error"};
  expect_golden("notes_alone.txt", report_to_text(warned));
  expect_golden("failed_ranks.txt", report_to_text(failed_ranks_report()));
  expect_golden("ended_job.txt", report_to_text(ended_job_report()));
  expect_golden("window.txt", report_to_text(part_of_sick_report()));
  expect_golden("empty_window.txt", report_to_text(empty_window_report()));
}

TEST(ReportGolden, Json) {
  expect_golden("healthy.json", report_to_json(healthy_report()));
  expect_golden("sick.json", report_to_json(sick_report()));
  expect_golden("unknown.json", report_to_json(unknown_report()));
  expect_golden("window.json", report_to_json(part_of_sick_report()));
}

TEST(LiveText, AJobThatEndedDidNotHang) {
  const std::string text = live_finding_to_text(LiveHeadline::kEnded, kStart, 1, ended_job_finding(1), 0, {});
  golden::expect_text(text);
}

TEST(LiveGolden, Text) {
  Finding finding = loss_finding();
  finding.detected_ns = kStart + 4 * kNsPerSecond;
  const auto at = [&](int64_t seconds, LiveHeadline headline, int64_t explained_by = 0) {
    return live_finding_to_text(headline, kStart + seconds * kNsPerSecond, 1, finding, explained_by, {});
  };
  const std::string text = at(4, LiveHeadline::kBegan) + at(12, LiveHeadline::kEnded) +
                           at(20, LiveHeadline::kCameBack) + at(25, LiveHeadline::kEnded, 2);
  expect_golden("live.txt", text);
  expect_golden("live.json", reported_findings_to_json({{"node1", finding}}));
}

TEST(LiveJson, IsALineWithItsAgent) {
  const std::string line = live_finding_to_json({.node = "node7", .started_ns = kStart}, LiveHeadline::kEnded,
                                                kStart + 5, 3, loss_finding(), 2);
  EXPECT_TRUE(line.starts_with(fmt::format(
      R"({{"schema":{},"node":"node7","started_ns":{},"time_ns":{},"number":3,"news":"ended","explained_by":2,"finding":{{)",
      Report::kSchema, kStart, kStart + 5)))
      << line;
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const std::string first =
      live_finding_to_json({.node = "\xff\n", .started_ns = 1}, LiveHeadline::kBegan, 2, 1, loss_finding(), 0);
  EXPECT_NE(first.find(R"("news":"began","explained_by":null)"), std::string::npos) << first;
  EXPECT_EQ(first.find('\n'), first.size() - 1);
}

Inspection slow_instance() {
  Inspection inspection{.event_id = make_event_id(7, 42), .bytes = 1 << 20, .comm_id_hash = 0x123456789abcdef0ULL};
  inspection.number = 37;
  inspection.calls = {{"rank 0 (node0, pid 4710)", kStart, kStart + 230 * kNsPerMs},
                      {"rank 1 (node1, pid 4711)", kStart + 2 * kNsPerMs, std::nullopt}};
  inspection.absent = {"rank 2 (node2, pid 4712)"};
  inspection.late_ns = 2 * kNsPerMs;
  inspection.transfer_ns = 228 * kNsPerMs;
  inspection.split = 0.01;
  inspection.like = {199, true, 9 * kNsPerMs, 10 * kNsPerMs, kNsPerMs, 19 * kNsPerMs, 10 * kNsPerMs};
  InspectedPart late{.name = "late", .time = {kStart, kStart + 2 * kNsPerMs}};
  late.value_ns = 2 * kNsPerMs;
  late.limit_ns = 10 * kNsPerMs;
  late.why = "over 10 ms only";
  late.causes = {{.cause = Cause::kPacketLoss, .text = "no recovery"}};
  InspectedPart transfer{.name = "transfer", .time = {kStart + 2 * kNsPerMs, kStart + 230 * kNsPerMs}};
  transfer.stall = true;
  transfer.lost_ns = 219 * kNsPerMs;
  transfer.reason = VerdictReason::kTooLong;
  transfer.value_ns = 228 * kNsPerMs;
  transfer.limit_ns = 19 * kNsPerMs;
  transfer.why = "the transfer took 228 ms; over 19 ms is a stall";
  transfer.finding = 1;
  transfer.causes = {
      {.cause = Cause::kPacketLoss, .chosen = true, .applies = true, .share = 0.98, .text = "in recovery for 215 ms"},
      {.cause = Cause::kCpuContention, .share = 0.04, .text = "ready, not running for 9 ms"},
      {.cause = Cause::kDiskIo, .text = "no rank waited for disk"}};
  inspection.parts = {late, transfer};
  return inspection;
}

TEST(InspectionText, AnInstanceOutsideOfTheRangeIsNotCalledOrdinary) {
  Inspection inspection = slow_instance();
  const auto headline = [&] {
    const std::string text = inspection_to_text(inspection);
    return text.substr(0, text.find('\n'));
  };
  golden::expect_text(headline());
  inspection.parts[1].stall = false;
  golden::expect_text(headline());
  inspection.outside_range = true;
  golden::expect_text(headline());
}

TEST(ReportText, ACostThatTheEvidenceDoesNotShowIsNotZero) {
  Report report = unknown_report();
  report.findings[0].stall_ms = 0;
  report.findings[0].cost_known = false;
  constexpr std::string_view kCost = "\n  cost ";
  const auto cost = [&] {
    const std::string text = report_to_text(report);
    const size_t begin = text.find(kCost) + kCost.size();
    return std::string(trim(text.substr(begin, text.find('\n', begin) - begin)));
  };
  golden::expect_text(cost());
  report.findings[0].stall_ms = 1204.5;  // another finding's evidence showed it
  golden::expect_text(cost());
}

/// The step that a batch ended may have begun before the first arrival.
TEST(InspectionText, APartThatBeganBeforeTheFirstArrivalHasASignedTime) {
  Inspection inspection = slow_instance();
  inspection.parts[0].time.from_ns = kStart - 23 * kNsPerMs;
  EXPECT_THAT(inspection_to_text(inspection), HasSubstr("late -23 ms"));
}

TEST(InspectionGolden, TextAndJson) {
  expect_golden("instance.txt", inspection_to_text(slow_instance()));
  expect_golden("instance.json", inspection_to_json(slow_instance()));
}

TEST(ReportGolden, ProfilerTraces) {
  Report report;
  ProfileSummary one{
      .file = "rank0.json\x1b[2J", .rank = 0, .world_size = 2, .backend = "nccl", .on_device = true, .steps = 4};
  one.duration_ns = 400'000'000;
  one.compute_ns = 240'000'000;
  one.communication_ns = 180'000'000;
  one.exposed_ns = 140'000'000;
  one.idle_ns = 20'000'000;
  TraceCollective bucket{
      .op = "all_reduce", .process_group = "default_pg", .datatype = "Float", .elements = 1'000'000, .calls = 4};
  bucket.total_ns = 120'000'000;
  bucket.exposed_ns = 90'000'000;
  bucket.shortest_ns = 20'000'000;
  bucket.longest_ns = 50'000'000;
  one.collectives.push_back(bucket);
  bucket.elements.reset();
  bucket.datatype = bucket.process_group = "";
  bucket.ordinal = 2;
  one.collectives.push_back(bucket);
  one.more_collectives = 3;
  one.remarks = {"late: the others wait for rank 0.", "long step: 3 took 180 ms"};
  report.profiles.push_back(one);
  report.profiles.push_back({.file = "other.json", .duration_ns = 5'000'000});
  expect_golden("profiles.txt", report_to_text(report));
  expect_golden("profiles.json", report_to_json(report));
  EXPECT_EQ(report.health(), std::nullopt);
}

TEST(ReportGolden, PacketCaptures) {
  Report report;
  CaptureSummary one;
  one.capture.file = "net.pcap";
  one.capture.started_ns = 1'777'975'200'000'000'000;
  one.capture.duration_ns = 60'000'000'000;
  one.capture.packets = 2000;
  one.capture.tcp_packets = 1990;
  one.capture.flows = 2;
  report.captures.push_back(one);
  one.remarks = {"3 ICMP messages that a packet is too big for the path"};
  FlowSummary flow{.src_rank = 0, .dst_rank = 1};
  flow.flow.source = {"10.0.0.1", 5001};
  flow.flow.destination = {"10.0.0.2", 29500};
  flow.flow.packets = 1000;
  flow.flow.payload_bytes = 1'448'000;
  flow.flow.retransmits = 40;
  flow.remarks = {"loss: 40 of 1000 packets were retransmissions, 4.0 % of the bytes", "reset: 10.0.0.1 sent 1 RST"};
  one.flows.push_back(flow);
  one.more_flows = 2;
  report.captures.push_back(one);
  expect_golden("captures.txt", report_to_text(report));
  expect_golden("captures.json", report_to_json(report));
}

TEST(ReportGolden, Benchmarks) {
  Report report;
  BenchmarkSummary run{.name = "all_reduce_perf", .file = "good.log", .line = 3, .nranks = 8};
  run.hosts = {"node0", "node1"};
  run.results = 50;
  run.smallest_bytes = 8;
  run.largest_bytes = int64_t{1} << 27;
  run.peak_busbw_gbs = 343.85;
  run.peak_bytes = run.largest_bytes;
  run.ended = true;
  report.benchmarks.push_back(run);
  run.file = "wrong\x1b[2J.log";
  run.failed = true;
  run.wrong_results = 2;
  run.remarks = {"4096 wrong of 262144 elements in the result of 1.0 MiB (float sum, in place), line 35",
                 "slower: busbw 62 % of run [1]'s in the median of 16 results of 1.0 MiB and more"};
  report.benchmarks.push_back(run);
  report.benchmarks.push_back({.name = "a benchmark", .file = "cut.log"});
  expect_golden("benchmarks.txt", report_to_text(report));
  expect_golden("benchmarks.json", report_to_json(report));
  EXPECT_EQ(report.health(), false);
}

/// A run that was right was given, and nothing of this one could be compared with it.
TEST(ReportText, NothingComparedIsNotHealthy) {
  Report report = healthy_report();
  report.like = ReferenceRun{.comparable = 1};
  EXPECT_EQ(report.health(), std::optional(true));
  report.like->comparable = 0;
  EXPECT_EQ(report.health(), std::nullopt);
  const std::string text = report_to_text(report);
  golden::expect_text(text.substr(0, text.find('\n')));
}

TEST(ReportText, NamesCannotDriveTheTerminal) {
  Report report = sick_report();
  report.findings[0].summary = "by '\x1b[2J\n\x07'";
  report.notes = {"\x1b]0;owned"};
  const std::string text = report_to_text(report);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\x07'), std::string::npos);
}

TEST(ReportJson, NamesThatAreNotUtf8DoNotBreakIt) {
  Report report = sick_report();
  report.findings[0].summary = "by '\xff\xfe'";
  const nlohmann::json parsed = nlohmann::json::parse(report_to_json(report));
  EXPECT_EQ(parsed["schema"], 1);
  EXPECT_EQ(parsed["findings"].size(), 2U);
}

TEST(ReportJson, WhereNothingWasJudgedHealthIsUnknown) {
  for (const Report& report : {Report{}, empty_window_report()}) {
    const nlohmann::json parsed = nlohmann::json::parse(report_to_json(report));
    EXPECT_TRUE(parsed["healthy"].is_null());
    EXPECT_EQ(parsed["judged"]["collectives"], 0);
  }
  Report failed_init = sick_report();  // a finding about a job without collectives
  failed_init.judged = 0;
  EXPECT_EQ(nlohmann::json::parse(report_to_json(failed_init))["healthy"], false);
}

TEST(ReportJson, WhereRanksWereNotRecordedHealthIsUnknown) {
  Report report = healthy_report();
  report.unrecorded_ranks = "communicator 0x1 has 4 ranks, 3 recorded; not recorded: rank 2";
  EXPECT_TRUE(nlohmann::json::parse(report_to_json(report))["healthy"].is_null());
  EXPECT_EQ(report_to_text(report).find("Healthy"), std::string::npos);
  Report found = sick_report();
  found.unrecorded_ranks = report.unrecorded_ranks;
  EXPECT_EQ(nlohmann::json::parse(report_to_json(found))["healthy"], false);
}

TEST(ReportJson, HasTheFieldsOfSchemaOne) {
  const nlohmann::json parsed = nlohmann::json::parse(report_to_json(sick_report()));
  const nlohmann::json& loss = parsed["findings"][0];
  EXPECT_TRUE(loss["culprit"].is_null());
  EXPECT_EQ(loss["link"]["src"], "10.77.0.2:40112");
  EXPECT_EQ(loss["comm_id_hash"], "0x123456789abcdef0");
  EXPECT_EQ(loss["stall_ms"], 5120.4);
  EXPECT_TRUE(parsed["findings"][1]["link"].is_null());
  EXPECT_TRUE(parsed["findings"][1]["comm_id_hash"].is_null());
  EXPECT_EQ(parsed["recording"]["lost_events"], 13);
}

TEST(ReportJson, HasTheClocksOfSeveralNodes) {
  Report report = healthy_report();
  EXPECT_FALSE(nlohmann::json::parse(report_to_json(report)).contains("clocks"));
  report.clocks.push_back(
      {.node = "node0", .reference = "node0", .error_ns = 0, .comparable = true, .source = ClockSource::kSameBoot});
  report.clocks.push_back({.node = "node1",
                           .reference = "node0",
                           .offset_ns = -1500,
                           .drift_ppm = 12.34567,
                           .error_ns = 40'000,
                           .comparable = true,
                           .source = ClockSource::kKernel});
  report.clocks.push_back({.node = "node2", .reference = "node0"});
  const nlohmann::json clocks = nlohmann::json::parse(report_to_json(report))["clocks"];
  ASSERT_EQ(clocks.size(), 3U);
  EXPECT_EQ(clocks[0]["source"], "same boot");
  EXPECT_EQ(clocks[0]["error_ns"], 0);
  EXPECT_EQ(clocks[1], nlohmann::json({{"node", "node1"},
                                       {"reference", "node0"},
                                       {"offset_ns", -1500},
                                       {"drift_ppm", 12.346},
                                       {"error_ns", 40'000},
                                       {"comparable", true},
                                       {"source", "kernel"}}));
  EXPECT_TRUE(clocks[2]["error_ns"].is_null());
  EXPECT_TRUE(clocks[2]["source"].is_null());
  EXPECT_EQ(clocks[2]["comparable"], false);
}

TEST(ReportText, ManyFindingsLossesAndNotesFoldIntoAPage) {
  Report report = healthy_report();
  report.healthy = false;
  for (int i = 0; i < 30; ++i) {
    report.findings.push_back(loss_finding());
    report.losses.push_back({static_cast<NodeId>(i), "ring:tcp", static_cast<uint64_t>(i) + 1});
    report.notes.push_back(fmt::format("note-{}", i + 1));
  }
  const std::string page = report_to_text(report);
  expect_golden("folded.txt", page);
  const std::string all = report_to_text(report, {.all = true});
  EXPECT_THAT(page, HasSubstr("[24]"));
  EXPECT_THAT(page, Not(HasSubstr("[25]")));
  EXPECT_THAT(page, Not(HasSubstr("note-17")));
  EXPECT_THAT(all, HasSubstr("[30]"));
  EXPECT_THAT(all, HasSubstr("note-30"));
  EXPECT_THAT(all, Not(HasSubstr("--all")));
  EXPECT_LT(std::ranges::count(page, '\n'), std::ranges::count(all, '\n') / 2);
}

}  // namespace
}  // namespace stalltrace::report
