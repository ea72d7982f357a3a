// SPDX-License-Identifier: Apache-2.0
#include "preflight/peers/messages.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace stalltrace::preflight {
namespace {

TEST(Messages, AHelloFitsIntoALineWhateverItsHostHas) {
  Hello hello{.report = {.host = "large"}};
  for (int i = 0; i < 256; ++i) {
    hello.report.topology.devices.push_back({.name = "mlx5_" + std::to_string(i), .address = std::to_string(i)});
  }
  EXPECT_LT(to_json(hello).dump().size(), size_t{64} << 10);
}

TEST(Messages, AReportOfAnotherFormIsRefused) {
  for (const char* report : {R"({"schema":"x"})", R"({"schema":[1]})", R"({"schema":{}})", "[]", ""}) {
    EXPECT_FALSE(hello_from_json({{"stalltrace_preflight", 1}, {"report", report}})) << report;
  }
}

}  // namespace
}  // namespace stalltrace::preflight
