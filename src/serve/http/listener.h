// SPDX-License-Identifier: Apache-2.0
// The socket that a server listens on. It is made before the process gives up the right to make sockets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace::serve {

/// Where to listen: numbers alone, no names.
struct ListenAddress {
  std::string address;  // "127.0.0.1", "::1", "0.0.0.0"
  uint16_t port = 0;    // 0: the kernel chooses
  bool loopback = false;
};

/// "127.0.0.1:7700", "[::1]:7700", "localhost:7700", ":7700" (loopback), "7700" (loopback).
Result<ListenAddress> parse_listen_address(std::string_view text);

/// "127.0.0.1:7700", "[::1]:7700"
std::string format_address(std::string_view address, uint16_t port);

struct Listener {
  UniqueFd socket;
  uint16_t port = 0;
};
/// Errors: the address is in use, is none of this host, or the port needs a right.
Result<Listener> listen_at(const ListenAddress& where);

}  // namespace stalltrace::serve
