// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/helper/answer_lines.h"

namespace stalltrace::cli {

std::string line_of(const serve::Json& json) { return json.dump() + "\n"; }

std::string line_of(const Error& error) {
  return line_of(serve::Json::object({{"error", error.what}, {"remedy", error.remedy}}));
}

}  // namespace stalltrace::cli
