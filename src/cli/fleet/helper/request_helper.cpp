// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/helper/request_helper.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/handle.h"
#include "base/io/poll_until.h"
#include "base/untrusted/killed_children.h"
#include "cli/fleet/helper/answer_lines.h"
#include "cli/fleet/helper/frames.h"
#include "cli/fleet/helper/helper_main.h"
#include "serve/json/json.h"

namespace stalltrace::cli {
namespace {

using serve::Json;

constexpr int64_t kReadyNs = 5 * kNsPerSecond;     // for the helper to give up its rights
constexpr int64_t kSilenceNs = 30 * kNsPerSecond;  // of the helper, while its work goes on
constexpr int64_t kLateNs = 5 * kNsPerSecond;      // for the end of work that was ended
constexpr std::string_view kLines = "application/x-ndjson";

}  // namespace

/// The server's end. The request that has set `busy` uses it alone.
struct RequestHelper::Connection {
  explicit Connection(const HelperWork& its) : work(its) {}

  const HelperWork& work;
  UniqueFd socket;
  pid_t pid = -1;
  std::atomic<bool> busy = false;
  FrameReader reader;
  bool unread = false;  // the end of earlier work is still to be read
  bool broken = false;
};

/// The work for one request, as its answer's pieces. One thread at a time.
class RequestHelper::Work {
 public:
  explicit Work(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work() {
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
      return fail(fmt::format("the process for {} is silent", connection_->work.it));  // the destructor has it end that
    }
    ended_ = got == FrameReader::Got::kGone || piece.empty();
    if (got == FrameReader::Got::kGone) {
      connection_->broken = true;
      return fail(fmt::format("the process for {} is gone", connection_->work.it));
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

Result<std::unique_ptr<RequestHelper>> RequestHelper::start(const HelperWork& work) {
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    return fail_errno("socketpair", errno);
  }
  auto connection = std::make_shared<Connection>(work);
  connection->socket = UniqueFd(pair[0]);
  UniqueFd its(pair[1]);
  const pid_t parent = ::getpid();
  connection->pid = ::fork();
  if (connection->pid < 0) {
    return fail_errno("fork", errno);
  }
  if (connection->pid == 0) {
    run_helper(work, its.get(), parent);
  }
  its.reset();  // so that its end is seen
  char ready = 0;
  if (!wait_readable(connection->socket.get(), monotonic_now_ns() + kReadyNs) ||
      ::recv(connection->socket.get(), &ready, 1, 0) != 1) {
    KilledChildren().kill(connection->pid);
    return fail(fmt::format("the process for {} of {} can't be prepared", work.it, work.flag),
                work.keeps_rights
                    ? "does this host lack memory or processes?"
                    : "start the server as another user than root, or leave it CAP_SETUID and CAP_SETGID");
  }
  return std::unique_ptr<RequestHelper>(new RequestHelper(std::move(connection)));
}

RequestHelper::RequestHelper(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}

RequestHelper::~RequestHelper() {
  ::shutdown(connection_->socket.get(), SHUT_RDWR);  // it ends
  (void)::waitpid(connection_->pid, nullptr, WNOHANG);
}

void RequestHelper::leave_to_child() { connection_->socket.reset(); }

std::shared_ptr<RequestHelper::Work> RequestHelper::take(serve::HttpAnswer& refusal) {
  Connection& connection = *connection_;
  bool free = false;
  if (!connection.busy.compare_exchange_strong(free, true)) {
    refusal = serve::answer_of_error(409, std::string(connection.work.busy), "ask again when that has ended");
    return nullptr;
  }
  auto taken = std::make_shared<Work>(connection_);  // from here on it is busy until this is gone
  const int64_t end_ns = monotonic_now_ns() + kLateNs;
  while (connection.unread && !connection.broken) {
    std::string rest;
    const FrameReader::Got got =
        connection.reader.next(connection.socket.get(), std::max<int64_t>(end_ns - monotonic_now_ns(), 0), rest);
    if (got == FrameReader::Got::kLate) {
      refusal = serve::answer_of_error(409, "what an earlier request started is still being ended", "ask again");
      return nullptr;
    }
    connection.broken = got == FrameReader::Got::kGone;
    connection.unread = !connection.broken && !rest.empty();
  }
  char byte = 0;
  connection.broken = connection.broken || ::recv(connection.socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  if (connection.broken) {
    refusal = serve::answer_of_error(500, fmt::format("the process for {} is gone", connection.work.it),
                                     "start the server again");
    return nullptr;
  }
  return taken;
}

serve::HttpAnswer RequestHelper::ready() {
  serve::HttpAnswer answer{.content_type = std::string(kLines), .body = line_of(Json::object({{"ready", true}}))};
  const auto taken = take(answer);
  return answer;
}

serve::HttpAnswer RequestHelper::answer(const std::string& request) {
  serve::HttpAnswer answer{.content_type = std::string(kLines)};
  const auto taken = take(answer);
  if (!taken) {
    return answer;
  }
  if (!send_frame(connection_->socket.get(), request)) {
    connection_->broken = true;
    return serve::answer_of_error(500, fmt::format("the process for {} is gone", connection_->work.it),
                                  "start the server again");
  }
  taken->begin();
  answer.next_piece = [taken] { return taken->next(); };
  return answer;
}

}  // namespace stalltrace::cli
