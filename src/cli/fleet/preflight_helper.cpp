// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/preflight_helper.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/handle.h"
#include "base/process/descriptors.h"
#include "base/process/subprocess.h"
#include "base/rights/capabilities.h"
#include "base/text.h"
#include "base/untrusted/helper_child.h"
#include "base/untrusted/sandbox.h"
#include "capture/discover/identity.h"
#include "cli/fleet/network_tests.h"
#include "launch/supervision/worker.h"
#include "preflight/peers/launch_output.h"
#include "serve/json/json.h"

extern "C" char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the program

namespace stalltrace::cli {
namespace {

using serve::Json;
using serve::PreflightRequest;

constexpr int kSocketInChild = 3;
constexpr size_t kLongestFrame = 1 << 20;
constexpr size_t kPieceBytes = 64 << 10;
constexpr int64_t kMostReportBytes = 128 << 20;    // of one run
constexpr int64_t kAliveNs = kNsPerSecond;         // an empty line at least this often
constexpr int64_t kSilenceNs = 30 * kNsPerSecond;  // of the helper, while tests go on
constexpr int64_t kLateNs = 5 * kNsPerSecond;      // for the end of tests that were ended
constexpr std::string_view kToken = "STALLTRACE_TOKEN=";

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryCanBeLimited = false;  // their shadow memory is larger than any limit
#else
constexpr bool kMemoryCanBeLimited = true;
#endif

/// Bytes after their number, over a socket between the server and its helper. None at all: the end of the tests, or,
/// from the server, that they are to end.
bool send_bytes(int fd, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = ::send(fd, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) {
      continue;
    }
    if (sent <= 0) {
      return false;
    }
    at += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

bool send_frame(int fd, std::string_view bytes) {
  const auto size = static_cast<uint32_t>(bytes.size());
  return send_bytes(fd, &size, sizeof size) && send_bytes(fd, bytes.data(), bytes.size());
}

/// -1: no limit. False: not readable within the time.
bool wait_readable(int fd, int64_t limit_ns) {
  const int64_t end_ns = monotonic_now_ns() + limit_ns;
  for (;;) {
    pollfd one{.fd = fd, .events = POLLIN};
    const int64_t left_ms = std::max<int64_t>((end_ns - monotonic_now_ns() + kNsPerMs - 1) / kNsPerMs, 0);
    const int ready = ::poll(&one, 1, limit_ns < 0 ? -1 : static_cast<int>(left_ms));
    if (ready > 0 || (ready < 0 && errno != EINTR) || (ready == 0 && limit_ns >= 0)) {
      return ready > 0;
    }
  }
}

/// Reads such frames. What has come of one when the time is over is kept.
class FrameReader {
 public:
  enum class Got : uint8_t { kFrame, kLate, kGone };
  /// -1: no limit for the time without any byte.
  Got next(int fd, int64_t limit_ns, std::string& frame) {
    for (;;) {
      uint32_t size = 0;
      size_t wanted = sizeof size;
      if (begun_.size() >= wanted) {
        std::memcpy(&size, begun_.data(), sizeof size);
        if (size > kLongestFrame) {
          return Got::kGone;
        }
        wanted += size;
      }
      if (begun_.size() >= sizeof size && begun_.size() == wanted) {
        frame = begun_.substr(sizeof size);
        begun_.clear();
        return Got::kFrame;
      }
      if (!wait_readable(fd, limit_ns)) {
        return Got::kLate;
      }
      const size_t have = begun_.size();
      begun_.resize(wanted);
      const ssize_t got = ::recv(fd, begun_.data() + have, wanted - have, 0);
      const bool gone = got == 0 || (got < 0 && errno != EINTR);
      begun_.resize(have + static_cast<size_t>(std::max<ssize_t>(got, 0)));
      if (gone) {
        return Got::kGone;
      }
    }
  }

 private:
  std::string begun_;
};

/// Lines on their way to the server, which may be slow to take them.
class Outbox {
 public:
  [[nodiscard]] bool empty() const { return frames_.empty(); }
  [[nodiscard]] bool in_line() const { return in_line_; }
  void add(std::string_view bytes) {
    const auto size = static_cast<uint32_t>(bytes.size());
    frames_.append(reinterpret_cast<const char*>(&size), sizeof size);
    frames_ += bytes;
    in_line_ = bytes.empty() ? in_line_ : !bytes.ends_with('\n');
  }
  void add(const Error& error);
  void add_end() { add(std::string_view()); }
  /// What the server takes now. False: it is gone.
  bool send_some() { return send(MSG_DONTWAIT); }
  bool send_all() { return send(0); }

 private:
  bool send(int flags) {
    size_t done = 0;
    bool gone = false;
    while (done < frames_.size() && !gone) {
      const ssize_t sent = ::send(kSocketInChild, frames_.data() + done, frames_.size() - done, MSG_NOSIGNAL | flags);
      if (sent < 0 && errno == EAGAIN) {
        break;
      }
      gone = sent < 0 && errno != EINTR;
      done += static_cast<size_t>(std::max<ssize_t>(sent, 0));
    }
    frames_.erase(0, done);
    return !gone;
  }

  std::string frames_;
  bool in_line_ = false;  // the last byte was within a line
};

std::string line_of(const Json& json) { return json.dump() + "\n"; }

std::string line_of(const Error& error) {
  return line_of(Json::object({{"error", error.what}, {"remedy", error.remedy}}));
}

void Outbox::add(const Error& error) { add((in_line_ ? "\n" : "") + line_of(error)); }

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return false;
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// ---- The process that makes the tests.

preflight::Launch launch_of(const PreflightRequest& request) {
  preflight::Launch launch{.rank = request.rank,
                           .world_size = request.ranks,
                           .name = capture::node_name(""),
                           .master = fmt::format("{}", fmt::join(request.masters, ", ")),
                           .masters = request.masters,
                           .port = request.port,
                           .secret = request.secret,
                           .rank_names = request.nodes,
                           .wait_ns = request.wait_ms * kNsPerMs,
                           .most_rounds = request.rounds};
  if (request.masters.size() == 1) {
    launch.listen_at = request.masters.front();
  }
  launch.flow.bytes = request.test_bytes;
  launch.flow.time_ns = request.test_ms * kNsPerMs;
  launch.flow.mbit = request.max_mbit;
  return launch;
}

std::vector<preflight::HostCheck> checks_of(const std::vector<PreflightRequest::Missing>& missing) {
  std::vector<preflight::HostCheck> checks;
  for (const PreflightRequest::Missing& one : missing) {
    checks.push_back({.check = "launch",
                      .subject = "node",
                      .outcome = preflight::Outcome::kFailed,
                      .detail = fmt::format("{} takes no part: {}", one.node, one.reason),
                      .remedy = "is 'stalltrace serve --allow-preflight' running there?"});
  }
  return checks;
}

Result<bool> coordinate(const PreflightRequest& request, const preflight::Launch& launch, int out) {
  if (!preflight::has_address(launch.masters)) {
    return fail(fmt::format("{} is no address of {} itself", launch.master, launch.name),
                "name the first node by the address that the other nodes reach it by");
  }
  const LaunchReporter reporter{
      .announce =
          [out](const std::string& line) {
            (void)write_all(out, line_of(Json::object({{"step", line}})));
          },
      .rank_failed =
          [out](const Error& error) {
            (void)write_all(out, line_of(Json::object({{"step", error.what}})));
          },
      .report = [&](const preflight::LaunchResults& results, const preflight::Judgement& judgement) -> Status {
        const std::string report =
            request.json ? preflight::launch_json(results, judgement) : preflight::launch_text(results, judgement);
        if (!write_all(out, line_of(Json::object({{"failed", judgement.failed()}, {"report", report}})))) {
          return fail("nothing reads the report");
        }
        return {};
      },
      .known = checks_of(request.missing)};
  return coordinate_launch(launch, own_environment(), reporter);
}

int make_tests(const std::string& bytes, int out) {
  const auto request = serve::parse_preflight_request(bytes);
  if (!request) {
    (void)write_all(out, line_of(request.error()));
    return 1;
  }
  const preflight::Launch launch = launch_of(*request);
  if (request->rank == 0) {
    const auto failed = coordinate(*request, launch, out);
    if (!failed) {
      (void)write_all(out, line_of(failed.error()));
    }
    return failed ? 0 : 1;
  }
  const auto failed = take_part_in_launch(launch, own_environment());
  (void)write_all(out, failed ? line_of(Json::object({{"failed", *failed}})) : line_of(failed.error()));
  return failed ? 0 : 1;
}

// ---- The helper.

/// Its memory has the environment of the server, and the token may be there.
void forget_token() {
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    if (std::string_view(*at).starts_with(kToken)) {
      ::explicit_bzero(*at + kToken.size(), std::strlen(*at) - kToken.size());
    }
  }
}

/// As root it becomes the user nobody; it has no capability from here on.
bool give_up_rights(pid_t parent) {
  return (::geteuid() != 0 || become_nobody(parent)) && keep_capabilities(0) && die_with_parent(parent);
}

/// Where the kernel has to choose, it takes the tests instead of the server, or of the trace that it belongs to.
void go_first_when_memory_runs_out() {
  const UniqueFd file(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  (void)!::write(file.get(), "1000", 4);
}

/// Of the calling process and of each that it starts.
void limit_memory() {
  rlimit limit{};
  if (kMemoryCanBeLimited && ::getrlimit(RLIMIT_AS, &limit) == 0) {
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_cur, launch::memory_of_a_worker());
    ::setrlimit(RLIMIT_AS, &limit);
  }
}

/// A process group of its own, so that what it starts ends with it.
struct Running {
  pid_t pid = -1;
  UniqueFd output;
};

std::optional<Running> start_tests(const std::string& request) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return std::nullopt;
  }
  UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    ::setpgid(0, 0);
    if (!die_with_parent(parent)) {
      ::_exit(1);
    }
    ::close(kSocketInChild);
    read_end.reset();
    limit_memory();
    try {
      ::_exit(make_tests(request, write_end.get()));
    } catch (const std::exception&) {
      (void)write_all(write_end.get(), line_of(Error{.what = "no memory is left for the tests"}));
    }
    ::_exit(1);
  }
  if (child < 0) {
    return std::nullopt;
  }
  ::setpgid(child, child);
  return Running{.pid = child, .output = std::move(read_end)};
}

