// SPDX-License-Identifier: Apache-2.0
// The path MTU of a pair, by packets with DF set that are answered or lost.
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "base/clock.h"
#include "preflight/peers/probes.h"
#include "preflight/peers/responder.h"

namespace stalltrace::preflight {
namespace {

constexpr int64_t kSmallest = 576;  // every path carries packets of this length (RFC 791)
constexpr int64_t kLongest = 65'535;
constexpr int64_t kWaitNs = 80 * kNsPerMs;     // for the answer to a first try, and some round trips
constexpr int64_t kMostWaitNs = kNsPerSecond;  // the coordinator gives up a rank that tests for too long
constexpr int64_t kRoundTrips = 4;
constexpr int kTries = 3;  // of one length, before it counts as lost
constexpr int64_t kSizesInTurn = 24;
constexpr int kTurns = 5;  // 24 sizes each: 24^4 is more than the longest packet

class Prober {
 public:
  Prober(const Peer& peer, int64_t wait_ns)
      : secret_(peer.secret),
        wait_ns_(wait_ns),
        v6_(peer.udp.family() == AF_INET6),
        fd_(::socket(peer.udp.family(), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    // DF is set, and what the kernel knows of the path is not used (ip(7), ipv6(7)).
    set(v6_ ? IPPROTO_IPV6 : IPPROTO_IP, v6_ ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER,
        v6_ ? IPV6_PMTUDISC_PROBE : IP_PMTUDISC_PROBE);
    set(v6_ ? IPPROTO_IPV6 : IPPROTO_IP, v6_ ? IPV6_RECVERR : IP_RECVERR, 1);
    connected_ = ::connect(fd_.get(), peer.udp.get(), peer.udp.size) == 0;
  }

  [[nodiscard]] bool usable() const { return connected_; }
  /// The next-hop MTU of the last ICMP message; 0: there was none.
  [[nodiscard]] int64_t reported() const { return reported_; }

  [[nodiscard]] int64_t route_mtu() const {
    int mtu = 0;
    socklen_t size = sizeof mtu;
    return ::getsockopt(fd_.get(), v6_ ? IPPROTO_IPV6 : IPPROTO_IP, v6_ ? IPV6_MTU : IP_MTU, &mtu, &size) == 0 ? mtu
                                                                                                               : 0;
  }

  /// Sends one packet of this length. False: longer than this host's own interface allows.
  bool send(int64_t packet_bytes) {
    const int64_t payload = packet_bytes - (v6_ ? 40 + 8 : 20 + 8);
    std::string datagram(static_cast<size_t>(payload), '\0');
    const Probe probe{.number = static_cast<uint32_t>(packet_bytes)};
    std::memcpy(datagram.data(), secret_.data(), secret_.size());
    std::memcpy(datagram.data() + secret_.size(), &probe, sizeof probe);
    for (int i = 0; i < 2; ++i) {  // an ICMP message that came before is an error of the first call
      if (::send(fd_.get(), datagram.data(), datagram.size(), MSG_NOSIGNAL) >= 0) {
        return true;
      }
      const int error = errno;
      const int64_t before = reported_;
      read_errors();
      if (error == EMSGSIZE && reported_ == before) {
        return false;
      }
    }
    return true;
  }

  /// Reads answers until one of `length` came, or the time is over, which is longer for later attempts.
  bool wait_for(int64_t length, int attempt = 0) {
    const int64_t end_ns = monotonic_now_ns() + std::min(wait_ns_ << attempt, kMostWaitNs);
    while (!arrived_.contains(length)) {
      const int64_t left_ms = (end_ns - monotonic_now_ns() + kNsPerMs - 1) / kNsPerMs;
      if (left_ms <= 0) {
        return false;
      }
      pollfd one{.fd = fd_.get(), .events = POLLIN};
      (void)::poll(&one, 1, static_cast<int>(left_ms));
      read_answers();
      read_errors();
    }
    return true;
  }

  [[nodiscard]] const std::set<int64_t>& arrived() const { return arrived_; }

 private:
  void set(int level, int name, int value) const { (void)::setsockopt(fd_.get(), level, name, &value, sizeof value); }

  void read_answers() {
    std::array<char, kSecretBytes + sizeof(Probe)> answer{};
    ssize_t size = 0;
    while ((size = ::recv(fd_.get(), answer.data(), answer.size(), MSG_DONTWAIT)) > 0) {
      Probe probe;
      if (static_cast<size_t>(size) == answer.size() && std::string_view(answer.data(), kSecretBytes) == secret_) {
        std::memcpy(&probe, answer.data() + kSecretBytes, sizeof probe);
        if (probe.bytes + (v6_ ? 48U : 28U) == probe.number) {
          arrived_.insert(probe.number);
        }
      }
    }
  }

  /// ICMP's "fragmentation needed", ICMPv6's "packet too big": ee_info is the MTU of the next hop (ip(7)).
  void read_errors() {
    std::array<char, 512> control{};
    msghdr message{.msg_control = control.data(), .msg_controllen = control.size()};
    while (::recvmsg(fd_.get(), &message, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0) {
      for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr; at = CMSG_NXTHDR(&message, at)) {
        sock_extended_err error{};
        const bool is_error = (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_RECVERR) ||
                              (at->cmsg_level == IPPROTO_IPV6 && at->cmsg_type == IPV6_RECVERR);
        if (is_error && at->cmsg_len >= CMSG_LEN(sizeof error)) {
          std::memcpy(&error, CMSG_DATA(at), sizeof error);
          if (error.ee_errno == EMSGSIZE && error.ee_origin != SO_EE_ORIGIN_LOCAL && error.ee_info > 0) {
            reported_ = error.ee_info;
          }
        }
      }
      message.msg_controllen = control.size();
    }
  }

  std::string secret_;
  int64_t wait_ns_;
  bool v6_;
  UniqueFd fd_;
  bool connected_ = false;
  int64_t reported_ = 0;
  std::set<int64_t> arrived_;
};

/// Whether a packet of this length arrives in one of some tries.
bool passes(Prober& prober, int64_t length) {
  for (int i = 0; i < kTries; ++i) {
    if (!prober.send(length)) {
      return false;
    }
    if (prober.wait_for(length, i)) {
      return true;
    }
  }
  return false;
}

/// The longest that arrives, which is at least `low` and below `high`: many lengths at once, twice each.
int64_t search(Prober& prober, int64_t low, int64_t high) {
  for (int turn = 0; turn < kTurns && high - low > 1; ++turn) {
    std::set<int64_t> tried;
    for (int64_t i = 1; i <= kSizesInTurn; ++i) {
      tried.insert(std::clamp(low + (high - low) * i / (kSizesInTurn + 1), low + 1, high - 1));
    }
    for (int copy = 0; copy < 2; ++copy) {
      for (const int64_t length : tried) {
        (void)prober.send(length);
      }
    }
    (void)prober.wait_for(*tried.rbegin());
    for (const int64_t length : tried) {
      if (prober.arrived().contains(length)) {
        low = length;
      }
    }
    const auto next = tried.upper_bound(low);
    high = next == tried.end() ? high : *next;
  }
  return low;
}

}  // namespace

PathMtu test_path_mtu(const Peer& peer, int64_t interface_mtu, int64_t round_trip_ns) {
  Prober prober(peer, std::min(kWaitNs + kRoundTrips * round_trip_ns, kMostWaitNs));
  // 0: the interface is not known, its route is.
  const int64_t known = interface_mtu > 0 ? interface_mtu : prober.route_mtu();
  PathMtu found{.own = std::clamp(known, kSmallest, kLongest)};
  if (!prober.usable()) {
    return found;
  }
  if (!prober.send(found.own)) {  // the route takes another interface
    found.own = std::clamp(prober.route_mtu(), kSmallest, found.own);
  }
  if (passes(prober, found.own)) {
    found.largest = found.own;
  } else if (passes(prober, kSmallest)) {
    found.largest = search(prober, kSmallest, found.own);
  }
  found.reported = prober.reported();
  return found;
}

}  // namespace stalltrace::preflight
