// SPDX-License-Identifier: Apache-2.0
#include "cli/evidence/push.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/text.h"
#include "cli/framework/exit_code.h"
#include "launch/supervision/worker.h"
#include "store/hand_over.h"

namespace stalltrace::cli {
namespace {

constexpr int64_t kFirstPauseNs = kNsPerSecond / 4;
constexpr int64_t kLongestPauseNs = 10 * kNsPerSecond;
constexpr std::chrono::milliseconds kRest{500};  // for the child's own last word

/// A wrong name does not get right by waiting.
bool may_pass(const Error& error) { return error.kind == ErrorKind::kFailed; }

Result<store::HandedOver> try_until(const std::string& recording, const std::string& folder, Readers readers,
                                    int64_t deadline_ns, int stop) {
  for (int64_t pause_ns = kFirstPauseNs;; pause_ns = std::min(2 * pause_ns, kLongestPauseNs)) {
    auto handed = store::hand_over(recording, folder, readers);
    const int64_t left_ns = deadline_ns - monotonic_now_ns();
    if (handed || !may_pass(handed.error()) || left_ns <= pause_ns) {
      return handed;
    }
    pollfd stopped{.fd = stop, .events = POLLIN, .revents = 0};
    if (::poll(&stopped, 1, static_cast<int>(pause_ns / kNsPerMs)) > 0) {
      return handed;
    }
  }
}

}  // namespace

Result<std::string> push_in_child(const std::string& recording, const std::string& folder, Readers readers,
                                  int64_t timeout_ns) {
  const int64_t deadline_ns = monotonic_now_ns() + timeout_ns;
  auto worker = launch::Worker::start("st-push", [&](launch::WorkerSide& side) {
    const auto handed = try_until(recording, folder, readers, deadline_ns, side.stop.get());
    const std::string answer = handed ? (handed->was_there ? "+" : " ") + handed->path
                                      : "-" + handed.error().what + "\n" + handed.error().remedy;
    return side.channel.send(launch::MessageKind::kStored, answer) ? kExitDone : kExitFailed;
  });
  if (!worker) {
    return with_context("push " + recording, std::move(worker.error()));
  }
  const auto ended = worker->wait_for(std::chrono::milliseconds(timeout_ns / kNsPerMs) + kRest);
  const std::optional<launch::Message> answer = ended ? worker->channel().receive() : std::nullopt;
  if (!answer || answer->bytes.empty()) {
    worker->kill();
    return fail(fmt::format("{}: not copied to {} within {}; it stays where it is", recording, folder,
                            format_duration(timeout_ns)),
                "see whether that folder's file system answers, then: stalltrace push");
  }
  const std::string rest = answer->bytes.substr(1);
  if (answer->bytes.front() == '-') {
    const size_t line = std::min(rest.find('\n'), rest.size());
    return fail(fmt::format("{}: not copied: {}", recording, rest.substr(0, line)),
                line < rest.size() ? rest.substr(line + 1) : std::string());
  }
  return fmt::format("{}: {} {}", recording, answer->bytes.front() == '+' ? "is there already:" : "copied to", rest);
}

}  // namespace stalltrace::cli
