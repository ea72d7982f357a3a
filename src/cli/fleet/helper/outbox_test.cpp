// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/helper/outbox.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/clock.h"
#include "cli/fleet/helper/answer_lines.h"
#include "cli/fleet/helper/frames.h"
#include "cli/fleet/helper/testing/sockets.h"

namespace stalltrace::cli {
namespace {

/// All that has come until the end of the answer.
std::string received_text(int socket) {
  FrameReader reader;
  std::string text;
  for (std::string frame; reader.next(socket, 10 * kNsPerSecond, frame) == FrameReader::Got::kFrame;) {
    if (frame.empty()) {
      return text;
    }
    text += frame;
  }
  ADD_FAILURE() << "no end came";
  return text;
}

TEST(Outbox, AnErrorIsALineOfItsOwn) {
  const Error error{.what = "too large", .remedy = "ask for less"};
  for (const auto& [begun, ended_by] : {std::pair("{}\n", ""), std::pair("{}\n{\"report\":\"", "\n")}) {
    const Sockets sockets;
    Outbox out(sockets.helper.get());
    out.add(begun);
    EXPECT_EQ(out.in_line(), *ended_by != '\0');
    out.add(error);
    EXPECT_FALSE(out.in_line());
    out.add_end();
    EXPECT_FALSE(out.in_line());
    ASSERT_TRUE(out.send_all());
    EXPECT_TRUE(out.empty());
    EXPECT_EQ(received_text(sockets.server.get()), begun + (ended_by + line_of(error)));
  }
}

TEST(Outbox, DoesNotWaitForASlowServer) {
  const Sockets sockets;
  Outbox out(sockets.helper.get());
  EXPECT_TRUE(out.empty());
  for (int i = 0; i < 16; ++i) {
    out.add(std::string(kLongestFrame, 'x'));
  }
  EXPECT_TRUE(out.send_some());
  EXPECT_FALSE(out.empty());
  FrameReader reader;
  std::string frame;
  int frames = 0;
  while (!out.empty()) {
    // What the socket holds is less than a frame: it is read in parts.
    frames += reader.next(sockets.server.get(), 0, frame) == FrameReader::Got::kFrame ? 1 : 0;
    ASSERT_TRUE(out.send_some());
  }
  while (reader.next(sockets.server.get(), 0, frame) == FrameReader::Got::kFrame) {
    ++frames;
  }
  EXPECT_EQ(frames, 16);
}

TEST(Outbox, AServerThatIsGone) {
  Sockets sockets;
  Outbox out(sockets.helper.get());
  sockets.server.reset();
  out.add("x");
  EXPECT_FALSE(out.send_some());
}

}  // namespace
}  // namespace stalltrace::cli
