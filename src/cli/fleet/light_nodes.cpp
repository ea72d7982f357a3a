// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/light_nodes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "base/files/disposable_folder.h"
#include "base/process/descriptor_limit.h"
#include "base/text.h"
#include "cli/framework/confined_reading.h"
#include "cli/framework/exit_code.h"
#include "cli/stop_signals.h"
#include "report/report_json.h"
#include "serve/http/api.h"
#include "serve/http/listener.h"
#include "serve/http/server.h"
#include "serve/recordings.h"

namespace stalltrace::cli {
namespace {

constexpr int kNodesPerNet = 250;
constexpr size_t kDescriptorsOfNode = 12;  // its socket, a connection, and a recording that is being read
constexpr size_t kOtherDescriptors = 256;
constexpr size_t kWorkers = 4;
constexpr std::chrono::seconds kSlow{1};

constexpr std::array<std::pair<std::string_view, NodeTrouble>, 9> kTroubles{{{"down", NodeTrouble::kDown},
                                                                             {"hangs", NodeTrouble::kHangs},
                                                                             {"stalls", NodeTrouble::kStalls},
                                                                             {"trickles", NodeTrouble::kTrickles},
                                                                             {"slow", NodeTrouble::kSlow},
                                                                             {"refuses", NodeTrouble::kRefuses},
                                                                             {"garbage", NodeTrouble::kGarbage},
                                                                             {"bad-rows", NodeTrouble::kBadRows},
                                                                             {"version", NodeTrouble::kVersion}}};

/// The silence of a node that never answers in full; none: it answers.
std::optional<Silence> silence_of(NodeTrouble trouble) {
  switch (trouble) {
    case NodeTrouble::kHangs:
      return Silence::kAll;
    case NodeTrouble::kStalls:
      return Silence::kAfterHead;
    case NodeTrouble::kTrickles:
      return Silence::kTrickles;
    default:
      return std::nullopt;
  }
}

/// One node's recording and API.
struct LightNode {
  LightNode(const std::string& file, const std::string& copies, std::function<serve::HostClock()> clock)
      : recordings(serve::recordings_in_files({file})),
        api(*recordings,
            {.copies_folder = copies, .report_to_json = report::report_to_json, .clock = std::move(clock)}) {}

