// SPDX-License-Identifier: Apache-2.0
// Nodes on loopback for tests: one that serves a recording, and one that answers what no server answers.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/handle.h"
#include "fleet/node_list.h"
#include "serve/http/api.h"
#include "serve/testing/job_file.h"
#include "serve/testing/running_server.h"

namespace stalltrace::fleet {

/// Of what is asked of nodes of which some never answer.
inline constexpr std::chrono::milliseconds kLimit{400};

inline NodeAddress node_at(uint16_t port) { return {.host = "127.0.0.1", .port = port, .addresses = {"127.0.0.1"}}; }

/// Sends the same bytes to every client that connects, whatever is asked; then closes, or keeps quiet.
class BadServer {
 public:
  enum class Then { kCloses, kHangs };
  BadServer(std::string bytes, Then then) {
    auto listener = serve::listen_at({.address = "127.0.0.1", .loopback = true});
    EXPECT_TRUE(listener.has_value());
    port_ = listener->port;
    thread_ = std::jthread(
        [socket = std::move(listener->socket), bytes = std::move(bytes), then](const std::stop_token& stop) {
          std::vector<UniqueFd> open;
          while (!stop.stop_requested()) {
            UniqueFd connection(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
            if (!connection) {
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
              continue;
            }
            char request[4096];
            static_cast<void>(!::recv(connection.get(), request, sizeof request, 0));
            static_cast<void>(!::send(connection.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
            if (then == Then::kHangs) {
              open.push_back(std::move(connection));
            }
          }
        });
  }
  [[nodiscard]] uint16_t port() const { return port_; }

 private:
  uint16_t port_ = 0;
  std::jthread thread_;
};

/// A node that serves one recording of `ending`.
class ServingNode {
 public:
  explicit ServingNode(const analysis::small_job::Ending& ending = {}, serve::ServerOptions options = {}) {
    MemorySource source;
    analysis::small_job::fill(source, ending);
    static int64_t runs = 0;
    ++runs;  // each node's recording is one of its own
    for (Node node : store::must(source.nodes())) {
      node.started_ns += runs;
      source.accept(node);
    }
    serve::write_recording(folder_ / "job.db", source);
    recordings_ = serve::recordings_in_files({folder_ / "job.db"});
    api_ = std::make_unique<serve::Api>(*recordings_, serve::ApiOptions{.copies_folder = folder_.path()});
    server_ = std::make_unique<serve::RunningServer>(
        [this](const serve::HttpRequest& request) { return api_->answer(request); }, std::move(options));
  }
  [[nodiscard]] NodeAddress address() const { return node_at(server_->port()); }
  [[nodiscard]] std::string file() const { return folder_ / "job.db"; }

 private:
  store::TemporaryFolder folder_;
  std::unique_ptr<serve::Recordings> recordings_;
  std::unique_ptr<serve::Api> api_;
  std::unique_ptr<serve::RunningServer> server_;
};

/// An answer of HTTP: that it is right, and the rest as given.
inline std::string head(std::string_view rest) { return "HTTP/1.1 200 OK\r\n" + std::string(rest); }

}  // namespace stalltrace::fleet
