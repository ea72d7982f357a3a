// SPDX-License-Identifier: Apache-2.0
#include "launch/supervision/supervisor.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "launch/supervision/running_time.h"

namespace stalltrace::launch {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRound{500};
constexpr milliseconds kClearing{10'000};  // a worker leaves nothing behind of a command that was not started

/// -1 stands for nothing to wait for.
template <size_t count>
void wait_for_any(const std::array<int, count>& descriptors, milliseconds limit) {
  std::array<pollfd, count> waits{};
  std::ranges::transform(descriptors, waits.begin(), [](int fd) { return pollfd{.fd = fd, .events = POLLIN}; });
  (void)::poll(waits.data(), waits.size(), static_cast<int>(limit.count()));
}

std::string text_of(milliseconds time) { return format_duration(time.count() * kNsPerMs); }

/// Lines, each with a '\0' behind it.
std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += line + '\0';
  }
  return text;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (const std::string_view line : split(text, '\0')) {
    if (!line.empty()) {
      lines.emplace_back(line);
    }
  }
  return lines;
}

}  // namespace

Patience Patience::of(milliseconds time) {
  constexpr int kToStart = 10;  // loading programs into the kernel takes longest
  return {.start = kToStart * time, .store = time, .analysis = time};
}

Patience Patience::outer() const {
  constexpr milliseconds kMargin{5000};
  return {.start = start + kMargin, .store = 2 * store + kMargin, .analysis = analysis + kMargin, .silence = silence};
}

Supervisor::Supervisor(Job& job, std::string what, Rest rest, const Patience& patience, Report report)
    : job_(job), what_(std::move(what)), rest_(std::move(rest)), patience_(patience), report_(std::move(report)) {}

std::optional<int> Supervisor::prepare(const char* name, const Worker::Work& work) {
  auto worker = Worker::start(name, work);
  if (!worker) {
    lose("could not be started: " + worker.error().what);
    return std::nullopt;
  }
  worker_.emplace(std::move(*worker));
  RunningTime time;
  milliseconds waited{0};
  while (worker_ && !ready_ && !job_.interrupted()) {
    wait_for_any(std::array{worker_->channel().descriptor(), worker_->end_descriptor(), job_.early_descriptor()},
                 kRound);
    look();
    waited += time.passed();
    if (worker_ && !ready_ && waited >= patience_.start) {
      lose(fmt::format("is not ready after {}, and was killed", text_of(patience_.start)));
    }
  }
  const bool refused = !ready_ && ended_ && !unexpected_end(*ended_) && !ended_->success();
  return refused ? ended_->code : std::nullopt;
}

Status Supervisor::start(const std::vector<std::string>& command) {
  Status started = job_.start(command, environment_);
  started_ = started.has_value();
  if (worker_) {
    worker_->channel().send(started_ ? MessageKind::kStarted : MessageKind::kNotStarted);
  }
  if (worker_ && !started_) {
    worker_->ask_to_finish();
    wait_for_worker(std::min(patience_.store, kClearing), "has not ended", [] { return false; });
  }
  return started;
}

Result<int> Supervisor::wait() {
  // Whatever is wrong with memory here, the command is awaited and its exit code returned.
  try {
    watch_job();
  } catch (const std::bad_alloc&) {
  }
  Result<int> code = job_.wait();
  job_ended_ = true;
  try {
    finish(code.value_or(1));
  } catch (const std::bad_alloc&) {
  }
  return code;
}

void Supervisor::watch_job() {
  bool passed_on = false;
  SilenceWatch silence(patience_.silence);
  pollfd end{.fd = job_.descriptor(), .events = POLLIN, .revents = 0};
  while (worker_ && ::poll(&end, 1, 0) == 0) {
    wait_for_any(std::array{job_.descriptor(), worker_->channel().descriptor(), worker_->end_descriptor()}, kRound);
    if (look() && silence.ends()) {
      report_({.what = fmt::format("{} gets on again", what_)});
    }
    if (worker_ && silence.lasts()) {
      report_({.what = fmt::format("{} has not moved for {}", what_, text_of(silence.limit())),
               .remedy = "a disk or a file server may not answer; the job goes on"});
    }
    if (worker_ && !passed_on && job_.asked_to_end()) {
      passed_on = worker_->channel().send(MessageKind::kAskedToEnd);
    }
  }
}

