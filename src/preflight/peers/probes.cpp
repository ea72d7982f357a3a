// SPDX-License-Identifier: Apache-2.0
#include "preflight/peers/probes.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "base/numbers/median.h"
#include "preflight/peers/responder.h"

namespace stalltrace::preflight {
namespace {

constexpr int64_t kConnectNs = 3 * kNsPerSecond;  // the kernel repeats a SYN after 1 s: two may be lost
constexpr int64_t kAnswerNs = 2 * kNsPerSecond;
constexpr int64_t kRoundTrips = 200;
constexpr int64_t kRoundTripsNs = 200 * kNsPerMs;
constexpr size_t kPingBytes = 64;
constexpr size_t kSendBytes = 256 << 10;  // a call to send

Reach reach_of(int error) {
  switch (error) {
    case ECONNREFUSED:
    case ECONNRESET:
      return Reach::kRefused;
    case ETIMEDOUT:
      return Reach::kTimedOut;
    default:
      return Reach::kUnreachable;
  }
}

std::string text_of(int error) { return error == ETIMEDOUT ? "no answer for 3 s" : std::strerror(error); }

/// What this host lacks says nothing of the network.
bool is_own_limit(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM || error == EADDRNOTAVAIL;
}

/// A connection that has sent the secret and the request. An `error` is of connecting.
Connected open_service(const Peer& peer, Service service, Segments segments = Segments::kFull) {
  Connected made = connect_within(peer.tcp, kConnectNs, segments == Segments::kSmall);
  if (made.error == 0) {
    const std::string greeting = peer.secret + static_cast<char>(service);
    (void)::send(made.fd.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL);
  }
  return made;
}

bool receive_all(int fd, char* data, size_t size) {
  for (size_t have = 0; have < size;) {
    const ssize_t read = ::recv(fd, data + have, size - have, 0);
    if (read <= 0) {
      return false;
    }
    have += static_cast<size_t>(read);
  }
  return true;
}

void limit_answers(int fd, int64_t limit_ns) {
  const timeval limit{.tv_sec = limit_ns / kNsPerSecond, .tv_usec = limit_ns % kNsPerSecond / kNsPerUs};
  (void)::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

struct Counters {
  int64_t acked = 0;
  int64_t retransmits = 0;
  int64_t segments = 0;
  int64_t busy_us = 0;
  int64_t receiver_us = 0;
};

Counters read_counters(const std::vector<UniqueFd>& streams) {
  Counters sum;
  for (const UniqueFd& stream : streams) {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(stream.get(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0) {
      sum.acked += static_cast<int64_t>(info.tcpi_bytes_acked);
      sum.retransmits += info.tcpi_total_retrans;
      sum.segments += info.tcpi_data_segs_out;
      sum.busy_us += static_cast<int64_t>(info.tcpi_busy_time);
      sum.receiver_us += static_cast<int64_t>(info.tcpi_rwnd_limited);
    }
  }
  return sum;
}

/// Whether all that was sent has been acknowledged.
bool all_acked(const std::vector<UniqueFd>& streams) {
  return std::ranges::all_of(streams, [](const UniqueFd& stream) {
    int left = 0;
    return ::ioctl(stream.get(), SIOCOUTQ, &left) == 0 && left == 0;
  });
}

/// Does not block.
void prepare_stream(int fd, const FlowLimits& limits) {
  if (limits.mbit > 0) {
    const auto bytes_per_second = static_cast<uint64_t>(limits.mbit) * 125'000 / static_cast<uint64_t>(limits.streams);
    (void)::setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_second, sizeof bytes_per_second);
  }
  const linger drop{.l_onoff = 1, .l_linger = 0};  // what was not sent at the end is discarded
  (void)::setsockopt(fd, SOL_SOCKET, SO_LINGER, &drop, sizeof drop);
  (void)::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/// Sends on all streams, as each takes it.
class Sender {
 public:
  Sender(const std::vector<UniqueFd>& streams, int64_t bytes)
      : streams_(streams), left_(bytes), data_(kSendBytes, 'x') {}
  /// Waits until one takes more, at most this long, and fills it. False: they are broken.
  bool turn(int64_t longest_ns) {
    std::vector<pollfd> polled;
    polled.reserve(streams_.size());
    for (const UniqueFd& stream : streams_) {
      polled.push_back({.fd = stream.get(), .events = static_cast<short>(left_ > 0 ? POLLOUT : 0)});
    }
    const timespec longest{.tv_sec = longest_ns / kNsPerSecond, .tv_nsec = longest_ns % kNsPerSecond};
    const int64_t before_ns = monotonic_now_ns();
    const int ready = ::ppoll(polled.data(), polled.size(), &longest, nullptr);
    waited_ns_ += monotonic_now_ns() - before_ns;
    for (size_t i = 0; ready > 0 && i < polled.size(); ++i) {
      if ((polled[i].revents & (POLLERR | POLLHUP)) != 0) {
        return false;
      }
      if (polled[i].revents != 0 && left_ > 0) {
        const size_t size = std::min<size_t>(data_.size(), static_cast<size_t>(left_));
        const ssize_t sent = ::send(streams_[i].get(), data_.data(), size, MSG_NOSIGNAL | MSG_DONTWAIT);
        left_ -= std::max<ssize_t>(sent, 0);
      }
    }
    return true;
  }
  [[nodiscard]] int64_t left() const { return left_; }
  [[nodiscard]] int64_t waited_ns() const { return waited_ns_; }

 private:
  const std::vector<UniqueFd>& streams_;
  int64_t left_;
  std::vector<char> data_;
  int64_t waited_ns_ = 0;
};

}  // namespace

void test_reach(const Peer& peer, PairResult& result) {
  const Connected connected = open_service(peer, Service::kEcho);
  if (connected.error != 0) {
    result.reach = reach_of(connected.error);
    result.reach_detail = text_of(connected.error);
    return;
  }
  limit_answers(connected.fd.get(), kAnswerNs);
  std::array<char, kPingBytes> ping{};
  std::array<char, kPingBytes> back{};
  std::vector<int64_t> trips_ns;
  const int64_t begin_ns = monotonic_now_ns();
  while (static_cast<int64_t>(trips_ns.size()) < kRoundTrips &&
         (trips_ns.empty() || monotonic_now_ns() - begin_ns < kRoundTripsNs)) {
    // Other bytes each time: a program that sends something of its own is no rank's test port.
    if (::getrandom(ping.data(), ping.size(), 0) != static_cast<ssize_t>(ping.size())) {
      result.reach_detail = "no random bytes on the node that tests";
      return;
    }
    const int64_t sent_ns = monotonic_now_ns();
    if (::send(connected.fd.get(), ping.data(), ping.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(ping.size()) ||
        !receive_all(connected.fd.get(), back.data(), back.size())) {
      result.reach = Reach::kBroken;
      result.reach_detail = "connected, but 64 bytes did not come back within 2 s";
      return;
    }
    trips_ns.push_back(monotonic_now_ns() - sent_ns);
    if (back != ping) {
      result.reach = Reach::kBroken;
      result.reach_detail = "connected, but other bytes than those that were sent came back";
      return;
    }
  }
  result.reach = Reach::kReached;
  result.latency =
      Latency{.max_ns = *std::ranges::max_element(trips_ns), .round_trips = static_cast<int64_t>(trips_ns.size())};
  result.latency->median_ns = median(std::move(trips_ns));
}

std::expected<Flow, int> test_flow(const Peer& peer, const FlowLimits& limits, Segments segments) {
  std::vector<UniqueFd> streams;
  for (int64_t i = 0; i < limits.streams; ++i) {
    Connected connected = open_service(peer, Service::kDiscard, segments);
    if (connected.error != 0) {
      return std::unexpected(connected.error);
    }
    prepare_stream(connected.fd.get(), limits);
    streams.push_back(std::move(connected.fd));
  }
  Sender sender(streams, limits.bytes);
  const int64_t begin_ns = monotonic_now_ns();
  const int64_t end_ns = begin_ns + limits.time_ns;
  // TCP begins slowly: the first quarter does not count, unless one send takes all.
  int64_t from_ns = 0;
  int64_t waited_before_ns = 0;
  Counters first;
  int64_t now_ns = begin_ns;
  bool broken = false;
  for (; now_ns < end_ns; now_ns = monotonic_now_ns()) {
    if (from_ns == 0 && sender.left() > 0 &&
        (now_ns - begin_ns >= limits.time_ns / 4 || sender.left() <= limits.bytes / 4 * 3)) {
      from_ns = now_ns;
      waited_before_ns = sender.waited_ns();
      first = read_counters(streams);
    }
    const bool sending = sender.left() > 0;
    broken = !sender.turn(std::min(end_ns - now_ns, sending ? 20 * kNsPerMs : kNsPerMs));
    if (broken || (!sending && all_acked(streams))) {
      break;
    }
  }
  const Counters last = read_counters(streams);
  now_ns = monotonic_now_ns();
  if (from_ns == 0) {
    from_ns = begin_ns;
    first.acked = limits.streams * static_cast<int64_t>(peer.secret.size() + 1);  // the greetings
  }
  if (broken && last.acked <= first.acked) {  // closed at the first data, as by a proxy
    return std::unexpected(ECONNRESET);
  }
  const int64_t duration_ns = std::max<int64_t>(now_ns - from_ns, 1);
  const int64_t busy_us = std::max<int64_t>(last.busy_us, 1);
  return Flow{.bytes = std::clamp<int64_t>(last.acked - first.acked, 0, limits.bytes),
              .duration_ns = duration_ns,
              .retransmits = last.retransmits,
              .segments = last.segments,
              .waited = static_cast<double>(sender.waited_ns() - waited_before_ns) / static_cast<double>(duration_ns),
              .receiver = static_cast<double>(last.receiver_us) / static_cast<double>(busy_us)};
}

void test_alone(const Peer& peer, const FlowLimits& limits, PairResult& result) {
  if (const auto flow = test_flow(peer, limits)) {
    result.alone = *flow;
  } else {
    result.flow_reach = is_own_limit(flow.error()) ? Reach::kNotTested : reach_of(flow.error());
    result.flow_detail = text_of(flow.error());
  }
}

}  // namespace stalltrace::preflight
