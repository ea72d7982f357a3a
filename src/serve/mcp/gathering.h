// SPDX-License-Identifier: Apache-2.0
// Tools over copies of other hosts' recordings: the argument that brings new copies, and what each answer states of
// those that it is of.
#pragma once

#include <string>
#include <string_view>

#include "serve/json/json.h"
#include "serve/mcp/tools/tool.h"
#include "serve/recordings.h"

namespace stalltrace::serve::mcp {

/// What the server's instructions have beside the rest.
inline constexpr std::string_view kInstructionsOnCopies =
    " The recordings are copies that were gathered from nodes: 'gathered' states how old they are and which nodes are "
    "missing. A missing node is not healthy, it is unknown. Nothing newer is seen until a tool is called with "
    "gather_again.";

/// Adds the argument `gather_again`, and `gathered` to the answer.
void add_gathering(Tool& tool);
/// Whether the arguments ask for new copies.
bool asks_to_gather(const Json& arguments);
/// Adds `gathered`. `in_full`: more of the nodes that are missing are named.
void add_gathered(Answer& answer, const Recordings::Gathered& gathered, bool in_full);
/// "1 of 3 nodes is missing: health names it"; empty: none is.
std::string missing_nodes(const Recordings::Gathered& gathered);

}  // namespace stalltrace::serve::mcp