/// How a child ended. Nothing: it has not within this time. With WNOWAIT it is not reaped, and its number stays its
/// own.
std::optional<siginfo_t> wait_for_end(pid_t pid, int64_t limit_ns, int flags = 0) {
  const int64_t end_ns = monotonic_now_ns() + limit_ns;
  for (;;) {
    siginfo_t info{};
    const int failed = ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | flags);
    if (failed == 0 && info.si_pid == pid) {
      return info;
    }
    if ((failed != 0 && errno != EINTR) || monotonic_now_ns() >= end_ns) {
      return std::nullopt;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

/// One that hangs in the kernel is left to it.
void end_tests(const Running& running) {
  ::kill(-running.pid, SIGKILL);
  ::kill(running.pid, SIGKILL);
  (void)wait_for_end(running.pid, kLateNs);
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {  // what they had started is this process's now
  }
}

enum class Ended : uint8_t { kByThemselves, kByTime, kBySize, kByServer, kServerGone };

/// Hands on what the tests write, until they end, their time is over, or the server wants no more.
Ended hand_on(const Running& running, int64_t limit_ns, FrameReader& orders, Outbox& out) {
  const int64_t end_ns = monotonic_now_ns() + limit_ns;
  int64_t sent_bytes = 0;
  int64_t spoke_ns = monotonic_now_ns();
  std::vector<char> piece(kPieceBytes);
  for (;;) {
    const int64_t now_ns = monotonic_now_ns();
    if (now_ns >= end_ns) {
      return Ended::kByTime;
    }
    if (sent_bytes > kMostReportBytes) {
      return Ended::kBySize;
    }
    // While the server has not taken the last piece, there is no next one; its wish to end is read all the same.
    const bool taken = out.empty();
    std::array<pollfd, 2> polled{
        {{.fd = taken ? running.output.get() : -1, .events = POLLIN},
         {.fd = kSocketInChild, .events = static_cast<short>(taken ? POLLIN : POLLIN | POLLOUT)}}};
    const bool speaks = taken && !out.in_line();  // an empty line; within a line it would break that
    const int64_t wait_ns = (speaks ? std::min(end_ns, spoke_ns + kAliveNs) : end_ns) - now_ns;
    (void)::poll(polled.data(), polled.size(), static_cast<int>(std::max<int64_t>(wait_ns / kNsPerMs, 0) + 1));
    if ((polled[1].revents & ~POLLOUT) != 0) {
      std::string order;
      return orders.next(kSocketInChild, -1, order) == FrameReader::Got::kFrame ? Ended::kByServer : Ended::kServerGone;
    }
    if (polled[0].revents != 0) {
      const ssize_t got = ::read(running.output.get(), piece.data(), piece.size());
      if (got == 0 || (got < 0 && errno != EINTR)) {
        return Ended::kByThemselves;
      }
      if (got > 0) {
        sent_bytes += got;
        spoke_ns = monotonic_now_ns();
        out.add({piece.data(), static_cast<size_t>(got)});
      }
    } else if (speaks && monotonic_now_ns() - spoke_ns >= kAliveNs) {
      spoke_ns = monotonic_now_ns();
      out.add("\n");
    }
    if (!out.send_some()) {
      return Ended::kServerGone;
    }
  }
}

/// Makes the tests of one request. False: the server is gone.
bool serve_request(const std::string& request, FrameReader& orders) {
  Outbox out;
  const auto parsed = serve::parse_preflight_request(request);
  const auto running = parsed ? start_tests(request) : std::nullopt;
  if (!running) {
    out.add(Error{.what = "no process can be started for the tests",
                  .remedy = "raise the limits of processes and open files"});
    out.add_end();
    return out.send_all();
  }
  const int64_t limit_ns = parsed->limit_ms * kNsPerMs;
  const Ended ended = hand_on(*running, limit_ns, orders, out);
  const auto end = ended == Ended::kByThemselves ? wait_for_end(running->pid, kNsPerSecond, WNOWAIT) : std::nullopt;
  end_tests(*running);  // before anything waits for the server
  if (ended == Ended::kServerGone) {
    return false;
  }
  if (ended == Ended::kByTime) {
    out.add(Error{.what = fmt::format("the tests were ended after {}", format_duration(limit_ns)),
                  .remedy = "test fewer nodes, or give --rounds"});
  } else if (ended == Ended::kBySize) {
    out.add(Error{.what = "the report is too large", .remedy = "test fewer nodes, or give --rounds"});
  } else if (end && end->si_code != CLD_EXITED) {
    out.add(Error{.what = "the process of the tests was ended by " + format_exit({.signal = end->si_status}),
                  .remedy = "has that node memory left?"});
  }
  out.add_end();
  return out.send_all();
}

[[noreturn]] void run_helper(int socket, pid_t parent) {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);  // Ctrl-C ends the server, which closes the socket
  ::prctl(PR_SET_NAME, "st-preflight");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // what the tests leave is reaped here, not by the server
  if (::dup2(socket, kSocketInChild) < 0) {
    ::_exit(1);
  }
  close_all_but(kSocketInChild);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {0, 1, 2}) {
    ::dup2(null, standard);
  }
  forget_token();
  go_first_when_memory_runs_out();  // with another user's id it may no longer
  const char ready = '\n';
  if (!give_up_rights(parent) || !send_bytes(kSocketInChild, &ready, sizeof ready)) {
    ::_exit(1);
  }
  FrameReader orders;
  std::string request;
  while (orders.next(kSocketInChild, -1, request) == FrameReader::Got::kFrame) {
    // An empty one came after the end of the tests that it was for.
    if (!request.empty() && !serve_request(request, orders)) {
      break;
    }
  }
  ::_exit(0);
}

}  // namespace