bool Supervisor::look() {
  if (!worker_) {
    return false;
  }
  bool came = false;
  ended_ = worker_->wait_for(milliseconds(0));  // before the last messages are taken
  while (const auto message = worker_->channel().receive()) {
    came = true;
    if (message->kind == MessageKind::kReady) {
      ready_ = true;
      environment_ = lines_of(message->bytes);
    }
    stored_ = stored_ || message->kind == MessageKind::kStored;
  }
  if (!ended_) {
    return came;
  }
  if (const auto how = unexpected_end(*ended_)) {
    lose(*how);
  }
  worker_.reset();
  return came;
}

void Supervisor::finish(int code) {
  if (!worker_) {
    return;
  }
  worker_->channel().send(MessageKind::kEnded, std::string_view(reinterpret_cast<const char*>(&code), sizeof code));
  worker_->ask_to_finish();
  wait_for_worker(patience_.store, "has not stored the recording", [this] { return stored_; });
  job_.release();  // from here on a signal costs the explanation at most
  wait_for_worker(patience_.analysis, "has not ended", [] { return false; });
}

template <typename Done>
void Supervisor::wait_for_worker(milliseconds limit, const char* what_is_late, Done done) {
  RunningTime time;
  milliseconds waited{0};
  for (look(); worker_ && !done(); look()) {
    if (waited >= limit) {
      lose(fmt::format("{} after {}, and was killed", what_is_late, text_of(limit)));
      return;
    }
    wait_for_any(std::array{worker_->channel().descriptor(), worker_->end_descriptor()},
                 std::min(kRound, limit - waited));
    waited += time.passed();
  }
}

void Supervisor::lose(const std::string& how) {
  worker_.reset();
  const Loss when = !started_     ? Loss::kBeforeTheStart
                    : !job_ended_ ? Loss::kWhileTheCommandRuns
                    : !stored_    ? Loss::kAfterItsEnd
                                  : Loss::kAfterAllWasStored;
  report_({.what = fmt::format("{} {}", what_, how), .remedy = rest_(when, environment_)});
}

void JobNews::ready(const std::vector<std::string>& environment) { send(MessageKind::kReady, joined(environment)); }

void JobNews::send(MessageKind kind, std::string_view bytes) {
  constexpr int kRounds = 60;
  for (int round = 0; round < kRounds && !launcher_.channel.send(kind, bytes); ++round) {
    pollfd room{.fd = descriptor(), .events = POLLOUT, .revents = 0};
    (void)::poll(&room, 1, static_cast<int>(kRound.count()));
  }
}

bool JobNews::wait_for_start() {
  while (!started_) {
    wait_for_any(std::array{descriptor()}, milliseconds(-1));
    look();
  }
  return *started_;
}

void JobNews::look() {
  while (const auto message = launcher_.channel.receive()) {
    take(*message);
  }
  if (launcher_.channel.is_closed()) {  // the kernel is about to end us
    started_ = started_.value_or(false);
    code_ = code_.value_or(1);
    return;
  }
  launcher_.channel.send(MessageKind::kAlive);
}

void JobNews::take(const Message& message) {
  switch (message.kind) {
    case MessageKind::kStarted:
    case MessageKind::kNotStarted:
      started_ = message.kind == MessageKind::kStarted;
      break;
    case MessageKind::kAskedToEnd:
      asked_to_end_ = true;
      break;
    case MessageKind::kEnded:
      if (int code = 0; message.bytes.size() == sizeof code) {
        message.bytes.copy(reinterpret_cast<char*>(&code), sizeof code);
        code_ = code;
      }
      break;
    default:
      break;
  }
}

}  // namespace stalltrace::launch
