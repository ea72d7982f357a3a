// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/agent_servers.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/file.h"
#include "base/process/command.h"
#include "lab/cluster/host/network.h"

namespace stalltrace::lab {
namespace {

std::string server_file(const std::string& out_dir, std::string_view name) {
  return fmt::format("{}/{}", out_dir, name);
}

std::string server_address(const VirtualNode& node) { return fmt::format("{}:{}", node.address, kServerPort); }

}  // namespace

std::string list_of_nodes(std::span<const VirtualNode> nodes) {
  std::string text;
  for (const VirtualNode& node : nodes) {
    text += server_address(node) + "\n";
  }
  return text;
}

std::vector<std::string> server_arguments(const AgentServers& servers, const VirtualNode& node,
                                          const std::string& out_dir) {
  const auto fault = servers.faults.find(node.number);
  if (fault != servers.faults.end() && fault->second == kNoServer) {
    return {};
  }
  std::vector<std::string> words = {"--serve",      server_address(node),
                                    "--token-file", server_file(out_dir, kTokenFile),
                                    "--tls-cert",   server_file(out_dir, kCertificateFile),
                                    "--tls-key",    server_file(out_dir, kKeyFile)};
  if (fault != servers.faults.end()) {
    words.insert(words.end(), {"--node-fault", fault->second});
  }
  return words;
}

std::string asking_command(const AgentServers& servers, const std::string& out_dir) {
  return format_command({"ip", "netns", "exec", std::string(kBridgeNetns), "stalltrace", "nodes", "--nodes",
                         "@" + server_file(out_dir, kNodesFile), "--token-file", server_file(out_dir, kTokenFile),
                         "--tls-fingerprint", servers.fingerprint});
}

Result<ServerFiles> ServerFiles::write(const AgentServers& servers, std::span<const VirtualNode> nodes,
                                       const std::string& out_dir) {
  ServerFiles files(out_dir);  // what was written goes with it if the rest fails
  const std::pair<std::string_view, std::string> contents[] = {{kNodesFile, list_of_nodes(nodes)},
                                                               {kTokenFile, servers.token + "\n"},
                                                               {kFingerprintFile, servers.fingerprint + "\n"},
                                                               {kCertificateFile, servers.certificate},
                                                               {kKeyFile, servers.key}};
  for (const auto& [name, content] : contents) {
    ST_TRY(write_file(server_file(out_dir, name), content, 0600));
  }
  return files;
}

ServerFiles::~ServerFiles() {
  if (!folder_.empty()) {
    for (const std::string_view name : kServerFiles) {
      ::unlink(server_file(folder_, name).c_str());
    }
  }
}

}  // namespace stalltrace::lab
