// SPDX-License-Identifier: Apache-2.0
#include "cli/framework/time_flag.h"

#include <utility>

#include "model/parse/time_point.h"

namespace stalltrace::cli {

Flag time_point_flag(std::string name, std::string help, std::optional<TimePoint>* target) {
  return {.kind = Flag::Kind::kValue,
          .name = std::move(name),
          .value_name = "TIME",
          .help = std::move(help),
          .value_form = "2026-01-31T02:47:00Z (UTC), or +2s from the first collective",
          .default_text = {},
          .assign = [target](std::string_view text) -> Status {
            ST_ASSIGN(*target, parse_time_point(text));
            return {};
          }};
}

}  // namespace stalltrace::cli
