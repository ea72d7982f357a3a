// SPDX-License-Identifier: Apache-2.0
// A fixture: the API of two recordings, a.db of a healthy job and b.db of one that hangs.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "serve/http/api.h"
#include "serve/testing/job_file.h"

namespace stalltrace::serve {

class HttpApi : public testing::Test {
 protected:
  HttpApi() {
    MemorySource healthy;
    analysis::small_job::fill(healthy, {});
    write_recording(folder_ / "a.db", healthy);
    MemorySource hung;
    analysis::small_job::fill(hung, analysis::small_job::hang());
    for (const auto& [source, count] : {std::pair("ring:tcp", 3), {"share:mapping:1000", 50}, {"perf:mappings", 4}}) {
      hung.accept(Loss{.node_id = 1, .source = source, .count = static_cast<uint64_t>(count)});
    }
    write_recording(folder_ / "b.db", hung);
    recordings_ = recordings_in_files({folder_ / "a.db", folder_ / "b.db"});
    api_ = std::make_unique<Api>(*recordings_, options());
  }
  ApiOptions options() {
    return {.rows = {.bytes = 1 << 20}, .copies_folder = folder_.path(), .report_to_json = [](const Report& report) {
              return std::to_string(report.collectives);
            }};
  }
  HttpAnswer get(const std::string& target) {
    HttpRequest request{.method = "GET"};
    EXPECT_TRUE(read_target(target, request));
    return api_->answer(request);
  }
  HttpAnswer query(const std::string& sql, const std::string& parameters = "?recording=a.db") {
    HttpRequest request{.method = "POST", .body = sql};
    EXPECT_TRUE(read_target("/v1/query" + parameters, request));
    return api_->answer(request);
  }

  store::TemporaryFolder folder_;
  std::unique_ptr<Recordings> recordings_;
  std::unique_ptr<Api> api_;
};

}  // namespace stalltrace::serve
