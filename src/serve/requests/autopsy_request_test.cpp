// SPDX-License-Identifier: Apache-2.0
#include "serve/requests/autopsy_request.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

namespace stalltrace::serve {
namespace {

TEST(AutopsyRequest, ComesBackAsItWas) {
  const auto parsed = parse_autopsy_request(to_json(AutopsyRequest{.seconds = 60, .trace = false, .ras = true}));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().what;
  EXPECT_EQ(parsed->seconds, 60);
  EXPECT_FALSE(parsed->trace);
  EXPECT_TRUE(parsed->ras);
}

TEST(AutopsyRequest, OthersAreRefusedWithTheMemberThatIsWrong) {
  for (const auto& [text, member] :
       std::vector<std::pair<std::string, std::string>>{{R"({"seconds":0,"trace":true,"ras":true})", "seconds"},
                                                        {R"({"seconds":61,"trace":true,"ras":true})", "seconds"},
                                                        {R"({"seconds":1,"trace":1,"ras":true})", "trace"},
                                                        {R"({"seconds":1,"trace":true})", "ras"},
                                                        {R"({"seconds":1,"trace":true,"ras":true,"pid":1})", "pid"}}) {
    const auto parsed = parse_autopsy_request(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(parsed.error().what, testing::HasSubstr("'" + member + "'"));
  }
  EXPECT_FALSE(parse_autopsy_request("").has_value());
  EXPECT_FALSE(parse_autopsy_request("[]").has_value());
}

}  // namespace
}  // namespace stalltrace::serve
