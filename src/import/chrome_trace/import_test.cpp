// SPDX-License-Identifier: Apache-2.0
// Traces in the formats of Kineto (output_json.cpp there) and of PyTorch's own exporter; none is a copy of another
// project's file.
#include <gtest/gtest.h>
#include <zlib.h>

#include <memory>

#include "import/chrome_trace/coverage.h"
#include "import/chrome_trace/json_stream.h"
#include "import/chrome_trace/trace.h"
#include "import/testing/evidence_files.h"
#include "model/events/imported_evidence.h"
#include "tests/support/golden_text.h"

namespace stalltrace::import {
namespace {

std::string event(std::string_view category, std::string_view name, double ts_us, double dur_us,
                  std::string_view args = "", int tid = 7) {
  return fmt::format(
      R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 0, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}}}},)",
      category, name, tid, ts_us, dur_us, args);
}

std::string all_reduce(double ts_us, double dur_us, int64_t elements) {
  return event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", ts_us, dur_us,
               fmt::format(R"("stream": 20, "Collective name": "allreduce", "In msg nelems": {}, "dtype": "Float", )"
                           R"("Process Group Name": "0", "Process Group Description": "default_pg")",
                           elements));
}

/// Two steps of 1 ms on a GPU; in each 600 us of kernels, and two buckets: one hidden, one exposed for 200 us.
std::string kineto(std::string_view more = "") {
  std::string text =
      R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 \"80\" [}", "numSms": 132}],
    "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8, "pg_count": 1, "pg_config": [{"pg_name": "0", "ranks": [0]}]},
    "baseTimeNanoseconds": 1777975200000000000, "traceEvents": [)";
  text += R"({"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}},)";
  for (int step = 0; step < 2; ++step) {
    const double at = 1000 + 1000.0 * step;
    text += event("user_annotation", fmt::format("ProfilerStep#{}", 10 + step), at - 300, 1000);
    text += event("gpu_user_annotation", fmt::format("ProfilerStep#{}", 10 + step), at, 1000);
    text += event("cpu_op", "aten::linear", at, 900);
    text += event("kernel", "sm90_gemm", at + 100.25, 400);
    text += event("kernel", "elementwise", at + 500.25, 200);
    text += event("gpu_memcpy", "Memcpy HtoD", at, 100.25);
    text += all_reduce(at + 300, 200, 1'000'000);
    text += all_reduce(at + 600.25, 300, 250'000);
  }
  return text + std::string(more) + R"({"ph": "i", "name": "end", "ts": 1}], "traceName": "x.json"})";
}

