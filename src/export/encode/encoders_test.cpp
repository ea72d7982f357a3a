// SPDX-License-Identifier: Apache-2.0
// The bytes of both formats, against bytes written by hand from their specifications.
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "export/encode/chrome_encoder.h"
#include "export/encode/perfetto_encoder.h"
#include "export/encode/protobuf.h"
#include "export/encode/shown_text.h"
#include "export/testing/decoded_trace.h"

namespace stalltrace::trace_export {
namespace {

using namespace std::string_literals;

constexpr int64_t kZero = 1'000;

ByteSink into(std::string& out) {
  return [&out](std::string_view bytes) {
    out += bytes;
    return Status();
  };
}

TEST(Protobuf, FieldsAreTheFormatsOwn) {
  ProtoMessage message;
  message.varint(1, 150);  // the example of the specification
  message.integer(2, -1);
  message.fixed64(3, 0x0102030405060708);
  message.real(4, 1.0);
  message.bytes(5, "ab\0"s);
  EXPECT_EQ(message.content(),
            "\x08\x96\x01"
            "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
            "\x19\x08\x07\x06\x05\x04\x03\x02\x01"
            "\x21\0\0\0\0\0\0\xf0\x3f"
            "\x2a\x03"
            "ab\0"s);
}

TEST(Perfetto, ATraceByHand) {
  std::string out;
  const auto encoder = make_perfetto_encoder(into(out), {.compress = false});
  encoder->begin(kZero);
  encoder->track({.id = 1, .kind = TrackKind::kProcess, .name = "P", .pid = 7});
  const Annotation bytes{"n", int64_t{5}};
  const FlowId flow = 2;
  encoder->slice({.track = 1,
                  .category = "c",
                  .name = "S",
                  .begin_ns = kZero + 3,
                  .end_ns = kZero + 4,
                  .annotations = {&bytes, 1},
                  .flows_in = {&flow, 1}});
  encoder->counter(1, kZero - 1, int64_t{9});
  ASSERT_TRUE(encoder->finish());
  EXPECT_EQ(out,
            // sequence 1, state cleared, first packet, defaults {clock 64}
            "\x0a\x0d\x50\x01\x68\x01\xb8\x05\x01\xda\x03\x03\xd0\x03\x40"
            // sequence 1, snapshot {clock 64 is 0, UTC is 1000, UTC is the primary clock}
            "\x0a\x13\x50\x01\x32\x0f\x0a\x04\x08\x40\x10\x00\x0a\x05\x08\x01\x10\xe8\x07\x10\x01"
            // sequence 1, track {uuid 1, process {pid 7, name P}, explicit order, order 0}
            "\x0a\x12\x50\x01\xe2\x03\x0d\x08\x01\x1a\x05\x08\x07\x32\x01P\x58\x03\x60\x00"
            // time 3, sequence 1, needs state, interned {n, c, S}, begin on track 1 with n = 5, flow 2 ends
            "\x0a\x37\x40\x03\x50\x01\x68\x02"
            "\x62\x15\x0a\x05\x08\x01\x12\x01"
            "c\x12\x05\x08\x01\x12\x01S\x1a\x05\x08\x01\x12\x01n"
            "\x5a\x18\x48\x01\x58\x01\x18\x01\x50\x01\x22\x04\x08\x01\x20\x05\x81\x03\x02\0\0\0\0\0\0\0"
            // time 4, end on track 1
            "\x0a\x0c\x40\x04\x50\x01\x68\x02\x5a\x04\x48\x02\x58\x01"
            // before zero: UTC 999; a counter value of 9
            "\x0a\x13\x40\xe7\x07\xd0\x03\x01\x50\x01\x68\x02\x5a\x07\x48\x04\x58\x01\xf0\x01\x09"s);
}

TEST(Perfetto, BundlesHoldTheSamePackets) {
  std::string plain;
  std::string packed;
  for (const bool compress : {false, true}) {
    const auto encoder = make_perfetto_encoder(into(compress ? packed : plain), {.compress = compress});
    encoder->begin(kZero);
    encoder->track({.id = 1, .kind = TrackKind::kProcess, .name = "P", .pid = 7});
    for (int64_t i = 0; i < 20'000; ++i) {
      encoder->slice({.track = 1, .category = "c", .name = "S", .begin_ns = kZero + i, .end_ns = kZero + i + 1});
    }
    ASSERT_TRUE(encoder->finish());
  }
  EXPECT_LT(packed.size() * 3, plain.size());
  const DecodedTrace one(plain);
  const DecodedTrace other(packed);
  EXPECT_TRUE(one.problems.empty() && other.problems.empty());
  ASSERT_EQ(one.slices.size(), 20'000U);
  ASSERT_EQ(other.slices.size(), 20'000U);
  EXPECT_EQ(one.slices.back().end_ns, other.slices.back().end_ns);
}

TEST(Perfetto, TextsBeyondTheTableOfInternedOnesAreWrittenInFull) {
  std::string out;
  const auto encoder = make_perfetto_encoder(into(out));
  encoder->begin(0);
  encoder->track({.id = 1, .kind = TrackKind::kProcess, .name = "P", .pid = 7});
  constexpr int kNames = 70'000;
  for (int i = 0; i < kNames; ++i) {
    const std::string name = "name " + std::to_string(i);
    const Annotation text{"t", std::string_view(name)};
    encoder->instant({.track = 1, .category = "c", .name = name, .time_ns = i, .annotations = {&text, 1}});
  }
  ASSERT_TRUE(encoder->finish());
  const DecodedTrace trace(out);
  EXPECT_TRUE(trace.problems.empty());
  ASSERT_EQ(trace.instants.size(), static_cast<size_t>(kNames));
  EXPECT_EQ(trace.instants.back().name, "name 69999");
  EXPECT_EQ(trace.instants.back().notes.at("t"), "name 69999");
}

TEST(ShownText, IsValidAndPrintable) {
  EXPECT_EQ(shown_text("rank 3 · node\n\"x\"\\"), "rank 3 · node\n\"x\"\\");
  EXPECT_EQ(shown_text("a\0b\x1b[31m\r\xff\xc3"s), "a?b?[31m???");
  EXPECT_EQ(shown_text("\xe2\x80\xaegnp.exe"), "?gnp.exe");  // reverses the direction of text
  const std::string cut = shown_text(std::string(kLongestText - 5, 'a') + "\u20ac\u20ac\u20ac");
  EXPECT_LE(cut.size(), kLongestText);
  EXPECT_TRUE(cut.ends_with("a ..."));
}

class Chrome : public testing::Test {
 protected:
  nlohmann::json finished() {
    EXPECT_TRUE(encoder_->finish());
    return nlohmann::json::parse(out_);  // throws what is not JSON
  }
  std::string out_;
  std::unique_ptr<TraceEncoder> encoder_ = make_chrome_encoder(into(out_));
};

TEST_F(Chrome, ATraceWithoutEventsIsValid) {
  encoder_->begin(kZero);
  EXPECT_TRUE(finished()["traceEvents"].empty());
}

TEST_F(Chrome, TracksAreThreadsNamedByTheirPath) {
  encoder_->begin(kZero);
  encoder_->track({.id = 1, .kind = TrackKind::kProcess, .name = "P", .pid = 7});
  encoder_->track({.id = 2, .parent = 1, .kind = TrackKind::kFolder, .name = "folder"});
  encoder_->track({.id = 3, .parent = 2, .name = "sends"});
  encoder_->track({.id = 4, .parent = 2, .kind = TrackKind::kCounter, .name = "window", .unit = "packets"});
  const FlowId flow = 9;
  const Annotation notes[] = {{"text", std::string_view("a\"\\\n\x01\xff")},
                              {"hex", Hex{0xabc}},
                              {"real", std::numeric_limits<double>::infinity()},
                              {"big", std::numeric_limits<uint64_t>::max()},
                              {"yes", true}};
  encoder_->slice({.track = 3,
                   .category = "c",
                   .name = "S",
                   .begin_ns = kZero + 1'234'567,
                   .end_ns = kZero + 1'234'568,
                   .annotations = notes,
                   .flows_out = {&flow, 1}});
  encoder_->slice({.track = 3, .category = "c", .name = "open", .begin_ns = kZero - 1, .flows_in = {&flow, 1}});
  encoder_->counter(4, kZero, int64_t{-5});
  encoder_->counter(4, kZero, 0.5);
  const nlohmann::json trace = finished();
  EXPECT_EQ(trace["otherData"]["zero_utc_ns"], "1000");
  const nlohmann::json& events = trace["traceEvents"];
  ASSERT_EQ(events.size(), 10U);
  EXPECT_EQ(events[2]["args"]["name"], "folder: sends");
  EXPECT_EQ(events[2]["pid"], 7);
  const nlohmann::json& slice = events[4];
  EXPECT_EQ(slice["ph"], "X");
  EXPECT_EQ(slice["args"]["text"], "a\"\\\n??");
  EXPECT_EQ(slice["args"]["hex"], "0xabc");
  EXPECT_TRUE(slice["args"]["real"].is_null());
  EXPECT_EQ(slice["args"]["big"], std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(slice["args"]["yes"], true);
  EXPECT_NE(out_.find("\"ts\":1234.567,\"dur\":0.001"), std::string::npos);
  EXPECT_EQ(events[5]["ph"], "s");
  EXPECT_EQ(events[5]["id"], 9);
  EXPECT_EQ(events[6]["ph"], "B");
  EXPECT_NE(out_.find("\"ts\":-0.001"), std::string::npos);
  EXPECT_EQ(events[7]["ph"], "f");
  EXPECT_EQ(events[7]["bp"], "e");
  EXPECT_EQ(events[8]["args"]["packets"], -5);
  EXPECT_EQ(events[9]["args"]["packets"], 0.5);
}

TEST(Encoders, KeepTheFirstErrorOfTheirSink) {
  for (const bool chrome : {false, true}) {
    int calls = 0;
    const ByteSink full = [&calls](std::string_view) -> Status { return fail("no space " + std::to_string(++calls)); };
    const auto encoder = chrome ? make_chrome_encoder(full) : make_perfetto_encoder(full);
    encoder->begin(0);
    encoder->track({.id = 1, .kind = TrackKind::kProcess, .name = "P", .pid = 7});
    for (int64_t i = 0; i < 50'000; ++i) {
      encoder->instant({.track = 1, .category = "c", .name = "S", .time_ns = i});
    }
    EXPECT_FALSE(encoder->status());
    const Status status = encoder->finish();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().what, "no space 1");
    EXPECT_EQ(calls, 1);
  }
}

}  // namespace
}  // namespace stalltrace::trace_export
