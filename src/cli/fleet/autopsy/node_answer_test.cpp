// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/autopsy/node_answer.h"

#include <gtest/gtest.h>

#include <string>

#include "cli/evidence/autopsy_output.h"

namespace stalltrace::cli {
namespace {

std::string evidence() {
  AutopsyResult result;
  result.context.traced["gpu01"] = {};
  result.snapshots.resize(2);
  return autopsy_evidence_line(result);
}

TEST(NodeAnswer, IsTheEvidenceAfterEmptyLines) {
  const auto host = read_node_answer("\n\n" + evidence());
  ASSERT_TRUE(host.has_value()) << host.error().what;
  ASSERT_TRUE(host->has_value());
  EXPECT_EQ((*host)->node, "gpu01");
}

TEST(NodeAnswer, NoJobRunsThere) {
  const auto host = read_node_answer("\n{\"no_job\":true}\n");
  ASSERT_TRUE(host.has_value());
  EXPECT_FALSE(host->has_value());
}

TEST(NodeAnswer, AnErrorIsPrintable) {
  const auto host = read_node_answer("{\"error\":\"it\\u001b[2J failed\",\"remedy\":\"look\"}\n");
  ASSERT_FALSE(host.has_value());
  EXPECT_EQ(host.error().what.find('\x1b'), std::string::npos);
  EXPECT_EQ(host.error().remedy, "look");
}

TEST(NodeAnswer, AnythingElseIsAnError) {
  const std::string whole = evidence();
  for (const std::string& body :
       {std::string(), std::string("\n\n"), std::string("{}"), std::string("{\"no_job\":false}"), std::string("<html>"),
        whole.substr(0, whole.size() / 2), whole + whole, whole + "{\"error\":\"late\",\"remedy\":\"\"}\n"}) {
    const auto host = read_node_answer(body);
    ASSERT_FALSE(host.has_value()) << body;
    EXPECT_EQ(host.error().kind, ErrorKind::kCorrupt) << body;
  }
}

}  // namespace
}  // namespace stalltrace::cli
