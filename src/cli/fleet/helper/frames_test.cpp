// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/helper/frames.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <thread>

#include "base/clock.h"
#include "cli/fleet/helper/testing/sockets.h"

namespace stalltrace::cli {
namespace {

using Got = FrameReader::Got;

constexpr int64_t kAtLastNs = 10 * kNsPerSecond;

TEST(Frames, ComeAsTheyWereSent) {
  const Sockets sockets;
  const std::array<std::string, 3> texts{"two words", "", std::string(kLongestFrame, 'x')};
  std::jthread sender([&] {
    for (const std::string& text : texts) {
      EXPECT_TRUE(send_frame(sockets.server.get(), text));
    }
  });
  FrameReader reader;
  for (const std::string& text : texts) {
    std::string frame = "left over";
    ASSERT_EQ(reader.next(sockets.helper.get(), kAtLastNs, frame), Got::kFrame);
    EXPECT_EQ(frame, text);
  }
}

TEST(Frames, APartIsKeptWhenTheTimeIsOver) {
  const Sockets sockets;
  std::string bytes;
  append_frame(bytes, "words");
  FrameReader reader;
  std::string frame;
  for (const char byte : bytes) {
    ASSERT_EQ(reader.next(sockets.helper.get(), 0, frame), Got::kLate);
    ASSERT_EQ(::send(sockets.server.get(), &byte, 1, MSG_NOSIGNAL), 1);
  }
  EXPECT_EQ(reader.next(sockets.helper.get(), 0, frame), Got::kFrame);
  EXPECT_EQ(frame, "words");
}

TEST(Frames, WhatIsTooLongOrCutOffIsTheEnd) {
  for (const bool cut : {true, false}) {
    Sockets sockets;
    const auto size = static_cast<uint32_t>(cut ? 2 : kLongestFrame + 1);
    ASSERT_EQ(::send(sockets.server.get(), &size, sizeof size, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof size));
    if (cut) {
      sockets.server.reset();
    }
    std::string frame;
    EXPECT_EQ(FrameReader().next(sockets.helper.get(), kAtLastNs, frame), Got::kGone) << cut;
  }
}

TEST(Frames, AReaderThatIsGoneIsNoSignal) {
  Sockets sockets;
  sockets.helper.reset();
  EXPECT_FALSE(send_frame(sockets.server.get(), "x"));
}

}  // namespace
}  // namespace stalltrace::cli
