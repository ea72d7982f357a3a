// SPDX-License-Identifier: Apache-2.0
// A reader of JSON into the same tree as a pickle's.
#pragma once

#include <string_view>

#include "base/result.h"
#include "import/value.h"

namespace stalltrace::import {

/// The top value. The error has the offset. `bytes` must outlive the tree.
Result<ValueIndex> read_json(std::string_view bytes, ValueTree& tree);

/// In a text that was cut off: where the last whole object ends that is an item of `enclosing`, the braces and brackets
/// around it ("{[": of a list that the top object holds). 0: there is none.
size_t end_of_items(std::string_view bytes, std::string_view enclosing);

}  // namespace stalltrace::import
