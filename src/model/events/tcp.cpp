// SPDX-License-Identifier: Apache-2.0
#include "model/events/tcp.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "model/enum_text.h"

namespace stalltrace {
namespace {

constexpr std::array<std::string_view, 9> kTcpEventKinds{
    "tcp_retransmit_skb", "tcp_cong_state_set", "tcp_send_reset", "tcp_receive_reset", "connect", "accept", "close",
    "socket_error",       "connect_failed"};

}  // namespace

std::string format_endpoint(const Endpoint& endpoint) {
  return endpoint.address.find(':') == std::string::npos ? fmt::format("{}:{}", endpoint.address, endpoint.port)
                                                         : fmt::format("[{}]:{}", endpoint.address, endpoint.port);
}

std::optional<Endpoint> parse_endpoint(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return std::nullopt;
  }
  std::string_view address = text.substr(0, colon);
  if (address.starts_with('[') && address.ends_with(']')) {
    address = address.substr(1, address.size() - 2);
  }
  Endpoint endpoint{std::string(address), 0};
  std::from_chars(text.data() + colon + 1, text.data() + text.size(), endpoint.port);
  return endpoint;
}

std::string_view to_text(TcpEventKind kind) { return kTcpEventKinds[static_cast<size_t>(kind)]; }
std::optional<TcpEventKind> tcp_event_kind_from_text(std::string_view text) {
  return value_with_text<TcpEventKind>(kTcpEventKinds, text);
}

}  // namespace stalltrace
