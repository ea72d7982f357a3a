// SPDX-License-Identifier: Apache-2.0
// The barrier test: when each rank arrives, over many rounds.
#include <algorithm>

#include "base/text.h"
#include "preflight/peers/coordinator/steps.h"

namespace stalltrace::preflight {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kBarriersNs = 1500 * kNsPerMs;  // all rounds; a loss costs 200 ms

}  // namespace

void test_barrier(Ranks& ranks) {
  std::map<size_t, Json> orders;
  for (size_t i = 0; i < ranks.sessions.size(); ++i) {
    orders.emplace(i, Json{{"order", "barrier"}});
  }
  std::vector<size_t> taking_part;
  for (const auto& [index, answer] : ranks.ask(orders, kReadyNs, "the barrier")) {
    taking_part.push_back(index);
  }
  std::vector<int64_t> released_ns(ranks.sessions.size());
  const int64_t last_ns = monotonic_now_ns() + kBarriersNs;
  for (int64_t round = 0; round < ranks.launch.barrier_rounds && !taking_part.empty() && monotonic_now_ns() < last_ns;
       ++round) {
    // Who is released first has its answer read late: every rank is first in turn.
    std::rotate(taking_part.begin(), taking_part.begin() + 1, taking_part.end());
    std::set<size_t> waiting;
    for (const size_t index : taking_part) {
      released_ns[index] = monotonic_now_ns();
      if (const Status sent = ranks.sessions[index].channel.send_byte('g'); sent) {
        waiting.insert(index);
      } else {
        ranks.give_up(ranks.sessions[index], "the barrier", sent.error().what);
      }
    }
    const int64_t end_ns = monotonic_now_ns() + ranks.launch.arrival_ns;
    while (!waiting.empty() && monotonic_now_ns() < end_ns) {
      const std::vector<size_t> arrived = ranks.readable(waiting, end_ns);
      const int64_t now_ns = monotonic_now_ns();
      for (const size_t index : arrived) {
        waiting.erase(index);
        if (ranks.sessions[index].channel.receive_byte(0)) {
          ranks.results.ranks[index].arrivals_ns.push_back(now_ns - released_ns[index]);
        } else {
          ranks.give_up(ranks.sessions[index], "the barrier", "the other end has closed the connection");
        }
      }
    }
    for (const size_t index : waiting) {
      ranks.give_up(ranks.sessions[index], fmt::format("round {} of the barrier", round + 1),
                    fmt::format("did not arrive for {}", format_duration(ranks.launch.arrival_ns)));
    }
    std::erase_if(taking_part, [&](size_t index) { return !ranks.sessions[index].channel.open(); });
  }
  for (const size_t index : taking_part) {
    (void)ranks.sessions[index].channel.send_byte('e');
  }
}

}  // namespace stalltrace::preflight
