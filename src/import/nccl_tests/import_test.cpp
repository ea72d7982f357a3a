// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "import/nccl_tests/table.h"
#include "import/testing/evidence_files.h"
#include "model/events/imported_evidence.h"
#include "tests/support/golden_text.h"

namespace stalltrace::import {
namespace {

/// What nccl-tests prints before its rows.
std::string head(int ranks = 2, std::string_view columns = "") {
  std::string text =
      "# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809\n# Collective test starting: all_reduce_perf\n"
      "# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 "
      "validation: 1 graph: 0\n#\n# Using devices\n";
  for (int rank = 0; rank < ranks; ++rank) {
    text += fmt::format("#  Rank {:2} Group  0 Pid {:6} on      node{} device  0 [0000:04:00] NVIDIA H100\n", rank,
                        6899 + rank, rank);
  }
  return text + (columns.empty()
                     ? "#\n#                                                              out-of-place            "
                       "           in-place          \n#       size         count      type   redop    root     "
                       "time   algbw   busbw  #wrong     time   algbw   busbw  #wrong \n#        (B)    "
                       "(elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  "
                       "(GB/s)         \n"
                     : std::string(columns));
}
std::string row(int64_t bytes, double time_us, int wrong = 0) {
  const double bandwidth = static_cast<double>(bytes) / time_us / 1000;
  const std::string group = fmt::format("  {:7.2f}  {:6.2f}  {:6.2f}  {:6}", time_us, bandwidth, bandwidth, wrong);
  return fmt::format("{:12}  {:12}  {:>8}  {:>6}  {:6}{}{}\n", bytes, bytes / 4, "float", "sum", -1, group, group);
}
const std::string kEnd = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 4.71 \n#\n";

struct Read {
  MemorySource source;
  std::vector<std::string> notes;
  Summary summary;
  std::vector<BenchmarkResult> results;
  std::vector<BenchmarkRun> runs;
};

std::unique_ptr<Read> read(const std::string& text, const std::string& name = "out.log") {
  EvidenceFolder folder;
  auto out = std::make_unique<Read>();
  const std::vector<std::string> paths{folder.write(name, text)};
  const Result<Summary> summary =
      import_nccl_tests(paths, out->source, [&](std::string note) { out->notes.push_back(std::move(note)); }, {});
  EXPECT_TRUE(summary);
  out->summary = summary.value_or(Summary{});
  EXPECT_TRUE(out->source.benchmark_results({}, [&](const BenchmarkResult& one) { out->results.push_back(one); }));
  out->runs = out->source.benchmark_runs().value();
  return out;
}

TEST(NcclTests, RowsAreResultsOfARun) {
  const auto got = read(head() + row(8, 12.5) + row(1'048'576, 100, 3) + kEnd);
  ASSERT_EQ(got->runs.size(), 1U);
  const BenchmarkRun& run = got->runs[0];
  EXPECT_EQ(run.test, "all_reduce_perf");
  EXPECT_EQ(run.nranks, 2);
  EXPECT_EQ(run.hosts, "node0 node1");
  EXPECT_EQ(run.most_bytes, 134'217'728);
  EXPECT_TRUE(run.ended);
  EXPECT_FALSE(run.failed);
  ASSERT_EQ(got->results.size(), 4U);
  const BenchmarkResult& last = got->results[3];
  EXPECT_EQ(last.bytes, 1'048'576);
  EXPECT_EQ(last.count, 262'144);
  EXPECT_EQ(last.datatype, "float");
  EXPECT_EQ(last.reduce_op, "sum");
  EXPECT_EQ(last.root, std::nullopt);
  EXPECT_TRUE(last.in_place);
  EXPECT_DOUBLE_EQ(last.time_us, 100);
  EXPECT_DOUBLE_EQ(last.busbw_gbs, 10.49);
  EXPECT_EQ(last.wrong, 3);
  const Node node = got->source.nodes().value().at(0);
  EXPECT_TRUE(lacks(node, kLacksDurations) && lacks(node, kLacksCalls));
  EXPECT_TRUE(got->notes.empty());
}

/// mpirun --tag-output, srun -l, kubectl logs --prefix --timestamps, colours, CR LF.
TEST(NcclTests, PrefixesAreNoPartOfARow) {
  for (const std::string_view prefix : {"[1,0]<stdout>:", " 0: ", "[pod/bench-0/main] 2026-05-05T10:00:00.123456789Z ",
                                        "\x1b[32mnode0\x1b[0m| ", "(worker pid=123, ip=10.0.0.1) "}) {
    const std::string bare = head() + row(8, 12.5) + row(64, 13) + kEnd;
    std::string text;
    for (const std::string_view line : split(bare, '\n')) {
      text += fmt::format("{}{}\r\n", prefix, line);
    }
    const auto got = read(text);
    ASSERT_EQ(got->runs.size(), 1U) << prefix;
    EXPECT_EQ(got->runs[0].hosts, "node0 node1") << prefix;
    EXPECT_TRUE(got->runs[0].ended) << prefix;
    ASSERT_EQ(got->results.size(), 4U) << prefix;
    EXPECT_EQ(got->results[2].bytes, 64) << prefix;
  }
}

/// The columns of versions: without root and with "error", with a time behind each row, with statistics of iterations,
/// with the CPU's time.
TEST(NcclTests, ColumnsAreThoseOfTheHeader) {
  const auto old = read(head(2, "#  size  count  type  redop  time  algbw  busbw  error  time  algbw  busbw  error\n") +
                        "  8  2  float  sum  28.08  0.00  0.00  1e-07  27.73  0.00  0.00  1e-07\n");
  ASSERT_EQ(old->results.size(), 2U);
  EXPECT_EQ(old->results[0].wrong, std::nullopt);
  EXPECT_DOUBLE_EQ(old->results[1].time_us, 27.73);

  const auto timed =
      read(head(2, "# size count type redop root cputime algbw busbw #wrong cputime algbw busbw #wrong timestamp\n") +
           " 1024 256 half none 0  1.2e+07 0.50 0.40 N/A  30.0 0.60 0.50 N/A  2026-05-05 10:00:07\n");
  ASSERT_EQ(timed->results.size(), 2U);
  EXPECT_EQ(timed->results[0].timestamp_ns, 1'777'975'207'000'000'000);
  EXPECT_EQ(timed->results[0].root, 0);
  EXPECT_DOUBLE_EQ(timed->results[0].time_us, 1.2e7);
  EXPECT_EQ(timed->results[0].wrong, std::nullopt);

  const auto iterations = read(head(2,
                                    "# size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% time "
                                    "algbw busbw #wrong i_min i_max i_p99 i_cv%\n") +
                               "1024 256 float sum -1 10 1 2 0 9 11 11 5.0 20 3 4 7 19 21 21 5.0\n");
  ASSERT_EQ(iterations->results.size(), 2U);
  EXPECT_DOUBLE_EQ(iterations->results[1].busbw_gbs, 4);
  EXPECT_EQ(iterations->results[1].wrong, 7);

  const auto in_place_only = read(head() + "        1024           256     float     sum      -1" +
                                  std::string(32, ' ') + "    12.00    1.00    2.00       0\n");
  ASSERT_EQ(in_place_only->results.size(), 1U);
  EXPECT_TRUE(in_place_only->results[0].in_place);
}

TEST(NcclTests, EveryHeaderIsARun) {
  const auto got = read(head(2) + row(8, 12) + kEnd + "+ mpirun -np 4 /opt/nccl-tests/build/all_gather_perf -b 8\n" +
                        "# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor)\n" +
                        head(4).substr(head(4).find("# Using")) + row(8, 12) + row(16, 12));
  ASSERT_EQ(got->runs.size(), 2U);
  EXPECT_EQ(got->runs[0].test, "all_reduce_perf");
  EXPECT_EQ(got->runs[1].test, "all_gather_perf");
  EXPECT_EQ(got->runs[1].nranks, 4);
  EXPECT_EQ(got->runs[1].most_bytes, 1024);
  EXPECT_FALSE(got->runs[1].ended);
  EXPECT_EQ(got->results.back().run, 2);
}

TEST(NcclTests, FailuresAreKept) {
  const auto got = read(head() + row(8, 12) +
                        "node1: Test NCCL failure common.cu:958 'remote process exited or there was a network error / "
                        "socketProgress'\n .. node1 pid 6900: Test failure common.cu:1056\n");
  EXPECT_TRUE(got->runs[0].failed);
  EXPECT_TRUE(got->runs[0].problem.starts_with("Test NCCL failure common.cu:958")) << got->runs[0].problem;
  EXPECT_TRUE(read(head() + row(8, 12) + "# Out of bounds values : 4 FAILED\n")->runs[0].failed);
}

TEST(NcclTests, DamageIsReportedAndCounted) {
  const std::string whole = row(1024, 12);
  const auto got = read(head() + row(8, 12) + whole.substr(0, 80) + "\n" + row(2048, 13) +
                        "4096 1024 float sum -1 nan inf -1 0 1 1 1 0\n" + "8192 99999999999999999999 float sum\n" +
                        std::string(10 << 20, '9') + "\n" + std::string(1 << 20, ' ') + "8 2 float\n" +
                        "\xff\xfe\0\x1b[" + "\n" + row(4096, 14) + whole.substr(0, 60));
  std::vector<int64_t> sizes;
  for (const BenchmarkResult& result : got->results) {
    sizes.push_back(result.bytes);
  }
  EXPECT_EQ(sizes, (std::vector<int64_t>{8, 8, 2048, 2048, 4096, 4096}));
  ASSERT_EQ(got->notes.size(), 1U);
  golden::expect_text(got->notes[0].substr(got->notes[0].find("out.log")));
  const std::vector<Loss> losses = got->source.losses().value();
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_EQ(losses[0].source, "benchmark:damaged_rows");
  EXPECT_EQ(losses[0].count, 3U);
}

TEST(NcclTests, ALogWithATableIsBoth) {
  EvidenceFolder folder;
  const std::string path = folder.write("out.log", set_up_lines(0) + call_line(0, 1) + head() + row(8, 12));
  EXPECT_EQ(detect(path).value(), (std::vector{Format::kNcclLog, Format::kNcclTests}));
  EXPECT_EQ(detect(folder.write("a.log", row(8, 12) + row(16, 12))).value(), std::vector{Format::kUnknown});
  EXPECT_EQ(detect(folder.write("b.log", "# size count type of things\n")).value(), std::vector{Format::kUnknown});
}

std::string json_report() {
  const std::string result =
      R"({"size":1024,"count":256,"type":"float","redop":"sum","root":"    -1","out_of_place":{"time":12.500000,)"
      R"("alg_bw":0.081920,"bus_bw":0.143360,"nwrong":0.000000},"in_place":{"time":12.250000,"alg_bw":0.083592,)"
      R"("bus_bw":0.146286,"nwrong":3.000000},"actual_iterations":20,"experiment_name":""})";
  return R"({"version":1,"start_time":"2026-05-05 10:00:00","args":["\/opt\/build\/all_reduce_perf","-b","8"],)"
         R"("env":["HOME=\/root"],"nccl_version":22809,"config":{"nthreads":1,"ngpus":1,"minimum_bytes":8,)"
         R"("maximum_bytes":134217728,"devices":[{"rank":0,"group":0,"pid":1,"hostname":"node0"},{"rank":1,"group":0,)"
         R"("pid":2,"hostname":"node1"}]},"results":[)" +
         result + "," + result +
         R"(],"out_of_bounds":{"count":2,"okay":false},"average_bus_bandwidth":{"bandwidth":0.14,"okay":"unchecked"},)"
         R"("errors":[""],"end_time":"2026-05-05 10:00:09"})";
}

TEST(NcclTests, JsonOfTheOptionJ) {
  EvidenceFolder folder;
  EXPECT_EQ(detect(folder.write("a.json", json_report())).value(), std::vector{Format::kNcclTests});
  const auto got = read(json_report());
  ASSERT_EQ(got->runs.size(), 1U);
  EXPECT_EQ(got->runs[0].test, "all_reduce_perf");
  EXPECT_EQ(got->runs[0].nranks, 2);
  EXPECT_EQ(got->runs[0].hosts, "node0 node1");
  EXPECT_EQ(got->runs[0].started_ns, 1'777'975'200'000'000'000);
  EXPECT_TRUE(got->runs[0].ended);
  EXPECT_TRUE(got->runs[0].failed);
  ASSERT_EQ(got->results.size(), 4U);
  EXPECT_EQ(got->results[1].wrong, 3);
  EXPECT_DOUBLE_EQ(got->results[1].busbw_gbs, 0.146286);
  EXPECT_EQ(got->results[1].root, std::nullopt);
}

TEST(NcclTests, JsonThatWasCutKeepsItsWholeResults) {
  const std::string whole = json_report();
  const auto got = read(whole.substr(0, whole.find("],\"out_of_bounds\"") - 20));
  EXPECT_EQ(got->results.size(), 2U);
  EXPECT_FALSE(got->runs.at(0).ended);
  ASSERT_EQ(got->notes.size(), 1U);
  EXPECT_NE(got->notes[0].find("offset "), std::string::npos);
  EXPECT_EQ(got->source.losses().value().at(0).count, 1U);
  EvidenceFolder folder;
  const std::vector<std::string> paths{folder.write("a.json", whole.substr(0, whole.find("\"devices\"") + 30))};
  MemorySource source;
  EXPECT_FALSE(import_nccl_tests(paths, source, [](const std::string&) {}));
}

TEST(NcclTests, NamesOfTests) {
  EXPECT_EQ(test_name_in("mpirun -np 2 ./build/reduce_scatter_perf -b 8"), "reduce_scatter_perf");
  EXPECT_EQ(test_name_in("alltoallv_perf_mpi"), "alltoallv_perf");
  EXPECT_EQ(test_name_in("my_all_reduce_perf"), "");
  EXPECT_EQ(test_name_in("linux_perf record"), "");
}

}  // namespace
}  // namespace stalltrace::import
