// SPDX-License-Identifier: Apache-2.0
// The commands are those of rasClientEventLoop in src/ras/client_support.cc of NCCL: a line each. RAS closes the
// connection after its status.
#include "cli/evidence/ask_ras.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/handle.h"
#include "base/net/loopback.h"
#include "base/text.h"
#include "preflight/peers/endpoint.h"

namespace stalltrace::cli {
namespace {

constexpr std::string_view kQuestion = "CLIENT PROTOCOL 2\nTIMEOUT 5\nSET FORMAT json\nVERBOSE STATUS\n";
constexpr int64_t kConnectNs = 3 * kNsPerSecond;
// RAS gives a process that does not answer 10 s, for each of what may be two rounds.
constexpr int64_t kAnswerNs = 30 * kNsPerSecond;
constexpr size_t kLongestAnswer = size_t{128} << 20;
constexpr std::string_view kRemedy =
    "run it on a host of the job, inside of its container or network namespace; NCCL_RAS_ADDR has the address if it is "
    "set there, and NCCL_RAS_ENABLE=0 turns RAS off; NCCL has it from 2.24 on";

struct Address {
  std::string number;
  uint16_t port = 0;
};

/// "localhost:28028", "127.0.0.1:28028", "[::1]:28028"
Result<Address> parse(const std::string& text) {
  const size_t colon = text.rfind(':');
  const Result<int64_t> port = parse_integer(colon == std::string::npos ? "" : text.substr(colon + 1));
  std::string number = text.substr(0, std::min(colon, text.size()));
  if (number.starts_with('[') && number.ends_with(']')) {
    number = number.substr(1, number.size() - 2);
  }
  number = is_localhost(number) ? kLocalhostNumber : number;
  if (!port || *port <= 0 || *port > 65'535 || !preflight::Endpoint::of(number, 1) || number.empty()) {
    return fail(fmt::format("--ras {}: no address", text),
                "give what NCCL_RAS_ADDR has, with a number for the host: localhost:28028", ErrorKind::kUsage);
  }
  return Address{number, static_cast<uint16_t>(*port)};
}

/// Whether it is a report at all; it is read later, without rights.
Result<std::string> checked(const std::string& name, std::string answer) {
  if (answer.find("ommunicators") != std::string::npos) {
    return answer;
  }
  return fail(fmt::format("NCCL's RAS at {}: it answered something else: {}", name,
                          printable(std::string_view(answer).substr(0, 80))),
              "see what listens there");
}

Result<std::string> ask(const std::string& name, const preflight::Endpoint& to, int64_t answer_ns,
                        size_t most_bytes = kLongestAnswer) {
  const preflight::Connected connected = preflight::connect_within(to, kConnectNs);
  if (!connected.fd) {
    return fail(fmt::format("NCCL's RAS at {}: {}", name, std::strerror(connected.error)), std::string(kRemedy));
  }
  const int fd = connected.fd.get();
  if (::send(fd, kQuestion.data(), kQuestion.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(kQuestion.size())) {
    return fail(fmt::format("NCCL's RAS at {}: it closed the connection", name), std::string(kRemedy));
  }
  const int64_t deadline_ns = monotonic_now_ns() + answer_ns;
  std::string answer;
  std::string part(size_t{64} << 10, '\0');
  while (answer.size() < most_bytes) {
    const int64_t left_ns = deadline_ns - monotonic_now_ns();
    pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
    if (left_ns <= 0 || ::poll(&readable, 1, static_cast<int>(left_ns / kNsPerMs) + 1) == 0) {
      return fail(fmt::format("NCCL's RAS at {}: no whole answer within {}", name, format_duration(answer_ns)),
                  std::string(kRemedy));
    }
    const ssize_t got = ::recv(fd, part.data(), part.size(), MSG_DONTWAIT);
    if (got == 0) {
      return checked(name, std::move(answer));
    }
    if (got > 0) {
      answer.append(part, 0, static_cast<size_t>(got));
    } else if (errno != EINTR && errno != EAGAIN) {
      return fail(fmt::format("NCCL's RAS at {}: {}", name, std::strerror(errno)), std::string(kRemedy));
    }
  }
  return fail(fmt::format("NCCL's RAS at {}: its answer is longer than {}", name,
                          format_size(static_cast<int64_t>(most_bytes))),
              "see what listens there");
}

}  // namespace

Result<std::vector<import::RasAnswer>> ask_ras(const std::string& address, int64_t between_ns, Console& console) {
  ST_ASSIGN(const Address where, parse(address));
  ST_ASSIGN(const preflight::Endpoint to, preflight::Endpoint::of(where.number, where.port));
  std::vector<import::RasAnswer> answers;
  for (int i = 0; i < 2; ++i) {
    if (i > 0) {
      if (console.shows_progress()) {
        console.live(fmt::format("NCCL's RAS answered; asking again in {}", format_duration(between_ns)));
      }
      const int64_t until_ns = monotonic_now_ns() + between_ns;
      for (int64_t left_ns = between_ns; left_ns > 0; left_ns = until_ns - monotonic_now_ns()) {
        ::poll(nullptr, 0, static_cast<int>(left_ns / kNsPerMs) + 1);
      }
      if (console.shows_progress()) {
        console.live("");
      }
    }
    import::RasAnswer& answer = answers.emplace_back();
    answer.address = address;
    answer.asked_ns = utc_now_ns();
    ST_ASSIGN(answer.text, ask(address, to, kAnswerNs));
  }
  return answers;
}

Result<import::RasAnswer> ask_ras_of(const Procfs& procfs, pid_t pid, const std::string& address, int64_t answer_ns,
                                     size_t most_bytes) {
  ST_ASSIGN(const Address where, parse(address));
  ST_ASSIGN(const preflight::Endpoint to, preflight::Endpoint::of(where.number, where.port));
  import::RasAnswer answer{.address = address, .asked_ns = utc_now_ns(), .text = {}};
  const uint64_t netns = procfs.netns(pid);
  if (netns == procfs.netns(::getpid())) {
    ST_ASSIGN(answer.text, ask(address, to, answer_ns, most_bytes));
    return answer;
  }
  const UniqueFd file(::open(procfs.path(pid, "ns/net").c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    return fail_errno(fmt::format("open the network namespace of process {}", pid), errno, "run as root");
  }
  Result<std::string> answered = std::string();
  std::thread([&] {  // which ends in that namespace
    answered = ::setns(file.get(), CLONE_NEWNET) == 0
                   ? ask(address, to, answer_ns, most_bytes)
                   : fail_errno(fmt::format("enter the network namespace of process {}", pid), errno, "run as root");
  })
      .join();
  ST_ASSIGN(answer.text, std::move(answered));
  return answer;
}

}  // namespace stalltrace::cli
