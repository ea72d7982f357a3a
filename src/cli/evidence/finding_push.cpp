// SPDX-License-Identifier: Apache-2.0
#include "cli/evidence/finding_push.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <expected>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/files/caller.h"
#include "base/io/write_all.h"
#include "base/rights/capabilities.h"
#include "base/text.h"
#include "cli/framework/exit_code.h"
#include "fleet/push.h"

namespace stalltrace::cli {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMostWaiting = 1000;         // findings
constexpr size_t kMostTogether = 100U << 10;  // bytes of one try; a server takes 256 KiB
constexpr int64_t kOneTryNs = 10 * kNsPerSecond;
constexpr int64_t kLastTriesNs = 5 * kNsPerSecond;  // once the trace has ended
constexpr milliseconds kEnd{6000};                  // for the child to end after that
constexpr int64_t kShortestWaitNs = kNsPerSecond / 4;
constexpr int64_t kLongestWaitNs = 30 * kNsPerSecond;
constexpr int kMostOfOneName = 100;  // of one name
constexpr size_t kMostOfAnError = 4000;
constexpr size_t kMostOfAMessage = 60U << 10;  // a channel's is 64 KiB

struct Line {
  std::string name;  // of the agent's recording
  std::string text;
};

/// Gives lines to where they go; one try.
class Sender {
 public:
  virtual ~Sender() = default;
  virtual std::expected<void, fleet::PushFailure> send(const std::string& name, const std::string& lines,
                                                       int64_t limit_ns) = 0;
};

class ToServer final : public Sender {
 public:
  ToServer(fleet::NodeAddress server, fleet::ClientOptions client)
      : server_(std::move(server)), client_(std::move(client)) {}
  std::expected<void, fleet::PushFailure> send(const std::string& /*name*/, const std::string& lines,
                                               int64_t limit_ns) override {
    client_.limit = milliseconds(std::max<int64_t>(limit_ns / kNsPerMs, 1));
    auto taken = fleet::push_findings(lines, server_, client_);
    return taken ? std::expected<void, fleet::PushFailure>() : std::unexpected(std::move(taken.error()));
  }

 private:
  fleet::NodeAddress server_;
  fleet::ClientOptions client_;
};

class ToFolder final : public Sender {
 public:
  ToFolder(std::string folder, Readers readers) : folder_(std::move(folder)), readers_(readers) {}
  std::expected<void, fleet::PushFailure> send(const std::string& name, const std::string& lines,
                                               int64_t /*limit_ns*/) override {
    Status written = file_ ? Status() : open(name);
    if (written) {
      written = append(lines);
    }
    return written ? std::expected<void, fleet::PushFailure>()
                   : std::unexpected(fleet::PushFailure{.error = std::move(written.error()), .may_pass = true});
  }

 private:
  /// A new file: one that is there may be another user's.
  Status open(const std::string& name) {
    for (int number = 1; number <= kMostOfOneName; ++number) {
      path_ = fmt::format("{}/{}{}.findings.jsonl", folder_, name, number == 1 ? "" : fmt::format("-{}", number));
      file_ = UniqueFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
      if (file_ || errno != EEXIST) {
        break;
      }
    }
    if (!file_ || ::fchmod(file_.get(), file_mode(readers_)) != 0) {
      const int error = errno;
      file_.reset();
      return fail_errno(path_, error);
    }
    (void)hand_to_caller(file_.get());
    return {};
  }
  Status append(const std::string& lines) {
    struct stat status {};
    if (::fstat(file_.get(), &status) != 0) {
      return fail_errno(path_, errno);
    }
    if (write_all(file_.get(), lines) && (::fsync(file_.get()) == 0 || errno == EINVAL)) {
      return {};
    }
    Status failed = fail_errno(path_, errno);
    if (::ftruncate(file_.get(), status.st_size) != 0) {  // the lines come again as a whole
      failed.error().what += "; a part of the lines is in it";
    }
    return failed;
  }

  std::string folder_;
  Readers readers_;
  std::string path_;
  UniqueFd file_;
};

/// The child's whole work.
class Handing {
 public:
  Handing(launch::WorkerSide& parent, Sender& sender) : parent_(parent), sender_(sender) {}

  void run() {
    while (!stopping_ || (!waiting_.empty() && try_at_ns_ < end_ns_)) {
      wait();
      take();
      if (!waiting_.empty() && monotonic_now_ns() >= try_at_ns_) {
        hand_over();
      }
    }
  }

