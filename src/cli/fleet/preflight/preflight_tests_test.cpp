// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/preflight/preflight_tests.h"

#include <gmock/gmock.h>

#include <vector>

#include "base/clock.h"
#include "cli/fleet/helper/frames.h"
#include "cli/fleet/helper/helper_task.h"
#include "cli/fleet/helper/testing/sockets.h"
#include "tests/support/golden_text.h"

namespace stalltrace::cli {
namespace {

using testing::HasSubstr;

TEST(PreflightTests, NodesThatAreMissingAreFailedChecksWithTheirRemedies) {
  const auto checks = checks_of_missing(
      {{.node = "a:7700", .reason = "late", .remedy = "wait"}, {.node = "b:7700", .reason = "refused"}});
  ASSERT_EQ(checks.size(), 2U);
  EXPECT_EQ(checks[0].check, "launch");
  EXPECT_EQ(checks[0].outcome, preflight::Outcome::kFailed);
  golden::expect_text(checks[0].detail);
  EXPECT_EQ(checks[0].remedy, "wait");
  EXPECT_THAT(checks[1].remedy, HasSubstr("--allow-preflight")) << "of an older version, which sends none";
}

TEST(PreflightTests, WhatIsNoRequestHasAnAnswerWithAnEnd) {
  const Sockets sockets;
  FrameReader orders;
  EXPECT_TRUE(answer_request(preflight_work(), "{}", sockets.helper.get(), orders));
  FrameReader answer;
  std::string frame;
  ASSERT_EQ(answer.next(sockets.server.get(), kNsPerSecond, frame), FrameReader::Got::kFrame);
  EXPECT_THAT(frame, HasSubstr("\"error\""));
  ASSERT_EQ(answer.next(sockets.server.get(), kNsPerSecond, frame), FrameReader::Got::kFrame);
  EXPECT_EQ(frame, "");
}

}  // namespace
}  // namespace stalltrace::cli
