// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/preflight/missing_nodes.h"

#include <fmt/format.h>

#include <cerrno>

#include "base/text.h"

namespace stalltrace::cli {
namespace {

using fleet::Stage;
using serve::PreflightRequest;

/// By the status of its answer.
std::string remedy_of_answer(int status) {
  switch (status) {
    case 401:
      return "give the token of that node's server with --token-file";
    case 403:
      return "start that node's server with --allow-preflight";
    case 409:
      return "it takes part in other tests: ask again when they have ended";
    case 500:
      return "its process for tests has ended: start that node's server again, and look in its kernel log for a lack "
             "of "
             "memory";
    case 503:
      return "its server is busy: ask again, or allow more with --node-timeout";
    default:
      return "is it 'stalltrace serve' that listens there? run the same version of stalltrace on all nodes; "
             "'stalltrace "
             "nodes' shows them";
  }
}

/// Of one that had not answered when its time was over.
std::string remedy_of_silence(const fleet::NodeAddress& node, Stage stage) {
  switch (stage) {
    case Stage::kConnecting:
      return fmt::format("is that node up, and does a firewall let port {} pass?", node.port);
    case Stage::kSecuring:
      return "is it 'stalltrace serve' with TLS that listens there, or is that node overloaded? --node-timeout allows "
             "more";
    case Stage::kAsking:
      return "its server took the connection and does not answer: is it stopped, or that node overloaded? "
             "--node-timeout "
             "allows more";
    case Stage::kBusy:
      return remedy_of_answer(503);
  }
  return "";
}

}  // namespace

std::string remedy_of_missing(const fleet::NodeAddress& node, const fleet::Progress& reached, const Error& error) {
  if (error.kind == ErrorKind::kInterrupted) {
    return remedy_of_silence(node, reached.stage);
  }
  if (reached.status != 0 && reached.status != 200) {
    return remedy_of_answer(reached.status);
  }
  if (reached.stage == Stage::kConnecting && reached.connect_error == ECONNREFUSED) {
    return fmt::format(
        "nothing listens at port {}: start 'stalltrace serve --allow-preflight' there, or correct --nodes", node.port);
  }
  if (reached.stage == Stage::kConnecting && reached.connect_error != 0) {
    return remedy_of_silence(node, Stage::kConnecting);
  }
  return error.remedy;
}

std::vector<PreflightRequest::Missing> missing_of(std::span<const fleet::FailedNode> nodes) {
  constexpr size_t kDots = 3;  // of a text that was cut
  constexpr size_t kLongestShown = 200;
  std::vector<PreflightRequest::Missing> missing;
  for (const fleet::FailedNode& one : nodes) {
    if (missing.size() + 1 == serve::kMostMissingNamed && nodes.size() > serve::kMostMissingNamed) {
      missing.push_back({.node = fmt::format("{} more", nodes.size() - missing.size()),
                         .reason = "they did not answer as these did",
                         .remedy = "ask fewer nodes at a time to learn the reason of each"});
      break;
    }
    missing.push_back({.node = cut_text(one.node, serve::kLongestNodeName - kDots),
                       .reason = cut_text(printable(one.error.what), kLongestShown),
                       .remedy = cut_text(printable(one.error.remedy), kLongestShown)});
  }
  return missing;
}

}  // namespace stalltrace::cli
