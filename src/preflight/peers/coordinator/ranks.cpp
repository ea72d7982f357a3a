// SPDX-License-Identifier: Apache-2.0
#include "preflight/peers/coordinator/ranks.h"

#include <fmt/format.h>
#include <poll.h>

#include "base/io/poll_until.h"
#include "base/text.h"

namespace stalltrace::preflight {

using Json = nlohmann::ordered_json;

void Ranks::give_up(Session& session, std::string_view step, std::string_view problem) {
  session.channel.close();
  results.launch_checks.push_back(
      {.check = "launch",
       .subject = fmt::format("rank {}", session.hello.rank),
       .outcome = Outcome::kFailed,
       .detail = fmt::format("on {}: {} during {}", session.hello.node.name, problem, step),
       .remedy = "look at its output, and whether its process lives or is stopped; the tests went on without it"});
}

std::vector<size_t> Ranks::readable(const std::set<size_t>& waiting, int64_t end_ns) {
  std::vector<pollfd> polled;
  for (const size_t index : waiting) {
    polled.push_back({.fd = sessions[index].channel.fd(), .events = POLLIN});
  }
  (void)poll_until(polled, end_ns);
  std::vector<size_t> found;
  size_t at = 0;
  for (const size_t index : waiting) {
    if (polled[at++].revents != 0) {
      found.push_back(index);
    }
  }
  return found;
}

std::map<size_t, Json> Ranks::ask(const std::map<size_t, Json>& orders, int64_t limit_ns, std::string_view step,
                                  const std::function<bool(const Json&)>& is_fault) {
  int64_t end_ns = monotonic_now_ns() + limit_ns;
  std::optional<int64_t> stop_ns;
  std::set<size_t> waiting;
  for (const auto& [index, order] : orders) {
    Session& session = sessions[index];
    if (!session.channel.open()) {
      continue;
    }
    if (const Status sent = session.channel.send(order); !sent) {
      give_up(session, step, sent.error().what);
    } else {
      waiting.insert(index);
    }
  }
  std::map<size_t, Json> answers;
  while (!waiting.empty() && monotonic_now_ns() < end_ns) {
    if (stop_ns && monotonic_now_ns() >= *stop_ns) {
      for (const size_t index : waiting) {
        (void)sessions[index].channel.send({{"order", kStopOrder}});  // where it fails, reading does too
      }
      end_ns = std::min(end_ns, monotonic_now_ns() + kReadyNs);
      stop_ns = end_ns;
    }
    for (const size_t index : readable(waiting, stop_ns ? std::min(end_ns, *stop_ns) : end_ns)) {
      auto message = sessions[index].channel.poll_message();
      if (!message) {
        give_up(sessions[index], step, message.error().what);
        waiting.erase(index);
        if (!stop_ns && is_fault) {  // the others wait for it as for one whose library failed
          stop_ns = monotonic_now_ns() + launch.collectives.after_fault_ns;
        }
      } else if (*message) {
        if (!stop_ns && is_fault && is_fault(**message)) {
          stop_ns = monotonic_now_ns() + launch.collectives.after_fault_ns;
        }
        answers.emplace(index, **std::move(message));
        waiting.erase(index);
      }
    }
  }
  for (const size_t index : waiting) {
    sessions[index].silent = true;
    give_up(sessions[index], step, fmt::format("no answer for {}", format_duration(limit_ns)));
  }
  return answers;
}

}  // namespace stalltrace::preflight
