// SPDX-License-Identifier: Apache-2.0
// The network interfaces of this host, and which of them NCCL takes for its sockets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stalltrace::preflight {

/// One address of an interface, in the order of getifaddrs, in which NCCL looks at them.
struct InterfaceAddress {
  std::string name;
  bool ipv6 = false;
  bool running = false;      // IFF_RUNNING: up, and with a carrier
  bool loopback = false;     // the interface
  bool loopback_v6 = false;  // the address ::1
  std::string address;
};

/// Those of this network namespace. Errors: the kernel refuses.
Result<std::vector<InterfaceAddress>> read_interfaces();

/// What NCCL_SOCKET_IFNAME selects: prefixes, "^" before them excludes, "=" makes them exact. Any selects all.
class InterfaceFilter {
 public:
  explicit InterfaceFilter(std::string_view text);
  [[nodiscard]] bool takes(std::string_view name) const;
  [[nodiscard]] bool exact() const { return exact_; }
  [[nodiscard]] bool excludes() const { return excludes_; }
  /// The names or prefixes.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
  bool excludes_ = false;
  bool exact_ = false;
};

struct ChosenInterfaces {
  std::vector<InterfaceAddress> addresses;  // one of each interface; at most 16
  bool by_setting = false;                  // NCCL_SOCKET_IFNAME was followed
};

/// NCCL 2.30's choice (src/misc/socket.cc, ncclFindInterfaces): NCCL_SOCKET_IFNAME if it has two characters or more,
/// else "ib*", else all but docker*, lo* and virbr*, else docker*, lo*, virbr*. `family`: NCCL_SOCKET_FAMILY.
/// NCCL_COMM_ID, which few jobs set, is not followed.
ChosenInterfaces choose_interfaces(const std::vector<InterfaceAddress>& all, std::string_view setting,
                                   std::string_view family);

}  // namespace stalltrace::preflight
