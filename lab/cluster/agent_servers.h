// SPDX-License-Identifier: Apache-2.0
// The agents of `lab run --serve` as servers at their nodes' addresses. What they share with those who ask is in the
// run's folder as long as they serve: the list of nodes, the token, one certificate for all.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "lab/cluster/host/node.h"

namespace stalltrace::lab {

inline constexpr int kServerPort = 7700;
/// The fault of a node whose agent does not serve.
inline constexpr std::string_view kNoServer = "down";

/// The files, in the run's folder. Those of the certificate and its key are for the agents, the others for who asks.
inline constexpr std::string_view kNodesFile = "nodes";
inline constexpr std::string_view kTokenFile = "token";
inline constexpr std::string_view kFingerprintFile = "fingerprint";
inline constexpr std::string_view kCertificateFile = "tls-cert.pem";
inline constexpr std::string_view kKeyFile = "tls-key.pem";
inline constexpr std::array kServerFiles{kNodesFile, kTokenFile, kFingerprintFile, kCertificateFile, kKeyFile};

struct AgentServers {
  std::string token;
  std::string certificate;            // PEM
  std::string key;                    // PEM
  std::string fingerprint;            // of the certificate
  std::map<int, std::string> faults;  // by node: kNoServer, or the server's --node-fault
  int64_t hold_ns = 0;                // how long the agents go on after the job
};

/// A line for each node, also for those that do not serve: "10.77.0.1:7700".
std::string list_of_nodes(std::span<const VirtualNode> nodes);
/// What the command line of the node's agent has for its server.
std::vector<std::string> server_arguments(const AgentServers& servers, const VirtualNode& node,
                                          const std::string& out_dir);
/// What a person types to ask all nodes.
std::string asking_command(const AgentServers& servers, const std::string& out_dir);

/// The files, for this object's lifetime: after it they open nothing.
class ServerFiles {
 public:
  static Result<ServerFiles> write(const AgentServers& servers, std::span<const VirtualNode> nodes,
                                   const std::string& out_dir);

  ServerFiles(ServerFiles&& other) noexcept : folder_(std::exchange(other.folder_, {})) {}
  ServerFiles& operator=(ServerFiles&&) = delete;
  ~ServerFiles();

 private:
  explicit ServerFiles(std::string folder) : folder_(std::move(folder)) {}
  std::string folder_;
};

}  // namespace stalltrace::lab