std::string compressed(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(text.size() + 1024, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

struct Read {
  MemorySource source;
  std::vector<std::string> notes;
  Status status;
  std::vector<TraceStep> steps;
  TraceProfile profile;
  std::vector<TraceCollective> collectives;
};

std::unique_ptr<Read> read(const std::string& text, const std::string& name = "trace.json") {
  EvidenceFolder folder;
  auto out = std::make_unique<Read>();
  const std::vector<std::string> paths{folder.write(name, text)};
  const auto summary =
      import_chrome_traces(paths, out->source, [&](std::string note) { out->notes.push_back(std::move(note)); });
  out->status = summary ? Status() : Status(std::unexpected(summary.error()));
  EXPECT_TRUE(out->source.trace_steps({}, [&](const TraceStep& row) { out->steps.push_back(row); }));
  const auto profiles = out->source.trace_profiles().value();
  out->profile = profiles.empty() ? TraceProfile() : profiles[0];
  out->collectives = out->source.trace_collectives().value();
  return out;
}

TEST(ChromeTrace, TimesOfKernelsAreUnionsOfIntervals) {
  const auto got = read(kineto());
  ASSERT_TRUE(got->status) << got->status.error().what;
  const TraceProfile& all = got->profile;
  EXPECT_EQ(all.rank, 3);
  EXPECT_EQ(all.world_size, 8);
  EXPECT_EQ(all.backend, "nccl");
  EXPECT_TRUE(all.on_device);
  EXPECT_EQ(all.started_ns, 1'777'975'200'001'000'000);
  EXPECT_EQ(all.duration_ns, 2'000'000);
  EXPECT_EQ(all.compute_ns, 1'200'000);
  EXPECT_EQ(all.communication_ns, 1'000'000);
  EXPECT_EQ(all.overlap_ns, 600'000);  // 200 of the first bucket, 100 of the second
  EXPECT_EQ(all.copy_ns, 200'500);
  EXPECT_EQ(all.idle_ns, 2'000'000 - 2 * 900'250);
  ASSERT_EQ(got->steps.size(), 2U);
  EXPECT_EQ(got->steps[1].step, 11);
  EXPECT_EQ(got->steps[1].timestamp_ns - got->steps[0].timestamp_ns, 1'000'000);
  EXPECT_EQ(got->steps[1].overlap_ns, 300'000);
  EXPECT_EQ(got->steps[1].idle_ns, 99'750);
  const Node node = got->source.nodes().value().at(0);
  EXPECT_TRUE(lacks(node, kLacksDurations) && lacks(node, kLacksCalls) && !lacks(node, kLacksTimes));
  EXPECT_TRUE(got->notes.empty());
}

TEST(ChromeTrace, CallsOfOneSizeAreABucket) {
  const auto got = read(kineto());
  ASSERT_EQ(got->collectives.size(), 2U);
  const TraceCollective& last = got->collectives[1];
  EXPECT_EQ(last.op, "all_reduce");
  EXPECT_EQ(last.process_group, "default_pg");
  EXPECT_EQ(last.datatype, "Float");
  EXPECT_EQ(last.elements, 250'000);
  EXPECT_EQ(last.ordinal, std::nullopt);
  EXPECT_EQ(last.calls, 2);
  EXPECT_EQ(last.total_ns, 600'000);
  EXPECT_EQ(last.exposed_ns, 400'000);
  EXPECT_EQ(got->collectives[0].exposed_ns, 0);
}

/// PyTorch without Kineto writes an array, without categories and ranks, and times from its own start.
std::string legacy(int64_t late_us) {
  std::string text = "[";
  for (int step = 0; step < 3; ++step) {
    const int at = 50'000 * step;
    const auto one = [&](std::string_view name, int64_t ts, int64_t dur, int tid) {
      text += fmt::format(
          R"({{"name": "{}", "ph": "X", "ts": {}, "dur": {}, "tid": {}, "pid": "CPU functions", "args": {{}}}}, )",
          name, at + ts, dur, tid);
    };
    one(fmt::format("ProfilerStep#{}", step), 0, 50'000, 1);
    one("aten::linear", late_us, 10'000, 1);
    one("aten::addmm", late_us + 10, 9'000, 1);
    one("c10d::allreduce_", late_us + 9'000, 30, 1);
    one("gloo:all_reduce", late_us + 9'000, 45'000 - late_us - 9'000, 2);
    one("gloo:all_reduce", 45'500, 4'000, 3);
  }
  return text + R"({"name": "__start_profile", "ph": "X", "ts": 0, "dur": 0, "tid": 1, "pid": "CPU functions"}])";
}

TEST(ChromeTrace, OnTheCpuGloosOperationsAreTheCommunication) {
  const auto got = read(legacy(0), "rank_1.json");
  ASSERT_TRUE(got->status) << got->status.error().what;
  const TraceProfile& all = got->profile;
  EXPECT_EQ(all.rank, 1);
  EXPECT_FALSE(all.on_device);
  EXPECT_EQ(all.compute_ns, 30'000'000);
  EXPECT_EQ(all.communication_ns, 120'000'000);
  EXPECT_EQ(all.overlap_ns, 3'000'000);
  EXPECT_EQ(all.steps, 3);
  ASSERT_EQ(got->collectives.size(), 2U);
  EXPECT_EQ(got->collectives[1].ordinal, 2);
  EXPECT_EQ(got->collectives[1].total_ns, 12'000'000);
  EXPECT_TRUE(lacks(got->source.nodes().value().at(0), kLacksTimes));
}

TEST(ChromeTrace, CompressedIsTheSame) {
  const std::string text = kineto();
  const auto plain = read(text);
  const auto packed = read(compressed(text.substr(0, 2000)) + compressed(text.substr(2000)), "trace.json.gz");
  EXPECT_EQ(packed->profile.overlap_ns, plain->profile.overlap_ns);
  EXPECT_TRUE(packed->notes.empty());
  EvidenceFolder folder;
  EXPECT_EQ(detect(folder.write("a", compressed(text))).value(), std::vector{Format::kChromeTrace});
  EXPECT_EQ(detect(folder.write("b", compressed("NCCL"))).value(), std::vector{Format::kUnknown});
}

TEST(ChromeTrace, Detection) {
  EvidenceFolder folder;
  for (const std::string& text : {kineto(), legacy(0), std::string(R"({"traceEvents":[]})")}) {
    EXPECT_EQ(detect(folder.write("a.json", text)).value(), std::vector{Format::kChromeTrace});
  }
  for (const std::string_view text : {R"({"entries": [], "ph": 1})", R"(["ph", "ts", "name"])", "[", "{}"}) {
    EXPECT_NE(detect(folder.write("a.json", text)).value(), std::vector{Format::kChromeTrace}) << text;
  }
}

TEST(ChromeTrace, WhatIsBeforeDamageIsKept) {
  const std::string text = kineto();
  const auto cut = read(text.substr(0, text.rfind("250000")));
  ASSERT_TRUE(cut->status);
  EXPECT_EQ(cut->profile.communication_ns, 700'000);
  ASSERT_EQ(cut->notes.size(), 1U);
  EXPECT_NE(cut->notes[0].find("offset "), std::string::npos) << cut->notes[0];
  EXPECT_EQ(cut->source.losses().value().at(0).source, "trace:damaged_file");
  const std::string packed = compressed(text);
  const auto cut_packed = read(packed.substr(0, packed.size() - 20));
  ASSERT_TRUE(cut_packed->status);
  golden::expect_text(cut_packed->notes.at(0).substr(cut_packed->notes.at(0).find("trace.json")));
}

TEST(ChromeTrace, EventsWithoutTimesAreCounted) {
  const std::string odd =
      R"({"ph": "X", "cat": "kernel", "name": "k", "ts": NaN, "dur": 3},)"
      R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 5, "dur": -3},)"
      R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 99999999999999999999, "dur": 3},)"
      R"({"ph": "X", "cat": "kernel", "name": "k"},)"
      R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 1.5e3, "dur": 2, "args": {"a": [{"b": "}"}]}},)";
  const auto got = read(kineto(odd));
  ASSERT_TRUE(got->status);
  EXPECT_EQ(got->profile.kernels, 9);
  const Loss loss = got->source.losses().value().at(0);
  EXPECT_EQ(loss.source, "trace:damaged_events");
  EXPECT_EQ(loss.count, 4U);
}

TEST(ChromeTrace, OthersTracesAreRefused) {
  for (const std::string_view text : {R"({"traceEvents": [{"ph": "X", "name": "x", "cat": "y", "ts": 1, "dur": 2}]})",
                                      R"({"traceEvents": 5})", R"({"traceEvents": [)"}) {
    EXPECT_FALSE(read(std::string(text))->status) << text;
  }
}

TEST(ChromeTrace, NamesOfCollectives) {
  EXPECT_EQ(collective_name("ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclDevComm*)"), "reduce_scatter");
  EXPECT_EQ(collective_name("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"), "send_recv");
  EXPECT_EQ(collective_name("_allgather_base"), "all_gather");
  EXPECT_EQ(collective_name("gloo:broadcast"), "broadcast");
  EXPECT_EQ(collective_name("ncclDevKernel_Generic(ncclDevKernelArgs)"), "ncclDevKernel_Generic");
}

TEST(JsonStream, TokensOfAnything) {
  EvidenceFolder folder;
  const auto tokens = [&](std::string_view text) {
    JsonStream json(ByteStream::open(folder.write("a", text)).value());
    std::string out;
    while (true) {
      const JsonStream::Token token = json.next();
      if (token == JsonStream::Token::kEnd || token == JsonStream::Token::kBroken) {
        return out + (token == JsonStream::Token::kEnd ? "." : "!");
      }
      out += std::string_view("{}[]kt0")[static_cast<size_t>(token)];
      out += json.text();
    }
  };
  EXPECT_EQ(tokens(R"({"a": [1, "b\"\u00e9\n", {}], "c": null,} x)"), R"({ka[01tb"? {}]kc0null}.)");
  EXPECT_EQ(tokens("[1,2"), "[0102!");
  EXPECT_EQ(tokens("{\"a\" 1}"), "{!");
  EXPECT_EQ(tokens("[1}"), "[01!");
  EXPECT_EQ(tokens("\"" + std::string(5000, 'x')), "!");
  EXPECT_EQ(tokens(std::string(1000, '[')), std::string(256, '[') + "!");
  EXPECT_EQ(tokens(""), "!");
}

TEST(Coverage, OfAnyTime) {
  const Coverage one({{0, 10}, {5, 20}, {30, 40}, {40, 41}});
  EXPECT_EQ(one.covered_ns(0, 100), 31);
  EXPECT_EQ(one.covered_ns(8, 35), 17);
  EXPECT_EQ(one.covered_ns(20, 30), 0);
  EXPECT_EQ(one.covered_ns(30, 20), 0);
  const Coverage two({{15, 35}});
  EXPECT_EQ(one.both(two).covered_ns(0, 100), 10);
  EXPECT_EQ(one.either(two).covered_ns(0, 100), 41);
}

}  // namespace
}  // namespace stalltrace::import
