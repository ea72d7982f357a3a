// SPDX-License-Identifier: Apache-2.0
#include "serve/rows/rows_request.h"

#include <gmock/gmock.h>

#include "serve/rows/row_frames.h"

namespace stalltrace::serve {
namespace {

TEST(RowsRequest, ComesBackAsItWas) {
  RowsRequest request;
  request.reads = {{.table = "collective", .range = {}, .narrow = false, .after = {5, 1LL << 62}},
                   {.table = "tcp_sample", .range = {-5, 1'800'000'000'000'000'000}, .narrow = true}};
  request.windows = {{10, 20}, {30, 40}};
  request.shifts_ns = {{7, -3}};
  const auto parsed = parse_rows_request(to_json(request));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().what;
  ASSERT_EQ(parsed->reads.size(), 2U);
  EXPECT_EQ(parsed->reads[0].range, TimeRange());
  EXPECT_EQ(parsed->reads[0].after, request.reads[0].after);
  EXPECT_EQ(parsed->reads[1].table, "tcp_sample");
  EXPECT_EQ(parsed->reads[1].range, request.reads[1].range);
  EXPECT_TRUE(parsed->reads[1].narrow);
  EXPECT_EQ(parsed->windows, request.windows);
  EXPECT_EQ(parsed->shifts_ns, request.shifts_ns);
}

TEST(RowsRequest, OthersAreRefused) {
  for (const std::string_view text :
       {"",
        "[]",
        "{}",
        R"({"reads":[]})",
        R"({"reads":[{}]})",
        R"({"reads":[{"table":"sqlite_schema"}]})",
        R"({"reads":[{"table":"node; DROP TABLE node"}]})",
        R"({"reads":[{"table":"node"}],"windows":[[1]]})",
        R"({"reads":[{"table":"node"}],"windows":[[2,1]]})",
        R"({"reads":[{"table":"node"}],"clocks":[[-1,1]]})",
        R"({"reads":[{"table":"node"}],"clocks":[[1,9223372036854775807]]})",
        R"({"reads":[{"table":"node"},{"table":"process"},{"table":"node","from_ns":5}]})",
        R"({"reads":[{"table":"node","form_ns":5}]})",
        R"({"reads":[{"table":"node"}],"window":[[1,2]]})",
        R"({"reads":[{"table":"node","from_ns":"5"}]})",
        R"({"reads":[{"table":"node","narrow":1}]})",
        R"({"reads":[{"table":"node","after":[5]}]})",
        R"({"reads":[{"table":"tcp_sample","after":[5]}]})",
        R"({"reads":[{"table":"collective","after":5}]})",
        R"({"reads":[{"table":"collective","after":["5"]}]})",
        R"({"reads":[{"table":"collective","after":[-5]}]})",
        R"({"reads":["node"]})"}) {
    const auto parsed = parse_rows_request(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::kUsage);
  }
}

TEST(RowsRequest, WindowsAreJoinedUntilTheyAreFew) {
  EXPECT_THAT(joined_windows({{30, 40}, {10, 20}, {15, 25}}),
              testing::ElementsAre(TimeRange{10, 25}, TimeRange{30, 40}));
  std::vector<TimeRange> many;
  for (int64_t i = 0; i < 10'000; ++i) {
    many.push_back({i * 100 + (i % 10 == 0 ? 50 : 0), i * 100 + 60});
  }
  const std::vector<TimeRange> joined = joined_windows(many);
  EXPECT_LE(joined.size(), kMostWindows);
  for (const TimeRange& window : many) {
    EXPECT_TRUE(std::ranges::any_of(
        joined, [&](const TimeRange& one) { return one.from_ns <= window.from_ns && one.to_ns >= window.to_ns; }));
  }
}

TEST(RowFrames, AreCutFromAnyPieces) {
  const std::string header = frame_of_header(3, "columns");
  const std::string stream = frame_head(FrameKind::kHeader, header.size()) + header + frame_head(FrameKind::kBlock, 0) +
                             frame_head(FrameKind::kEnd, 2) + "{}";
  FrameReader reader;
  std::vector<std::pair<FrameKind, std::string>> frames;
  for (const char& byte : stream) {
    EXPECT_TRUE(reader.add({&byte, 1}, [&](FrameKind kind, std::string_view content) {
      frames.emplace_back(kind, content);
      return Status();
    }));
  }
  EXPECT_TRUE(reader.at_end());
  using Frame = std::pair<FrameKind, std::string>;
  EXPECT_THAT(frames, testing::ElementsAre(Frame(FrameKind::kHeader, header), Frame(FrameKind::kBlock, ""),
                                           Frame(FrameKind::kEnd, "{}")));
  std::string_view content = frames[0].second;
  EXPECT_EQ(take_read_number(content), 3U);
  EXPECT_EQ(content, "columns");
}

TEST(RowFrames, OtherBytesAndLargeFramesAreRefused) {
  const auto take = [](FrameKind, std::string_view) { return Status(); };
  EXPECT_FALSE(FrameReader().add("<html>", take).has_value());
  EXPECT_FALSE(FrameReader().add(frame_head(FrameKind::kBlock, size_t{64} << 20), take).has_value());
}

}  // namespace
}  // namespace stalltrace::serve
