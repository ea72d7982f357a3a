// SPDX-License-Identifier: Apache-2.0
// The kernel's sock_diag interface (sock_diag(7)): the request for all TCP sockets of a network namespace, and its
// answer. libmnl would do the same, but Debian has no static library of it, and this program is one static file. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "autopsy/snapshot.h"

namespace stalltrace::autopsy {

/// The request for one family (AF_INET, AF_INET6), with INET_DIAG_INFO.
std::vector<std::byte> diag_request(uint8_t family, uint32_t sequence);

struct DiagPart {
  std::vector<TcpSocket> sockets;
  bool done = false;         // the last part of an answer
  std::optional<int> error;  // errno of the kernel
};
/// One datagram of the answer. Truncated or foreign messages are left out. `netns` is set in each socket.
DiagPart parse_diag(std::span<const std::byte> datagram, uint64_t netns);

}  // namespace stalltrace::autopsy