  std::unique_ptr<serve::Recordings> recordings;
  serve::Api api;
};

/// As many bytes, some of them others, from the first on.
serve::HttpAnswer damaged(serve::HttpAnswer answer) {
  if (answer.next_piece) {
    answer.next_piece = [next = std::move(answer.next_piece)]() -> Result<std::string> {
      ST_ASSIGN(std::string piece, next());
      constexpr size_t kEvery = 97;
      for (size_t i = 0; i < piece.size(); i += kEvery) {
        piece[i] = static_cast<char>(~piece[i]);
      }
      return piece;
    };
  }
  return answer;
}

serve::HttpAnswer answer_of(LightNode& node, NodeTrouble trouble, const serve::HttpRequest& request) {
  switch (trouble) {
    case NodeTrouble::kSlow:
      std::this_thread::sleep_for(kSlow);
      break;
    case NodeTrouble::kRefuses:
      return serve::answer_of_error(401, "the token is wrong", "give --token-file as the server has it");
    case NodeTrouble::kGarbage:
      return {.body = std::string("\x8f\x01\xff{]\n", 6)};
    case NodeTrouble::kBadRows:
      return request.path == "/v1/rows" ? damaged(node.api.answer(request)) : node.api.answer(request);
    case NodeTrouble::kVersion:
      return serve::nothing_at_this_path(serve::kApiVersion + 1);
    case NodeTrouble::kDown:
    case NodeTrouble::kHangs:
    case NodeTrouble::kStalls:
    case NodeTrouble::kTrickles:  // SilentNodes
    case NodeTrouble::kNone:
      break;
  }
  return node.api.answer(request);
}

}  // namespace

Result<std::pair<int, NodeTrouble>> parse_node_trouble(std::string_view text) {
  const size_t sign = text.find('=');
  const auto node = parse_integer(text.substr(0, sign));
  const auto* const known = std::ranges::find(kTroubles, sign == std::string_view::npos ? "" : text.substr(sign + 1),
                                              &std::pair<std::string_view, NodeTrouble>::first);
  if (!node || *node < 0 || *node > INT32_MAX || known == kTroubles.end()) {
    std::string names;
    for (const auto& [name, trouble] : kTroubles) {
      names += fmt::format("{}3={}", names.empty() ? "" : ", ", name);
    }
    return fail(fmt::format("'{}' is no node and what is wrong with it", printable(text)),
                "give one of " + names + ", 3=skewed:5s,50ppm", ErrorKind::kUsage);
  }
  return std::pair(static_cast<int>(*node), known->second);
}

Result<LightNodes> LightNodes::listen(int nodes, std::map<int, NodeTrouble> troubles) {
  ST_TRY(allow_open_files(static_cast<size_t>(nodes) * kDescriptorsOfNode + kOtherDescriptors,
                          fmt::format("{} nodes", nodes), "simulate fewer nodes"));
  LightNodes light;
  light.troubles_ = std::move(troubles);
  for (int node = 0; node < nodes; ++node) {
    const std::string address = fmt::format("127.7.{}.{}", node / kNodesPerNet, node % kNodesPerNet + 1);
    ST_ASSIGN(serve::Listener listener, serve::listen_at({.address = address, .port = 0, .loopback = true}));
    light.addresses_.push_back(serve::format_address(address, listener.port));
    const auto found = light.troubles_.find(node);
    const NodeTrouble trouble = found == light.troubles_.end() ? NodeTrouble::kNone : found->second;
    if (const auto silence = silence_of(trouble)) {
      light.silent_.add(std::move(listener.socket), *silence);
    } else if (trouble != NodeTrouble::kDown) {
      light.sockets_.push_back(std::move(listener.socket));
      light.nodes_.push_back(node);
    }
  }
  return light;
}

Status LightNodes::serve(const std::vector<std::string>& files, const std::function<void()>& announce,
                         const std::function<serve::HostClock(int node)>& clock_of) {
  ST_ASSIGN(const DisposableFolder copies, DisposableFolder::make("stalltrace-serve-"));
  confine_to_reading(files, copies.path() + "/");
  std::vector<std::unique_ptr<LightNode>> nodes;
  for (const std::string& file : files) {
    std::function<serve::HostClock()> clock = serve::read_host_clock;
    if (clock_of) {
      clock = [&clock_of, node = static_cast<int>(nodes.size())] { return clock_of(node); };
    }
    nodes.push_back(std::make_unique<LightNode>(file, copies.path(), std::move(clock)));
  }
  const auto answer = [&](const serve::HttpRequest& request) {
    const int node = nodes_[request.listener];
    const auto trouble = troubles_.find(node);
    return answer_of(*nodes[static_cast<size_t>(node)],
                     trouble == troubles_.end() ? NodeTrouble::kNone : trouble->second, request);
  };
  // A node that sleeps keeps a worker; the limits are of one node, and all share them here.
  const serve::ServerOptions options{.most_connections = 4 * files.size(),
                                     .most_waiting = 4 * files.size(),
                                     .workers = kWorkers + 2 * troubles_.size()};
  const StopSignals signals;  // before the threads, which inherit that they are blocked
  if (signals.descriptor() < 0) {
    return fail_errno("serve", errno, "raise the limit of open files (ulimit -n)");
  }
  ST_ASSIGN(const auto server, serve::HttpServer::create(std::move(sockets_), answer, options));
  const std::jthread silent([this](const std::stop_token& stop) { silent_.empty() ? void() : silent_.run(stop); });
  announce();
  ST_TRY(server->run(signals.descriptor()));
  ::_exit(kExitDone);
}

}  // namespace stalltrace::cli
