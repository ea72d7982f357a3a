// SPDX-License-Identifier: Apache-2.0
#include "autopsy/sockets/diag.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

namespace stalltrace::autopsy {
namespace {

/// Copies a struct that the kernel may have sent shorter or longer than ours: missing fields are 0.
template <typename T>
T copied(std::span<const std::byte> bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

Endpoint endpoint(uint8_t family, const __be32 (&words)[4], __be16 port) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(family == AF_INET ? AF_INET : AF_INET6, static_cast<const void*>(words), text.data(), text.size());
  std::string_view address(text.data());
  constexpr std::string_view kMapped = "::ffff:";  // IPv4 on an IPv6 socket
  if (address.starts_with(kMapped) && address.find('.') != std::string_view::npos) {
    address.remove_prefix(kMapped.size());
  }
  return {std::string(address), ntohs(port)};
}

void add_info(TcpSocket& socket, const tcp_info& info) {
  socket.backoff = info.tcpi_backoff;
  socket.time_out_ms = info.tcpi_rto / 1000;
  socket.not_sent = info.tcpi_notsent_bytes;
  socket.acked = info.tcpi_bytes_acked;
  socket.received = info.tcpi_bytes_received;
  socket.ack_age_ms = info.tcpi_last_ack_recv;
  // A socket without data in one direction reports the time since its connection was made, or since boot.
  const bool repeats = socket.timer == Timer::kRetransmit && socket.tries > 0;  // which counts as sent
  const bool sent = info.tcpi_data_segs_out > 0 && !repeats;
  const bool received = info.tcpi_data_segs_in > 0;
  if (sent || received) {
    socket.silent_ms =
        std::min(sent ? info.tcpi_last_data_sent : UINT32_MAX, received ? info.tcpi_last_data_recv : UINT32_MAX);
  }
}

std::optional<TcpSocket> parse_socket(std::span<const std::byte> body, uint64_t netns) {
  if (body.size() < sizeof(inet_diag_msg)) {
    return std::nullopt;
  }
  const auto message = copied<inet_diag_msg>(body);
  TcpSocket socket{.netns = netns,
                   .inode = message.idiag_inode,
                   .local = endpoint(message.idiag_family, message.id.idiag_src, message.id.idiag_sport),
                   .remote = endpoint(message.idiag_family, message.id.idiag_dst, message.id.idiag_dport)};
  socket.state = message.idiag_state <= static_cast<uint8_t>(TcpState::kClosing)
                     ? static_cast<TcpState>(message.idiag_state)
                     : TcpState::kUnknown;
  socket.timer = message.idiag_timer <= static_cast<uint8_t>(Timer::kWindowProbe)
                     ? static_cast<Timer>(message.idiag_timer)
                     : Timer::kNone;
  socket.tries = message.idiag_retrans;
  socket.expires_ms = message.idiag_expires;
  if (socket.state != TcpState::kListen) {  // there the queues count connections
    socket.receive_queue = message.idiag_rqueue;
    socket.send_queue = message.idiag_wqueue;
  }
  std::span<const std::byte> rest = body.subspan(std::min(body.size(), size_t{NLMSG_ALIGN(sizeof(inet_diag_msg))}));
  while (rest.size() >= sizeof(rtattr)) {
    const auto attribute = copied<rtattr>(rest);
    if (attribute.rta_len < sizeof(rtattr) || attribute.rta_len > rest.size()) {
      break;
    }
    if (attribute.rta_type == INET_DIAG_INFO) {
      add_info(socket, copied<tcp_info>(rest.subspan(RTA_LENGTH(0), attribute.rta_len - RTA_LENGTH(0))));
    }
    rest = rest.subspan(std::min(rest.size(), size_t{RTA_ALIGN(attribute.rta_len)}));
  }
  return socket;
}

}  // namespace

std::string_view to_text(TcpState state) {
  constexpr std::array<std::string_view, 12> kNames{"?",          "ESTABLISHED", "SYN_SENT",  "SYN_RECV",
                                                    "FIN_WAIT1",  "FIN_WAIT2",   "TIME_WAIT", "CLOSE",
                                                    "CLOSE_WAIT", "LAST_ACK",    "LISTEN",    "CLOSING"};
  return kNames.at(static_cast<size_t>(state));
}

std::vector<std::byte> diag_request(uint8_t family, uint32_t sequence) {
  struct Request {
    nlmsghdr header;
    inet_diag_req_v2 body;
  } request{};
  request.header = {.nlmsg_len = sizeof request,
                    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                    .nlmsg_seq = sequence,
                    .nlmsg_pid = 0};
  request.body.sdiag_family = family;
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_ext = 1U << (INET_DIAG_INFO - 1);
  request.body.idiag_states = ~0U;
  const auto bytes = std::as_bytes(std::span(&request, 1));
  return {bytes.begin(), bytes.end()};
}

DiagPart parse_diag(std::span<const std::byte> datagram, uint64_t netns) {
  DiagPart part;
  while (datagram.size() >= sizeof(nlmsghdr)) {
    const auto header = copied<nlmsghdr>(datagram);
    if (header.nlmsg_len < sizeof(nlmsghdr) || header.nlmsg_len > datagram.size()) {
      break;
    }
    const auto body = datagram.subspan(sizeof(nlmsghdr), header.nlmsg_len - sizeof(nlmsghdr));
    if (header.nlmsg_type == NLMSG_DONE) {
      part.done = true;
    } else if (header.nlmsg_type == NLMSG_ERROR) {
      part.done = true;
      part.error = -copied<int>(body);
    } else if (header.nlmsg_type == SOCK_DIAG_BY_FAMILY) {
      if (auto socket = parse_socket(body, netns)) {
        part.sockets.push_back(std::move(*socket));
      }
    }
    datagram = datagram.subspan(std::min(datagram.size(), size_t{NLMSG_ALIGN(header.nlmsg_len)}));
  }
  return part;
}

}  // namespace stalltrace::autopsy