/// The server's end. The request that has set `busy` uses it alone.
struct PreflightHelper::Connection {
  UniqueFd socket;
  pid_t pid = -1;
  std::atomic<bool> busy = false;
  FrameReader reader;
  bool unread = false;  // the end of earlier tests is still to be read
  bool broken = false;
};

/// The tests of one request, as its answer's pieces. One thread at a time.
class PreflightHelper::Tests {
 public:
  explicit Tests(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  Tests(const Tests&) = delete;
  Tests& operator=(const Tests&) = delete;
  ~Tests() {
    if (!ended_) {  // the client has left
      connection_->broken = connection_->broken || !send_frame(connection_->socket.get(), "");
      connection_->unread = true;
    }
    release();
  }

  /// After the helper got the request.
  void begin() { ended_ = false; }
  /// Empty: the end.
  Result<std::string> next() {
    if (ended_) {
      return std::string();
    }
    std::string piece;
    const FrameReader::Got got = connection_->reader.next(connection_->socket.get(), kSilenceNs, piece);
    if (got == FrameReader::Got::kLate) {
      return fail("the process for the tests is silent");  // the destructor has it end them
    }
    ended_ = got == FrameReader::Got::kGone || piece.empty();
    if (got == FrameReader::Got::kGone) {
      connection_->broken = true;
      return fail("the process for the tests is gone");
    }
    if (ended_) {
      release();  // before the client learns of the end
    }
    return piece;
  }

 private:
  void release() {
    if (std::exchange(holds_, false)) {
      connection_->busy = false;
    }
  }

  std::shared_ptr<Connection> connection_;
  bool ended_ = true;
  bool holds_ = true;
};

Result<std::unique_ptr<PreflightHelper>> PreflightHelper::start() {
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    return fail_errno("socketpair", errno);
  }
  auto connection = std::make_shared<Connection>();
  connection->socket = UniqueFd(pair[0]);
  UniqueFd its(pair[1]);
  const pid_t parent = ::getpid();
  connection->pid = ::fork();
  if (connection->pid < 0) {
    return fail_errno("fork", errno);
  }
  if (connection->pid == 0) {
    run_helper(its.get(), parent);
  }
  its.reset();  // so that its end is seen
  char ready = 0;
  if (!wait_readable(connection->socket.get(), kLateNs) || ::recv(connection->socket.get(), &ready, 1, 0) != 1) {
    ::kill(connection->pid, SIGKILL);
    (void)wait_for_end(connection->pid, kNsPerSecond);
    return fail("the process for the tests of --allow-preflight can't give up its rights",
                "start the server as another user than root, or leave it CAP_SETUID and CAP_SETGID");
  }
  return std::unique_ptr<PreflightHelper>(new PreflightHelper(std::move(connection)));
}

