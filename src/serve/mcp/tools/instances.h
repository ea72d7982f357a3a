// SPDX-License-Identifier: Apache-2.0
// How tools show an instance.
#pragma once

#include <optional>
#include <vector>

#include "analysis/profiles/instances.h"
#include "serve/mcp/tools/answers.h"

namespace stalltrace::serve::mcp {

/// With `event`: the id of one of its calls, which `why` takes.
Json instance_json(const analysis::JobView& job, const analysis::InstanceTimes& times, std::optional<EventId> event);
std::vector<schema::Field> instance_fields();

/// The names of operations that `op` can have.
std::vector<std::string_view> operation_names();

}  // namespace stalltrace::serve::mcp
