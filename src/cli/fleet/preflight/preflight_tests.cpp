// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/preflight/preflight_tests.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "base/clock.h"
#include "base/io/write_all.h"
#include "base/result.h"
#include "capture/discover/identity.h"
#include "cli/fleet/helper/answer_lines.h"
#include "cli/fleet/network_tests.h"
#include "preflight/peers/launch_output.h"
#include "serve/json/json.h"

namespace stalltrace::cli {
namespace {

using serve::Json;
using serve::PreflightRequest;

preflight::Launch launch_of(const PreflightRequest& request) {
  preflight::Launch launch{.rank = request.rank,
                           .world_size = request.ranks,
                           .name = capture::node_name(""),
                           .master = fmt::format("{}", fmt::join(request.masters, ", ")),
                           .masters = request.masters,
                           .port = request.port,
                           .secret = request.secret,
                           .rank_names = request.nodes,
                           .wait_ns = request.wait_ms * kNsPerMs,
                           .most_rounds = request.rounds};
  if (request.masters.size() == 1) {
    launch.listen_at = request.masters.front();
  }
  launch.flow.bytes = request.test_bytes;
  launch.flow.time_ns = request.test_ms * kNsPerMs;
  launch.flow.mbit = request.max_mbit;
  return launch;
}

Result<bool> coordinate_for(const PreflightRequest& request, const preflight::Launch& launch, int out) {
  if (!preflight::has_address(launch.masters)) {
    return fail(fmt::format("{} is no address of {} itself", launch.master, launch.name),
                "name the first node by the address that the other nodes reach it by");
  }
  const auto step = [out](const std::string& text) { (void)write_all(out, line_of(Json::object({{"step", text}}))); };
  const LaunchReporter reporter{
      .announce = step,
      .rank_failed = [&](const Error& error) { step(error.what); },
      .report = [&](const preflight::LaunchResults& results, const preflight::Judgement& judgement) -> Status {
        const std::string report =
            request.json ? preflight::launch_json(results, judgement) : preflight::launch_text(results, judgement);
        if (!write_all(out, line_of(Json::object({{"failed", judgement.failed()}, {"report", report}})))) {
          return fail("nothing reads the report");
        }
        return {};
      },
      .known = checks_of_missing(request.missing)};
  return coordinate_launch(launch, own_environment(), reporter);
}

int make_tests(const PreflightRequest& request, int out) {
  const preflight::Launch launch = launch_of(request);
  if (request.rank == 0) {
    const auto failed = coordinate_for(request, launch, out);
    if (!failed) {
      (void)write_all(out, line_of(failed.error()));
    }
    return failed ? 0 : 1;
  }
  const auto failed = take_part_in_launch(launch, own_environment());
  (void)write_all(out, failed ? line_of(Json::object({{"failed", *failed}})) : line_of(failed.error()));
  return failed ? 0 : 1;
}

Result<HelperTask> read_request(const std::string& text) {
  ST_ASSIGN(const PreflightRequest request, serve::parse_preflight_request(text));
  return HelperTask{.limit_ns = request.limit_ms * kNsPerMs,
                    .run = [request](int out) { return make_tests(request, out); }};
}

}  // namespace

const HelperWork& preflight_work() {
  static constexpr HelperWork kWork{.flag = "--allow-preflight",
                                    .process_name = "st-preflight",
                                    .it = "the tests",
                                    .busy = "this node takes part in other tests of the network",
                                    .ask_for_less = "test fewer nodes, or give --rounds",
                                    .read = read_request};
  return kWork;
}

std::vector<preflight::HostCheck> checks_of_missing(const std::vector<PreflightRequest::Missing>& missing) {
  constexpr std::string_view kWithoutRemedy = "is 'stalltrace serve --allow-preflight' running there?";
  std::vector<preflight::HostCheck> checks;
  for (const PreflightRequest::Missing& one : missing) {
    checks.push_back({.check = "launch",
                      .subject = "node",
                      .outcome = preflight::Outcome::kFailed,
                      .detail = fmt::format("{} takes no part: {}", one.node, one.reason),
                      .remedy = one.remedy.empty() ? std::string(kWithoutRemedy) : one.remedy});
  }
  return checks;
}

}  // namespace stalltrace::cli
