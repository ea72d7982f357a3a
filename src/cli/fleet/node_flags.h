// SPDX-License-Identifier: Apache-2.0
// What subcommands that ask the servers of nodes have in common: their flags, and how they speak of nodes that fail.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/fleet/client_flags.h"
#include "cli/framework/console.h"
#include "cli/framework/flag.h"
#include "fleet/client.h"
#include "fleet/node_list.h"
#include "fleet/query.h"

namespace stalltrace::cli {

/// The flags --nodes, --node-timeout, --require-all, --token-file, --tls-fingerprint and --tls-ca.
class NodeFlags {
 public:
  explicit NodeFlags(int64_t limit_ns) : limit_ns_(limit_ns) {}

  [[nodiscard]] std::vector<Flag> flags();
  [[nodiscard]] bool given() const { return !nodes_.empty(); }
  /// As if `--nodes config` were given, where --nodes is not: for a subcommand that does nothing but ask nodes.
  void ask_configured_unless_given();
  [[nodiscard]] int64_t limit_ns() const { return limit_ns_; }
  [[nodiscard]] bool require_all() const { return require_all_; }

  struct Target {
    std::vector<fleet::NodeAddress> nodes;
    fleet::ClientOptions client;
  };
  /// Reads token, certificates and node list, and looks up names; says which are the same node. To be called before
  /// rights are given up and before the first thread is started.
  [[nodiscard]] Result<Target> prepare(Console& console) const;

  /// Names the nodes that failed, each with its reason. An error where none answered, or not all did with
  /// --require-all.
  [[nodiscard]] Status judge(Console& console, std::span<const fleet::FailedNode> failed, size_t asked) const;

 private:
  std::string nodes_;
  int64_t limit_ns_;
  bool require_all_ = false;
  ClientFlags client_;
};

}  // namespace stalltrace::cli
