// SPDX-License-Identifier: Apache-2.0
// What can be wrong with a node of a fleet, on purpose: the lab's --node-fault.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "cli/fleet/silent_nodes.h"
#include "serve/http/api.h"
#include "serve/http_message.h"

namespace stalltrace::cli {

enum class NodeTrouble {
  kNone,
  kDown,      // nothing listens
  kHangs,     // takes the connection and sends nothing
  kStalls,    // begins its answer, then sends nothing more
  kTrickles,  // sends one byte a second
  kSlow,      // answers a second later
  kRefuses,   // as with a wrong token
  kGarbage,   // answers with bytes that mean nothing
  kBadRows,   // the rows that an analysis asks for mean nothing; all else is right
  kVersion,   // speaks another version of the API
};

/// "down", "bad-rows"; none: there is no such trouble.
std::optional<NodeTrouble> node_trouble_named(std::string_view name);
/// "3=down"; errors (kUsage) list what there is.
Result<std::pair<int, NodeTrouble>> parse_node_trouble(std::string_view text);
/// As in "3=down"; of kNone "".
std::string_view name_of(NodeTrouble trouble);

/// The silence of a node that never answers in full; none: it answers.
std::optional<Silence> silence_of(NodeTrouble trouble);
/// Whether a server with TLS can have it: those that begin an answer and don't go on begin it without TLS.
bool suits_tls(NodeTrouble trouble);

/// The answer of a node that answers, as its trouble has it.
serve::HttpAnswer answer_with(NodeTrouble trouble, serve::Api& api, const serve::HttpRequest& request);

}  // namespace stalltrace::cli
