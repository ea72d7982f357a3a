// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/autopsy/node_answer.h"

#include <string>
#include <utility>

#include "base/text.h"
#include "serve/json/json.h"

namespace stalltrace::cli {
namespace {

constexpr size_t kLongestShort = 4096;  // an error, or that no job runs

}  // namespace

Result<std::optional<autopsy::HostResult>> read_node_answer(std::string_view body) {
  while (body.starts_with('\n')) {  // signs of life
    body.remove_prefix(1);
  }
  const auto brief = body.size() <= kLongestShort ? serve::parse_json(body, {.depth = 2, .values = 16, .members = 8})
                                                  : Result<serve::Json>(fail("it is long"));
  if (brief && brief->is_object()) {
    const serve::Json* none = brief->find("no_job");
    if (none != nullptr && none->boolean() != nullptr && *none->boolean()) {
      return std::nullopt;
    }
    const serve::Json* error = brief->find("error");
    if (error != nullptr && error->text() != nullptr) {
      const serve::Json* remedy = brief->find("remedy");
      const bool known = remedy != nullptr && remedy->text() != nullptr;
      return fail(printable(*error->text()), known ? printable(*remedy->text()) : "");
    }
  }
  ST_ASSIGN(autopsy::HostResult host, autopsy::read_result(body));
  return host;
}

}  // namespace stalltrace::cli
