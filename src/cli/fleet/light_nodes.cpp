// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/light_nodes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <thread>

#include "base/files/disposable_folder.h"
#include "base/process/descriptor_limit.h"
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

/// One node's recording and API.
struct LightNode {
  LightNode(const std::string& file, const std::string& copies, std::function<serve::HostClock()> clock)
      : recordings(serve::recordings_in_files({file})),
        api(*recordings,
            {.copies_folder = copies, .report_to_json = report::report_to_json, .clock = std::move(clock)}) {}

  std::unique_ptr<serve::Recordings> recordings;
  serve::Api api;
};

}  // namespace

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
    return answer_with(trouble == troubles_.end() ? NodeTrouble::kNone : trouble->second,
                       nodes[static_cast<size_t>(node)]->api, request);
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
