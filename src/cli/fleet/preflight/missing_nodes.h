// SPDX-License-Identifier: Apache-2.0
// Nodes that take no part in the tests of `preflight --nodes`: what the report is to show of each, with a remedy for
// its reason.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "fleet/client.h"
#include "fleet/node_list.h"
#include "fleet/query.h"
#include "serve/requests/preflight_request.h"

namespace stalltrace::cli {

/// What to do about it, by how far its conversation got: it can't be found, refuses the connection, does not answer,
/// does not show who it is, wants another token, allows no tests, takes part in others, has another version, has lost
/// its helper. Of what this host found out itself, the remedy of `error`; what a node sent is never one.
std::string remedy_of_missing(const fleet::NodeAddress& node, const fleet::Progress& reached, const Error& error);

/// As rank 0 is to report them, each with the remedy of its error. Beyond what a request may name, the last one counts
/// the others.
std::vector<serve::PreflightRequest::Missing> missing_of(std::span<const fleet::FailedNode> nodes);

}  // namespace stalltrace::cli
