// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/preflight_helper.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/handle.h"
#include "base/io/poll_until.h"
#include "base/untrusted/killed_children.h"
#include "cli/fleet/preflight/answer_lines.h"
#include "cli/fleet/preflight/frames.h"
#include "cli/fleet/preflight/tests_helper.h"
#include "serve/json/json.h"

namespace stalltrace::cli {
namespace {

using serve::Json;
using serve::PreflightRequest;

constexpr int64_t kReadyNs = 5 * kNsPerSecond;     // for the helper to give up its rights
constexpr int64_t kSilenceNs = 30 * kNsPerSecond;  // of the helper, while tests go on
constexpr int64_t kLateNs = 5 * kNsPerSecond;      // for the end of tests that were ended

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
    run_tests_helper(its.get(), parent);
  }
  its.reset();  // so that its end is seen
  char ready = 0;
  if (!wait_readable(connection->socket.get(), monotonic_now_ns() + kReadyNs) ||
      ::recv(connection->socket.get(), &ready, 1, 0) != 1) {
    KilledChildren().kill(connection->pid);
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
