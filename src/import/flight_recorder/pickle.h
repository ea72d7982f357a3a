// SPDX-License-Identifier: Apache-2.0
// A reader of pickles that runs nothing: data opcodes of protocols 2 to 4 (and the frame opcode of 5), and of globals
// only the typed lists of PyTorch's own pickler, which become lists. Everything else is refused.
#pragma once

#include <string_view>

#include "base/result.h"
#include "import/value.h"

namespace stalltrace::import {

/// The top value. The error has the offset: "offset 1234: ...". `bytes` must outlive the tree.
Result<ValueIndex> read_pickle(std::string_view bytes, ValueTree& tree);

}  // namespace stalltrace::import
