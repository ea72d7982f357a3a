// SPDX-License-Identifier: Apache-2.0
// Tests pairs of nodes in rounds, one direction after the other, and slow ones a second time.
#include <algorithm>

#include "base/numbers/median.h"
#include "preflight/peers/coordinator/steps.h"
#include "preflight/peers/judge/thresholds.h"

namespace stalltrace::preflight {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kTestNs = 20 * kNsPerSecond;  // above the time of its flows: waits for what does not answer
constexpr int64_t kFlowsOfATest = 2;            // the second with small segments, or at half the rate
constexpr size_t kMostRetests = 8;              // rounds of pairs

enum class Tests : uint8_t { kAll, kReach, kFlowAgain, kTogether };

Json test_order(Ranks& ranks, int32_t from, int32_t to, Tests tests) {
  const Session& peer = ranks.session_of(to);
  return to_json(TestOrder{.address = peer.hello.node.address,
                           .tcp_port = peer.hello.tcp_port,
                           .udp_port = peer.hello.udp_port,
                           .secret = peer.hello.secret,
                           .flow_only = tests == Tests::kFlowAgain || tests == Tests::kTogether,
                           .reach_only = tests == Tests::kReach,
                           .half_rate = tests == Tests::kAll || tests == Tests::kFlowAgain,
                           .interface_mtu = ranks.node(from).mtu,
                           .flow = ranks.launch.flow});
}

void test_one_way(Ranks& ranks, const std::vector<Pair>& pairs) {
  std::map<size_t, Json> orders;
  for (const auto& [from, to] : pairs) {
    orders.emplace(ranks.first_session(from), test_order(ranks, from, to, Tests::kAll));
  }
  const std::map<size_t, Json> answers =
      ranks.ask(orders, kTestNs + kFlowsOfATest * ranks.launch.flow.time_ns, "the tests of pairs");
  for (const auto& [from, to] : pairs) {
    const auto answer = answers.find(ranks.first_session(from));
    PairResult result = answer == answers.end() ? PairResult() : pair_result_from_json(answer->second);
    result.from = from;
    result.to = to;
    ranks.results.pairs.push_back(std::move(result));
  }
}

/// Null: it was not among the rounds.
PairResult* find_pair(Ranks& ranks, int32_t from, int32_t to) {
  const auto found = std::ranges::find_if(ranks.results.pairs,
                                          [&](const PairResult& one) { return one.from == from && one.to == to; });
  return found == ranks.results.pairs.end() ? nullptr : &*found;
}

/// A flow goes only to what was reached before. This is done for all before the flows begin: under their load a
/// connection takes long, and they would not begin at once.
void reach_neighbours(Ranks& ranks) {
  const auto count = static_cast<int32_t>(ranks.results.nodes.size());
  std::map<size_t, Json> orders;
  for (int32_t from = 0; from < count; ++from) {
    const int32_t to = (from + 1) % count;
    if (find_pair(ranks, from, to) == nullptr) {
      orders.emplace(ranks.first_session(from), test_order(ranks, from, to, Tests::kReach));
    }
  }
  for (const auto& [index, answer] : ranks.ask(orders, kTestNs, "the connections to the next node")) {
    PairResult result = pair_result_from_json(answer);
    result.from = ranks.sessions[index].node;
    result.to = (result.from + 1) % count;
    ranks.results.pairs.push_back(std::move(result));
  }
}

}  // namespace

void test_pairs(Ranks& ranks, const std::vector<std::vector<Pair>>& rounds) {
  for (const std::vector<Pair>& round : rounds) {
    std::vector<Pair> back;
    back.reserve(round.size());
    std::ranges::transform(round, std::back_inserter(back),
                           [](const Pair& pair) { return Pair(pair.second, pair.first); });
    test_one_way(ranks, round);
    test_one_way(ranks, back);
  }
}

void test_slow_pairs_again(Ranks& ranks) {
  std::vector<double> speeds;
  for (const PairResult& pair : ranks.results.pairs) {
    if (pair.alone && !pair.stuck()) {
      speeds.push_back(pair.alone->mbit());
    }
  }
  const double slow_below = kSlowPair * median(std::move(speeds));
  std::vector<size_t> slow;
  for (size_t i = 0; i < ranks.results.pairs.size(); ++i) {
    const PairResult& pair = ranks.results.pairs[i];
    if (pair.alone && !pair.stuck() && pair.alone->mbit() < slow_below) {
      slow.push_back(i);
    }
  }
  for (size_t round = 0; round < kMostRetests && !slow.empty(); ++round) {
    std::set<int32_t> busy;
    std::map<size_t, Json> orders;
    std::map<size_t, size_t> pair_of;
    std::vector<size_t> later;
    for (const size_t index : slow) {
      const auto [from, to] = Pair(ranks.results.pairs[index].from, ranks.results.pairs[index].to);
      if (busy.contains(from) || busy.contains(to)) {
        later.push_back(index);
        continue;
      }
      busy.insert({from, to});
      const auto session = ranks.first_session(from);
      orders.emplace(session, test_order(ranks, from, to, Tests::kFlowAgain));
      pair_of.emplace(session, index);
    }
    for (const auto& [session, answer] :
         ranks.ask(orders, kTestNs + kFlowsOfATest * ranks.launch.flow.time_ns, "the second test of slow pairs")) {
      const PairResult again = pair_result_from_json(answer);
      PairResult& pair = ranks.results.pairs[pair_of[session]];
      if (again.alone && again.alone->mbit() > pair.alone->mbit()) {
        pair.alone = again.alone;
        if (again.half_rate) {  // else what the first test lost at half its rate stays
          pair.half_rate = again.half_rate;
        }
      }
    }
    slow = std::move(later);
  }
}

void test_together(Ranks& ranks) {
  reach_neighbours(ranks);
  const auto count = static_cast<int32_t>(ranks.results.nodes.size());
  std::map<size_t, Json> orders;
  for (int32_t from = 0; from < count; ++from) {
    const int32_t to = (from + 1) % count;
    // What did not answer as a rank's test port does gets no flow: it may be any program's.
    const PairResult* pair = find_pair(ranks, from, to);
    if (pair != nullptr && pair->reach == Reach::kReached) {
      orders.emplace(ranks.first_session(from), test_order(ranks, from, to, Tests::kTogether));
    }
  }
  for (const auto& [index, answer] :
       ranks.ask(orders, kTestNs + kFlowsOfATest * ranks.launch.flow.time_ns, "the test of all at once")) {
    const int32_t from = ranks.sessions[index].node;
    find_pair(ranks, from, (from + 1) % count)->together = pair_result_from_json(answer).alone;
  }
}

}  // namespace stalltrace::preflight
