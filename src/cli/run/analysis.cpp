// SPDX-License-Identifier: Apache-2.0
#include "cli/run/analysis.h"

#include <algorithm>
#include <utility>

#include "launch/supervision/running_time.h"
#include "launch/supervision/worker.h"

namespace stalltrace::cli {

using std::chrono::milliseconds;

Result<bool> analyse(const std::function<bool()>& work, milliseconds limit, const std::function<milliseconds()>& look) {
  std::string none;
  return analyse([&](std::string&) { return work(); }, limit, look, none);
}

Result<bool> analyse(const std::function<bool(std::string& answer)>& work, milliseconds limit,
                     const std::function<milliseconds()>& look, std::string& answer) {
  constexpr milliseconds kRound{500};
  answer.clear();
  auto worker = launch::Worker::start("st-analysis", [&](launch::WorkerSide& parent) {
    std::string own;
    const bool done = work(own);
    if (done && !own.empty()) {
      parent.channel.send(launch::MessageKind::kAlive, own);
    }
    return done ? 0 : 1;
  });
  if (!worker) {
    return with_context("start the analysis", std::move(worker.error()));
  }
  launch::RunningTime time;
  for (milliseconds left = limit; left > milliseconds(0); left = std::min(left - time.passed(), look())) {
    if (const auto ended = worker->wait_for(std::min(left, kRound))) {
      const auto how = launch::unexpected_end(*ended);
      if (auto message = worker->channel().receive(); message && !how) {
        answer = std::move(message->bytes);
      }
      return how ? Result<bool>(fail("the analysis " + *how)) : ended->success();
    }
  }
  return fail("the analysis takes too long, and was killed");
}

}  // namespace stalltrace::cli
