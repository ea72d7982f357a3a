// SPDX-License-Identifier: Apache-2.0
#include "serve/requests/autopsy_request.h"

#include "serve/json/json.h"
#include "serve/requests/request_members.h"

namespace stalltrace::serve {

std::string to_json(const AutopsyRequest& request) {
  return Json::object({{"seconds", request.seconds}, {"trace", request.trace}, {"ras", request.ras}}).dump();
}

Result<AutopsyRequest> parse_autopsy_request(std::string_view text) {
  ST_ASSIGN(const Json json, request_object(text, {.depth = 2, .values = 16, .members = 8}));
  RequestMembers members(json);
  const AutopsyRequest request{.seconds = members.number("seconds", 1, kLongestAutopsySeconds),
                               .trace = members.boolean("trace"),
                               .ras = members.boolean("ras")};
  ST_TRY(members.status());
  return request;
}

}  // namespace stalltrace::serve
