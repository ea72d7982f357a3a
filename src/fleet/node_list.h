// SPDX-License-Identifier: Apache-2.0
// Which nodes to ask, as people and Slurm write it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stalltrace::fleet {

inline constexpr uint16_t kDefaultPort = 7700;
/// The item of a node list that stands for the configuration's.
inline constexpr std::string_view kConfigured = "config";

/// Where a node's server listens.
struct NodeAddress {
  std::string host;  // a name or a number, without the brackets of IPv6
  uint16_t port = kDefaultPort;
  bool wants_tls = false;              // written with https://
  std::vector<std::string> addresses;  // numbers that the host stands for (resolve.h)
  std::string problem;                 // why there are none
  std::string remedy;

  /// "gpu001:7700", "[::1]:7700"
  [[nodiscard]] std::string shown() const;
};

/// Items between commas: "a:7700", "a" (port 7700), "10.0.0.1:7700", "[::1]:7700", "https://a:7700",
/// "gpu[001-128,130]:7700", "rack[1-2]-node[01-16]", "@FILE" (such items on its lines, '#' begins a comment) and
/// "slurm" (those of SLURM_JOB_NODELIST) and "config" (`configured`). What is named twice is asked once. Errors
/// (kUsage): another form, or more than 16,384 nodes.
Result<std::vector<NodeAddress>> parse_node_list(std::string_view text, std::span<const std::string> configured = {});

/// Whether one of the items is "config".
bool names_configured(std::string_view text);

}  // namespace stalltrace::fleet
