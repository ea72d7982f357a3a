// SPDX-License-Identifier: Apache-2.0
// The network of the virtual nodes: one namespace per node, joined by a bridge in its own namespace, so that the host's
// network is never touched. Needs root.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/cluster/host/node.h"

namespace stalltrace::lab {

inline constexpr std::string_view kNetnsPrefix = "stalltrace-";
inline constexpr std::string_view kBridgeNetns = "stalltrace-bridge";
inline constexpr std::string_view kInterface = "eth0";
/// The bridge's own address; it forwards nothing.
inline constexpr std::string_view kRouter = "10.77.0.254";

/// The bridge's end of a node's link, in kBridgeNetns.
std::string bridge_port(int node);

/// The commands that make the network, in order; pure. With a rate, a node's incoming packets pass a token bucket of
/// the bridge.
std::vector<std::vector<std::string>> network_commands(std::span<const VirtualNode> nodes,
                                                       std::optional<int64_t> link_mbit = {});

/// The lab's existing namespaces by name: "stalltrace-node0", ...
std::vector<std::string> existing_namespaces();

/// Ends every process in the lab's namespaces and deletes them. Returns their names; continues after a failure.
Result<std::vector<std::string>> remove_namespaces();

/// The network, for this object's lifetime (unless released).
class Network {
 public:
  /// Refuses if one of the lab's namespaces exists; removes what it made if it fails half-way.
  static Result<Network> make(std::span<const VirtualNode> nodes, std::optional<int64_t> link_mbit = {});

  Network(Network&& other) noexcept : owned_(std::exchange(other.owned_, false)) {}
  Network& operator=(Network&&) = delete;
  ~Network();

  /// Removes it now and reports the result.
  Status remove();
  /// Leaves the network in place.
  void release() { owned_ = false; }

 private:
  Network() = default;
  bool owned_ = true;
};

}  // namespace stalltrace::lab
