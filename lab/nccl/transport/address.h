// SPDX-License-Identifier: Apache-2.0
// Socket addresses and the choice of the network interface, by NCCL's rules: NCCL_SOCKET_IFNAME is a list of name
// prefixes, `^` before it excludes, `=` asks for whole names; NCCL_SOCKET_FAMILY is AF_INET or AF_INET6. Unset, any
// interface but docker and lo is taken, then docker, then lo.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "nccl.h"

namespace lab::nccl {

/// An IPv4 or IPv6 address with its port; plain bytes, so that it travels in a unique id and between ranks.
union SocketAddress {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;

  [[nodiscard]] socklen_t size() const { return any.sa_family == AF_INET6 ? sizeof(v6) : sizeof(v4); }
};

struct Interface {
  std::string name;
  SocketAddress address;  // port 0
};

/// "10.77.0.2<40112>"
std::string to_text(const SocketAddress& address);

/// Ranks with the same address, whatever the port, share a node.
bool same_host(const SocketAddress& a, const SocketAddress& b);

/// ncclInvalidUsage when no interface fits, as NCCL answers.
ncclResult_t find_interface(Interface* result);

}  // namespace lab::nccl
