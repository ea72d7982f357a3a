// SPDX-License-Identifier: Apache-2.0
#include "preflight/peers/responder.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/clock.h"

namespace stalltrace::preflight {
namespace {

constexpr size_t kMostConnections = 128;
constexpr size_t kMostPiece = 1 << 20;  // read of one connection before others have their turn
constexpr int kDatagramsInTurn = 64;
constexpr int64_t kGreetingNs = 3 * kNsPerSecond;  // a connection says the secret within this time

class Client {
 public:
  Client(UniqueFd fd, int64_t now_ns) : fd_(std::move(fd)), opened_ns_(now_ns) {}
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool overdue(int64_t now_ns) const {
    return greeting_.size() <= kSecretBytes && now_ns - opened_ns_ > kGreetingNs;
  }
  /// False: it is over.
  bool read(std::string_view secret) {
    return greeting_.size() <= kSecretBytes ? read_greeting(secret) : service_ == Service::kEcho ? echo() : discard();
  }

 private:
  static bool again(ssize_t read) { return read < 0 && (errno == EAGAIN || errno == EINTR); }

  bool read_greeting(std::string_view secret) {
    std::array<char, kSecretBytes + 1> piece{};
    const ssize_t read = ::recv(fd(), piece.data(), piece.size() - greeting_.size(), MSG_DONTWAIT);
    if (read <= 0) {
      return again(read);
    }
    greeting_.append(piece.data(), static_cast<size_t>(read));
    if (greeting_.size() <= kSecretBytes) {
      return true;
    }
    service_ = static_cast<Service>(greeting_.back());
    return is_secret(std::string_view(greeting_).substr(0, kSecretBytes), secret) &&
           (service_ == Service::kEcho || service_ == Service::kDiscard);
  }

  bool echo() {
    std::array<char, 4096> piece{};
    const ssize_t read = ::recv(fd(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (read <= 0) {
      return again(read);
    }
    return ::send(fd(), piece.data(), static_cast<size_t>(read), MSG_NOSIGNAL | MSG_DONTWAIT) == read;
  }

  bool discard() {
    // With MSG_TRUNC the kernel forgets the bytes of a TCP socket without copying them (tcp(7)).
    const ssize_t read = ::recv(fd(), nullptr, kMostPiece, MSG_TRUNC | MSG_DONTWAIT);
    return read > 0 || again(read);
  }

  UniqueFd fd_;
  int64_t opened_ns_;
  std::string greeting_;
  Service service_ = Service::kEcho;
};

void answer_datagrams(int udp, std::string_view secret) {
  std::array<char, 65536> datagram{};
  for (int i = 0; i < kDatagramsInTurn; ++i) {
    Endpoint from;
    from.size = sizeof from.storage;
    const ssize_t size = ::recvfrom(udp, datagram.data(), datagram.size(), MSG_DONTWAIT, from.get(), &from.size);
    if (size < 0) {
      return;
    }
    Probe probe;
    const size_t least = kSecretBytes + sizeof probe;
    if (static_cast<size_t>(size) < least || !is_secret({datagram.data(), kSecretBytes}, secret)) {
      continue;
    }
    std::memcpy(&probe, datagram.data() + kSecretBytes, sizeof probe);
    probe.bytes = static_cast<uint32_t>(size);
    std::memcpy(datagram.data() + kSecretBytes, &probe, sizeof probe);
    (void)::sendto(udp, datagram.data(), least, MSG_DONTWAIT, from.get(), from.size);
  }
}

void respond(int tcp, int udp, int wake, const std::string& secret) {
  std::vector<Client> clients;
  bool accepts = true;  // not in the turn after it failed: the listener stays readable
  for (;;) {
    std::vector<pollfd> polled{
        {.fd = wake, .events = POLLIN},
        {.fd = udp, .events = POLLIN},
        {.fd = tcp, .events = static_cast<short>(accepts && clients.size() < kMostConnections ? POLLIN : 0)}};
    for (const Client& client : clients) {
      polled.push_back({.fd = client.fd(), .events = POLLIN});
    }
    const int turn_ms = accepts ? 500 : 100;
    if (::poll(polled.data(), polled.size(), turn_ms) < 0 && errno != EINTR) {
      return;
    }
    if (polled[0].revents != 0) {
      return;
    }
    if (polled[1].revents != 0) {
      answer_datagrams(udp, secret);
    }
    const int64_t now_ns = monotonic_now_ns();
    std::vector<Client> left;
    for (size_t i = 0; i < clients.size(); ++i) {
      const bool alive = polled[i + 3].revents == 0 || clients[i].read(secret);
      if (alive && !clients[i].overdue(now_ns)) {
        left.push_back(std::move(clients[i]));
      }
    }
    clients = std::move(left);
    accepts = true;
    if (polled[2].revents != 0) {
      if (UniqueFd fd(::accept(tcp, nullptr, nullptr)); fd) {
        const int on = 1;
        (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        clients.emplace_back(std::move(fd), now_ns);
      } else {
        accepts = false;
      }
    }
  }
}

}  // namespace

bool is_secret(std::string_view given, std::string_view secret) {
  unsigned difference = given.size() == secret.size() ? 0 : 1;
  for (size_t i = 0; i < secret.size() && i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(secret[i]);
  }
  return difference == 0;
}

Result<Responder> Responder::open(const std::string& address) {
  Responder made;
  ST_ASSIGN(const Endpoint at, Endpoint::of(address, 0));
  ST_ASSIGN(made.tcp_, listen_on(at));
  ST_ASSIGN(made.udp_, bind_datagrams(at));
  made.wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  std::array<unsigned char, kSecretBytes / 2> random{};
  if (!made.wake_ || ::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    return fail_errno("make a secret", errno);
  }
  for (const unsigned char byte : random) {
    made.secret_ += fmt::format("{:02x}", byte);
  }
  return made;
}

void Responder::start() {
  thread_ = std::jthread(
      [tcp = tcp_.get(), udp = udp_.get(), wake = wake_.get(), secret = secret_](const std::stop_token& stop) {
        const std::stop_callback wakes(stop, [wake] { (void)::eventfd_write(wake, 1); });
        respond(tcp, udp, wake, secret);
      });
}

}  // namespace stalltrace::preflight