 private:
  /// For lines, for the end, or for the time of the next try.
  void wait() {
    std::array<pollfd, 2> waits{{{.fd = parent_.channel.descriptor(), .events = POLLIN, .revents = 0},
                                 {.fd = stopping_ ? -1 : parent_.stop.get(), .events = POLLIN, .revents = 0}}};
    const int64_t left_ns = std::max<int64_t>(try_at_ns_ - monotonic_now_ns(), 0);
    (void)::poll(waits.data(), waits.size(), waiting_.empty() ? -1 : static_cast<int>(left_ns / kNsPerMs) + 1);
    if (parent_.channel.is_closed() || (waits[1].revents & POLLIN) != 0) {
      stop();
    }
  }
  /// The last try is at once.
  void stop() {
    if (!std::exchange(stopping_, true)) {
      try_at_ns_ = monotonic_now_ns();
      wait_ns_ = kShortestWaitNs;
      end_ns_ = try_at_ns_ + kLastTriesNs;
    }
  }
  void take() {
    while (auto message = parent_.channel.receive()) {
      const size_t name = message->bytes.find('\n');
      if (name == std::string::npos) {
        continue;
      }
      if (waiting_.size() < kMostWaiting) {  // the parent sees how many were handed over
        waiting_.push_back({message->bytes.substr(0, name), message->bytes.substr(name + 1)});
      }
    }
    if (parent_.channel.is_closed()) {
      stop();
    }
  }
  void hand_over() {
    std::string lines;
    size_t count = 0;
    // A try that failed may have been stored: only the same lines again are known there.
    const size_t most = again_ > 0 ? again_ : waiting_.size();
    while (count < most && (count == 0 || lines.size() + waiting_[count].text.size() <= kMostTogether)) {
      lines += waiting_[count++].text;
    }
    again_ = 0;
    const int64_t left_ns = stopping_ ? std::max(end_ns_ - monotonic_now_ns(), kNsPerMs) : kOneTryNs;
    const auto handed = sender_.send(waiting_.front().name, lines, left_ns);
    if (handed) {
      waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
      wait_ns_ = kShortestWaitNs;
      failed_ = false;
      handed_ += count;
      parent_.channel.send(launch::MessageKind::kFlushed, fmt::format("{}", handed_));
      return;
    }
    if (!std::exchange(failed_, true)) {
      const Error& error = handed.error().error;
      parent_.channel.send(launch::MessageKind::kAlive, (error.what + "\n" + error.remedy).substr(0, kMostOfAnError));
    }
    if (!handed.error().may_pass) {
      waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
      return;
    }
    again_ = count;
    try_at_ns_ = monotonic_now_ns() + wait_ns_;
    wait_ns_ = std::min(2 * wait_ns_, kLongestWaitNs);
  }

  launch::WorkerSide& parent_;
  Sender& sender_;
  std::deque<Line> waiting_;
  size_t again_ = 0;  // of the first: as many as the last try had, which failed
  uint64_t handed_ = 0;
  bool failed_ = false;
  bool stopping_ = false;
  int64_t try_at_ns_ = 0;
  int64_t wait_ns_ = kShortestWaitNs;
  int64_t end_ns_ = 0;
};

int hand_over_findings(launch::WorkerSide& parent, const PushTarget& target, const LoadClient& load, Readers readers) {
  std::unique_ptr<Sender> sender = std::make_unique<ToFolder>(target.shown, readers);
  if (target.server) {
    auto client = load();
    if (!client) {
      parent.channel.send(launch::MessageKind::kAlive, client.error().what + "\n" + client.error().remedy);
      return kExitFailed;
    }
    sender = std::make_unique<ToServer>(*target.server, *std::move(client));
  }
  // As for the recording's copy: root may write to the folder of any user, and give files to who called it.
  const Capabilities of_files =
      capability_bit(CAP_DAC_OVERRIDE) | capability_bit(CAP_FOWNER) | capability_bit(CAP_CHOWN);
  if (!keep_capabilities(target.server ? 0 : of_files)) {
    parent.channel.send(launch::MessageKind::kAlive, "the process for findings can't give up its capabilities\n");
    return kExitFailed;
  }
  Handing(parent, *sender).run();
  return kExitDone;
}

}  // namespace

Result<FindingPush> FindingPush::start(const PushTarget& target, const LoadClient& load, Readers readers) {
  ST_ASSIGN(launch::Worker worker, launch::Worker::start("st-findings", [&](launch::WorkerSide& side) {
              return hand_over_findings(side, target, load, readers);
            }));
  return FindingPush(std::move(worker));
}

void FindingPush::send(const std::string& name, const std::string& line) {
  ++made_;
  const std::string message = name + "\n" + line;
  if (message.size() <= kMostOfAMessage) {
    worker_.channel().send(launch::MessageKind::kAlive, message);
  }
}

std::optional<Error> FindingPush::problem() {
  std::optional<Error> problem;
  while (const auto message = worker_.channel().receive()) {
    if (message->kind == launch::MessageKind::kFlushed) {
      handed_ = static_cast<uint64_t>(parse_integer(message->bytes).value_or(0));
      continue;
    }
    const size_t line = std::min(message->bytes.find('\n'), message->bytes.size());
    problem = Error{.what = "a finding is not handed over: " + message->bytes.substr(0, line),
                    .remedy = line < message->bytes.size() ? message->bytes.substr(line + 1) : std::string()};
  }
  return problem;
}

uint64_t FindingPush::finish() {
  worker_.ask_to_finish();
  (void)worker_.wait_for(kEnd);
  (void)problem();
  worker_.kill();
  return made_ - std::min(handed_, made_);
}

}  // namespace stalltrace::cli
