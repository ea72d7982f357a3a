// SPDX-License-Identifier: Apache-2.0
// A reader of JSON into the same tree as a pickle's.
#pragma once

#include <string_view>

#include "base/result.h"
#include "import/flight_recorder/value.h"

namespace stalltrace::import {

/// The top value. The error has the offset. `bytes` must outlive the tree.
Result<ValueIndex> read_json(std::string_view bytes, ValueTree& tree);

}  // namespace stalltrace::import
