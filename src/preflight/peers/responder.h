// SPDX-License-Identifier: Apache-2.0
// The other end of the tests: a TCP and a UDP port, chosen by the kernel, on one address of this host, until it is
// destroyed. It answers only to who knows its secret, sends back what it gets or discards it, and never more than it
// got: it can't be made to flood a host.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "base/handle.h"
#include "base/result.h"
#include "preflight/peers/endpoint.h"

namespace stalltrace::preflight {

inline constexpr size_t kSecretBytes = 32;  // as hexadecimal digits

/// Whether it is the secret, in a time that depends on the lengths alone: who guesses learns nothing from it.
[[nodiscard]] bool is_secret(std::string_view given, std::string_view secret);

/// What follows the secret on a connection.
enum class Service : char {
  kEcho = 'e',     // bytes come back
  kDiscard = 'd',  // bytes are read and forgotten
};

/// After the secret in a datagram, and after the same secret in its answer, which has the length of the whole datagram
/// instead of its padding. Both numbers in the byte order of the sender's host.
struct Probe {
  uint32_t number = 0;
  uint32_t bytes = 0;
};

class Responder {
 public:
  /// Binds its ports; nothing is answered before start(). Errors: `address` is not of this host; no randomness.
  static Result<Responder> open(const std::string& address);

  [[nodiscard]] uint16_t tcp_port() const { return local_endpoint(tcp_.get()).port(); }
  [[nodiscard]] uint16_t udp_port() const { return local_endpoint(udp_.get()).port(); }
  [[nodiscard]] const std::string& secret() const { return secret_; }

  /// Answers on a thread of its own.
  void start();

 private:
  UniqueFd tcp_;
  UniqueFd udp_;
  UniqueFd wake_;
  std::string secret_;
  std::jthread thread_;
};

}  // namespace stalltrace::preflight