PreflightHelper::PreflightHelper(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}

PreflightHelper::~PreflightHelper() {
  ::shutdown(connection_->socket.get(), SHUT_RDWR);  // it ends
  (void)::waitpid(connection_->pid, nullptr, WNOHANG);
}

void PreflightHelper::leave_to_child() { connection_->socket.reset(); }

serve::HttpAnswer PreflightHelper::answer(const PreflightRequest& request) {
  Connection& connection = *connection_;
  bool free = false;
  if (!connection.busy.compare_exchange_strong(free, true)) {
    return serve::answer_of_error(409, "this node takes part in other tests of the network",
                                  "ask again when they have ended");
  }
  // From here on it is busy until `tests` is gone.
  const auto tests = std::make_shared<Tests>(connection_);
  const int64_t end_ns = monotonic_now_ns() + kLateNs;
  while (connection.unread && !connection.broken) {
    std::string rest;
    const FrameReader::Got got =
        connection.reader.next(connection.socket.get(), std::max<int64_t>(end_ns - monotonic_now_ns(), 0), rest);
    if (got == FrameReader::Got::kLate) {
      return serve::answer_of_error(409, "earlier tests of the network are still being ended", "ask again");
    }
    connection.broken = got == FrameReader::Got::kGone;
    connection.unread = !connection.broken && !rest.empty();
  }
  char byte = 0;
  connection.broken = connection.broken || ::recv(connection.socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  const bool started =
      !connection.broken && (request.only_ready || send_frame(connection.socket.get(), serve::to_json(request)));
  if (!started) {
    connection.broken = true;
    return serve::answer_of_error(500, "the process for the tests is gone", "start the server again");
  }
  if (request.only_ready) {
    return {.content_type = "application/x-ndjson", .body = line_of(Json::object({{"ready", true}}))};
  }
  tests->begin();
  serve::HttpAnswer answer{.content_type = "application/x-ndjson"};
  answer.next_piece = [tests] { return tests->next(); };
  return answer;
}

}  // namespace stalltrace::cli
