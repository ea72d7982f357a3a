// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/host/network.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "lab/cluster/host/command.h"
#include "lab/cluster/host/process.h"

namespace stalltrace::lab {
namespace {

using Command = std::vector<std::string>;

/// A virtual link carries batches of segments unsplit, by default up to 64 KiB, and losing one differs from losing a
/// packet. This is a compromise with the CPU time of splitting them all.
constexpr std::string_view kBatchBytes = "16384";
/// Queue of a link with a rate: long enough to lose nothing, as behind a switch that pauses its senders.
constexpr std::string_view kShapedBurst = "64k";
constexpr std::string_view kShapedQueue = "64m";

Command in(std::string_view netns, std::initializer_list<std::string_view> arguments) {
  Command command = {"ip", "-n", std::string(netns)};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

/// Sends SIGKILL to every process in the namespace until none is left.
Status end_processes(const std::string& netns) {
  constexpr auto kLimit = std::chrono::seconds(10);
  const std::string path = "/run/netns/" + netns;
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  for (;;) {
    const std::vector<int> pids = processes_in(path);
    if (pids.empty()) {
      return {};
    }
    if (std::chrono::steady_clock::now() > deadline) {
      return fail(fmt::format("process {} in {} does not end", pids.front(), netns));
    }
    for (const int pid : pids) {
      ::kill(pid, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

std::string bridge_port(int node) { return fmt::format("veth{}", node); }

std::vector<std::vector<std::string>> network_commands(std::span<const VirtualNode> nodes,
                                                       std::optional<int64_t> link_mbit) {
  std::vector<Command> commands = {
      {"ip", "netns", "add", std::string(kBridgeNetns)},
      in(kBridgeNetns, {"link", "set", "lo", "up"}),
      in(kBridgeNetns, {"link", "add", "br0", "type", "bridge", "mcast_snooping", "0"}),
      in(kBridgeNetns, {"addr", "add", fmt::format("{}/24", kRouter), "dev", "br0"}),
      in(kBridgeNetns, {"link", "set", "br0", "up"}),
  };
  for (const VirtualNode& node : nodes) {
    const std::string port = bridge_port(node.number);
    commands.push_back({"ip", "netns", "add", node.netns});
    commands.push_back(
        in(kBridgeNetns, {"link", "add", port, "type", "veth", "peer", "name", kInterface, "netns", node.netns}));
    commands.push_back(in(kBridgeNetns, {"link", "set", port, "master", "br0", "up"}));
    commands.push_back(in(node.netns, {"link", "set", "lo", "up"}));
    commands.push_back(in(node.netns, {"addr", "add", node.address + "/24", "dev", kInterface}));
    commands.push_back(in(node.netns, {"addr", "add", node.address6 + "/64", "dev", kInterface, "nodad"}));
    commands.push_back(in(node.netns, {"link", "set", kInterface, "gso_max_size", kBatchBytes, "up"}));
    if (link_mbit) {
      commands.push_back({"ip", "netns", "exec", std::string(kBridgeNetns), "tc", "qdisc", "add", "dev", port, "root",
                          "tbf", "rate", fmt::format("{}mbit", *link_mbit), "burst", std::string(kShapedBurst), "limit",
                          std::string(kShapedQueue)});
    }
  }
  return commands;
}

std::vector<std::string> existing_namespaces() {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/run/netns", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name == kBridgeNetns || name.starts_with(std::string(kNetnsPrefix) + "node")) {
      names.push_back(name);
    }
  }
  std::ranges::sort(names);
  return names;
}

Result<std::vector<std::string>> remove_namespaces() {
  std::vector<std::string> removed;
  Status first;
  for (const std::string& name : existing_namespaces()) {
    Status status = end_processes(name);
    if (const auto deleted = run_command({"ip", "netns", "delete", name}); !deleted) {
      status = std::unexpected(deleted.error());
    } else {
      removed.push_back(name);
    }
    if (!status && first) {
      first = std::move(status);
    }
  }
  ST_TRY(first);
  return removed;
}

Result<Network> Network::make(std::span<const VirtualNode> nodes, std::optional<int64_t> link_mbit) {
  if (const auto existing = existing_namespaces(); !existing.empty()) {
    return fail(fmt::format("a practice cluster exists already ({})", fmt::join(existing, ", ")),
                "remove it with `stalltrace lab down`");
  }
  Network network;
  for (const Command& command : network_commands(nodes, link_mbit)) {
    if (auto output = run_command(command); !output) {
      return with_context("make the virtual network", std::move(output.error()));
    }
  }
  return network;
}

Network::~Network() {
  if (owned_) {
    (void)remove_namespaces();
  }
}

Status Network::remove() {
  owned_ = false;
  const auto removed = remove_namespaces();
  return removed ? Status() : std::unexpected(removed.error());
}

}  // namespace stalltrace::lab
