// SPDX-License-Identifier: Apache-2.0
#include "cli/evidence/push.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <expected>
#include <utility>

#include "base/files/disposable_folder.h"
#include "base/handle.h"
#include "base/rights/capabilities.h"
#include "base/text.h"
#include "cli/framework/exit_code.h"
#include "fleet/push.h"
#include "launch/supervision/worker.h"
#include "store/copy.h"
#include "store/hand_over.h"

namespace stalltrace::cli {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kFirstPauseNs = kNsPerSecond / 4;
constexpr int64_t kLongestPauseNs = 10 * kNsPerSecond;
constexpr milliseconds kRest{500};  // for the child's own last word
constexpr milliseconds kCheck{10'000};

/// Where it is now, for people, and whether it was there already.
struct Pushed {
  std::string where;
  bool was_there = false;
};

/// One try within that time.
using Try = std::function<std::expected<Pushed, fleet::PushFailure>(int64_t left_ns)>;

/// From half of it to all: many nodes that end at the same time try again at different ones.
int64_t some_of(int64_t pause_ns) { return pause_ns / 2 + monotonic_now_ns() % (pause_ns / 2); }

std::expected<Pushed, fleet::PushFailure> try_until(const Try& once, int64_t deadline_ns, int stop) {
  for (int64_t pause_ns = kFirstPauseNs;; pause_ns = std::min(2 * pause_ns, kLongestPauseNs)) {
    auto pushed = once(std::max(deadline_ns - monotonic_now_ns(), kNsPerMs));
    if (pushed || !pushed.error().may_pass || deadline_ns - monotonic_now_ns() <= pause_ns) {
      return pushed;
    }
    pollfd stopped{.fd = stop, .events = POLLIN, .revents = 0};
    if (::poll(&stopped, 1, static_cast<int>(some_of(pause_ns) / kNsPerMs)) > 0) {
      return pushed;
    }
  }
}

std::unexpected<fleet::PushFailure> failure(Error error) {
  const bool may_pass = error.kind == ErrorKind::kFailed;  // a wrong name does not get right by waiting
  return std::unexpected(fleet::PushFailure{.error = std::move(error), .may_pass = may_pass});
}

Try to_folder(const std::string& recording, const std::string& folder, Readers readers) {
  return [=](int64_t /*left_ns*/) -> std::expected<Pushed, fleet::PushFailure> {
    auto handed = store::hand_over(recording, folder, readers);
    return handed ? std::expected<Pushed, fleet::PushFailure>(Pushed{handed->path, handed->was_there})
                  : failure(std::move(handed.error()));
  };
}

/// Opens one state of the recording, and sends it.
std::expected<Pushed, fleet::PushFailure> push_to_server(const std::string& recording, const PushTarget& target,
                                                         const LoadClient& load, int64_t deadline_ns, int stop) {
  auto client = load();
  if (!client) {
    return failure(std::move(client.error()));
  }
  // For a copy of one that is being written; where no such folder can be made, others can be sent all the same.
  const auto copies = DisposableFolder::make("stalltrace-push-");
  const auto file = store::open_copy(recording, copies ? copies->path() : std::string());
  if (!file) {
    return failure(file.error());
  }
  // What follows talks to another host.
  if (!keep_capabilities(0)) {
    return failure(fail("the process that sends it can't give up its capabilities").error());
  }
  const auto recorded = fleet::prepare_to_send(file->get());
  if (!recorded) {
    return failure(recorded.error());
  }
  const Try once = [&](int64_t left_ns) -> std::expected<Pushed, fleet::PushFailure> {
    client->limit = milliseconds(std::max<int64_t>(left_ns / kNsPerMs, 1));
    auto taken = fleet::push_recording(*recorded, *target.server, *client);
    if (!taken) {
      return std::unexpected(std::move(taken.error()));
    }
    return Pushed{fmt::format("{} as {}", target.shown, taken->name), taken->was_there};
  };
  return try_until(once, deadline_ns, stop);
}

/// How a child reports a failure.
std::string failure_text(const Error& error) {
  return (error.kind == ErrorKind::kUsage ? "-u" : "-f") + error.what + "\n" + error.remedy;
}

/// What failure_text() wrote, after `context`.
std::unexpected<Error> failure_of(const std::string& context, const std::string& text) {
  const ErrorKind kind = text.substr(0, 2) == "-u" ? ErrorKind::kUsage : ErrorKind::kFailed;
  const std::string rest = text.substr(std::min<size_t>(2, text.size()));
  const size_t line = std::min(rest.find('\n'), rest.size());
  return fail(context + rest.substr(0, line), line < rest.size() ? rest.substr(line + 1) : std::string(), kind);
}

}  // namespace

Result<PushTarget> PushTarget::parse(const std::string& text) {
  PushTarget target{.shown = text, .server = std::nullopt};
  if (fleet::is_url(text)) {
    ST_ASSIGN(target.server, fleet::parse_push_url(text));
  }
  return target;
}

Status check_client(const LoadClient& load, const fleet::NodeAddress& server) {
  auto worker = launch::Worker::start("st-push", [&](launch::WorkerSide& side) {
    const auto client = load();
    const Status usable = client ? fleet::check_push(server, *client) : Status(std::unexpected(client.error()));
    side.channel.send(launch::MessageKind::kStored, usable ? "+" : failure_text(usable.error()));
    return kExitDone;
  });
  if (!worker) {
    return std::unexpected(std::move(worker.error()));
  }
  const auto ended = worker->wait_for(kCheck);
  const std::optional<launch::Message> answer = ended ? worker->channel().receive() : std::nullopt;
  if (!answer || answer->bytes.empty()) {
    return fail("the token or the certificates can't be read", "see whether their file system answers");
  }
  return answer->bytes.front() == '-' ? Status(failure_of("", answer->bytes)) : Status();
}

Result<std::string> push_in_child(const std::string& recording, const PushTarget& target, const LoadClient& load,
                                  Readers readers, int64_t timeout_ns) {
  const int64_t deadline_ns = monotonic_now_ns() + timeout_ns;
  auto worker = launch::Worker::start("st-push", [&](launch::WorkerSide& side) {
    const auto pushed = target.server
                            ? push_to_server(recording, target, load, deadline_ns, side.stop.get())
                            : try_until(to_folder(recording, target.shown, readers), deadline_ns, side.stop.get());
    const std::string answer =
        pushed ? (pushed->was_there ? "+" : " ") + pushed->where : failure_text(pushed.error().error);
    return side.channel.send(launch::MessageKind::kStored, answer) ? kExitDone : kExitFailed;
  });
  if (!worker) {
    return with_context("push " + recording, std::move(worker.error()));
  }
  const auto ended = worker->wait_for(milliseconds(timeout_ns / kNsPerMs) + kRest);
  const std::optional<launch::Message> answer = ended ? worker->channel().receive() : std::nullopt;
  if (!answer || answer->bytes.empty()) {
    worker->kill();
    return fail(fmt::format("{}: not copied to {} within {}; it stays where it is", recording, target.shown,
                            format_duration(timeout_ns)),
                target.server ? "see whether that server answers (stalltrace nodes), then: stalltrace push"
                              : "see whether that folder's file system answers, then: stalltrace push");
  }
  if (answer->bytes.front() == '-') {
    // Errors of a folder begin with its name.
    return failure_of(target.server ? fmt::format("{}: not copied to {}: ", recording, target.shown)
                                    : fmt::format("{}: not copied: ", recording),
                      answer->bytes);
  }
  return fmt::format("{}: {} {}", recording, answer->bytes.front() == '+' ? "is there already:" : "copied to",
                     answer->bytes.substr(1));
}

}  // namespace stalltrace::cli
