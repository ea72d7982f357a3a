// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/autopsy/autopsy_work.h"

#include <cstdio>
#include <string>

#include "autopsy/snapshot.h"
#include "base/clock.h"
#include "base/io/write_all.h"
#include "cli/evidence/autopsy_here.h"
#include "cli/fleet/helper/answer_lines.h"
#include "serve/requests/autopsy_request.h"

namespace stalltrace::cli {
namespace {

using serve::AutopsyRequest;

static_assert(serve::kLongestAutopsySeconds == autopsy::kLongestWatchSeconds);

/// Less than a client waits (autopsy --node-timeout): a user with several slow listeners must not cost it the
/// snapshots.
constexpr int64_t kRasNs = 20 * kNsPerSecond;
/// More than the snapshots and all questions to RAS take.
constexpr int64_t kBeyondWatchNs = 120 * kNsPerSecond;

std::string answer_to(const AutopsyRequest& request) {
  Console console(stdout, stderr);  // of the helper: /dev/null
  const auto result = look_at_this_host(
      {.seconds = request.seconds, .trace = request.trace, .ras = request.ras, .ras_ns = kRasNs, .out = {}}, console);
  if (!result) {
    return line_of(result.error());
  }
  if (!*result) {
    return line_of(serve::Json::object({{"no_job", true}}));
  }
  std::string line = autopsy_evidence_line(**result);
  return !line.empty() ? line
                       : line_of(Error{.what = "the evidence of its ranks is too large to be sent",
                                       .remedy = "run stalltrace autopsy on that host"});
}

Result<HelperTask> read_request(const std::string& text) {
  ST_ASSIGN(const AutopsyRequest request, serve::parse_autopsy_request(text));
  return HelperTask{.limit_ns = request.seconds * kNsPerSecond + kBeyondWatchNs,
                    .run = [request](int out) { return write_all(out, answer_to(request)) ? 0 : 1; }};
}

}  // namespace

const HelperWork& autopsy_work() {
  static constexpr HelperWork kWork{.flag = "--allow-autopsy",
                                    .process_name = "st-autopsy",
                                    .it = "the autopsy",
                                    .busy = "this node looks at its jobs for another client",
                                    .ask_for_less = "run stalltrace autopsy on that host, with --pid",
                                    .keeps_rights = true,
                                    .read = read_request};
  return kWork;
}

}  // namespace stalltrace::cli
