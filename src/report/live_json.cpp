// SPDX-License-Identifier: Apache-2.0
#include "report/live_json.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/text.h"
#include "report/findings_text.h"

namespace stalltrace::report {
namespace {

std::string_view news_of(LiveHeadline headline) {
  switch (headline) {
    case LiveHeadline::kBegan:
      return "began";
    case LiveHeadline::kWorsened:
      return "worsened";
    case LiveHeadline::kCameBack:
      return "came_back";
    case LiveHeadline::kEnded:
      break;
  }
  return "ended";
}

}  // namespace

std::string live_finding_to_json(const LiveAgent& agent, LiveHeadline headline, int64_t now_ns, int64_t number,
                                 const Finding& finding, int64_t explained_by) {
  using OrderedJson = nlohmann::ordered_json;
  const OrderedJson line{{"schema", Report::kSchema},
                         {"node", agent.node},
                         {"started_ns", agent.started_ns},
                         {"time_ns", now_ns},
                         {"number", number},
                         {"news", news_of(headline)},
                         {"explained_by", explained_by == 0 ? OrderedJson(nullptr) : OrderedJson(explained_by)},
                         {"finding", finding_to_json(finding)}};
  return escape_in_json(line.dump(-1, ' ', false, OrderedJson::error_handler_t::replace)) + "\n";
}

}  // namespace stalltrace::report
