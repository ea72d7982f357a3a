// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/net/loopback.h"
#include "base/text.h"
#include "preflight/peers/launch.h"
#include "preflight/peers/line_channel.h"
#include "preflight/peers/messages.h"
#include "preflight/peers/rounds.h"

namespace stalltrace::preflight {
namespace {

using Json = nlohmann::ordered_json;
using Say = std::function<void(const std::string&)>;

constexpr int64_t kHelloNs = 10 * kNsPerSecond;  // from a connection to its introduction
constexpr size_t kMoreConnections = 64;          // than ranks, which may still introduce themselves
constexpr int64_t kNamesNs = 30 * kNsPerSecond;
constexpr int64_t kReadyNs = 10 * kNsPerSecond;
constexpr int64_t kTestNs = 20 * kNsPerSecond;    // above the time of its flow: waits for what does not answer
constexpr size_t kMostRetests = 8;                // rounds of pairs
constexpr int64_t kBarriersNs = 1500 * kNsPerMs;  // all rounds; a loss costs 200 ms
constexpr size_t kMostNamed = 8;

struct Session {
  LineChannel channel;
  Hello hello;
  int32_t node = -1;
  int64_t joined_ns = 0;
};

int poll_until(std::vector<pollfd>& polled, int64_t end_ns) {
  const int64_t left_ms = std::clamp<int64_t>((end_ns - monotonic_now_ns() + kNsPerMs - 1) / kNsPerMs, 0, 60'000);
  return ::poll(polled.data(), polled.size(), static_cast<int>(left_ms));
}

std::string list_of(const std::vector<int32_t>& ranks) {
  const size_t shown = std::min(ranks.size(), kMostNamed);
  const std::string text =
      fmt::format("{}", fmt::join(ranks.begin(), ranks.begin() + static_cast<ptrdiff_t>(shown), ", "));
  return ranks.size() > shown ? fmt::format("{} and {} more", text, ranks.size() - shown) : text;
}

}  // namespace

struct Coordinator::State {
  Launch launch;
  UniqueFd listener;
  std::vector<Session> sessions;  // by rank once all have come
  LaunchResults results;

  void wait_for_ranks();
  void admit(LineChannel channel, const Result<std::optional<Json>>& message, int64_t now_ns);
  void find_nodes();
  void look_up_names(const std::vector<std::vector<Pair>>& rounds);
  void test_pairs(const std::vector<std::vector<Pair>>& rounds);
  void test_one_way(const std::vector<Pair>& pairs);
  void test_slow_pairs_again();
  void test_together();
  void test_barrier();

  Session& session_of(int32_t node) { return sessions[static_cast<size_t>(first_session_[static_cast<size_t>(node)])]; }
  [[nodiscard]] const TestedNode& node(int32_t index) const { return results.nodes[static_cast<size_t>(index)]; }
  /// Sends the orders (by session), and waits for all answers. A session without one in time is closed.
  std::map<size_t, Json> ask(const std::map<size_t, Json>& orders, int64_t limit_ns, std::string_view step);
  /// Those of these sessions that have something to read; waits for one.
  std::vector<size_t> readable(const std::set<size_t>& waiting, int64_t end_ns);
  void give_up(Session& session, std::string_view step, std::string_view problem);
  [[nodiscard]] Json test_order(int32_t from, int32_t to, bool flow_only);

  std::vector<int32_t> first_session_;  // of each node
};

void Coordinator::State::give_up(Session& session, std::string_view step, std::string_view problem) {
  session.channel.close();
  results.launch_checks.push_back(
      {.check = "launch",
       .subject = fmt::format("rank {}", session.hello.rank),
       .outcome = Outcome::kFailed,
       .detail = fmt::format("on {}: {} during {}", session.hello.node.name, problem, step),
       .remedy = "look at its output, and whether its process lives or is stopped; the tests went on without it"});
}

void Coordinator::State::admit(LineChannel channel, const Result<std::optional<Json>>& message, int64_t now_ns) {
  const auto refuse = [&](const std::string& why) { (void)channel.send({{"refused", why}}); };
  if (!message) {
    return refuse(message.error().what);
  }
  auto hello = hello_from_json(**message);
  if (!hello) {
    return refuse(hello.error().what);
  }
  const auto twice = std::ranges::find(sessions, hello->rank, [](const Session& one) { return one.hello.rank; });
  if (hello->world_size != launch.world_size || hello->rank >= launch.world_size) {
    results.launch_checks.push_back(
        {.check = "launch",
         .subject = fmt::format("rank {}", hello->rank),
         .outcome = Outcome::kFailed,
         .detail = fmt::format("on {} was started as one of {}, rank 0 as one of {}", hello->node.name,
                               count_of(hello->world_size, "rank"), launch.world_size),
         .remedy = "give all nodes the same number of ranks (WORLD_SIZE, --nnodes, --nproc-per-node, -n)"});
    return refuse(
        fmt::format("rank {} of {}, where rank 0 knows {}", hello->rank, hello->world_size, launch.world_size));
  }
  if (hello->job != launch.job) {
    return refuse(fmt::format("it is of job '{}', rank 0 of '{}'", hello->job, launch.job));
  }
  if (twice != sessions.end()) {
    results.launch_checks.push_back(
        {.check = "launch",
         .subject = fmt::format("rank {}", hello->rank),
         .outcome = Outcome::kFailed,
         .detail = fmt::format("came twice, from {} and {}", twice->hello.node.name, hello->node.name),
         .remedy = "give each process a rank of its own (RANK, --node-rank)"});
    return refuse(fmt::format("rank {} has come already, from {}", hello->rank, twice->hello.node.name));
  }
  sessions.push_back({.channel = std::move(channel), .hello = *std::move(hello), .joined_ns = now_ns});
}

void Coordinator::State::wait_for_ranks() {
  struct Stranger {
    LineChannel channel;
    int64_t end_ns;
  };
  std::vector<Stranger> strangers;
  const int64_t end_ns = monotonic_now_ns() + launch.wait_ns;
  const auto most = static_cast<size_t>(launch.world_size) + kMoreConnections;
  while (sessions.size() < static_cast<size_t>(launch.world_size) && monotonic_now_ns() < end_ns) {
    std::vector<pollfd> polled{
        {.fd = listener.get(), .events = static_cast<short>(strangers.size() < most ? POLLIN : 0)}};
    int64_t next_ns = end_ns;
    for (const Stranger& one : strangers) {
      polled.push_back({.fd = one.channel.fd(), .events = POLLIN});
      next_ns = std::min(next_ns, one.end_ns);
    }
    (void)poll_until(polled, next_ns);
    const int64_t now_ns = monotonic_now_ns();
    std::vector<Stranger> left;
    for (size_t i = 0; i < strangers.size(); ++i) {
      Stranger& one = strangers[i];
      const auto message = polled[i + 1].revents != 0 ? one.channel.poll_message() : Result<std::optional<Json>>();
      if (!message || *message) {
        admit(std::move(one.channel), message, now_ns);
      } else if (now_ns < one.end_ns) {
        left.push_back(std::move(one));
      }
    }
    strangers = std::move(left);
    if (polled[0].revents != 0) {
      if (UniqueFd fd(::accept(listener.get(), nullptr, nullptr)); fd) {
        strangers.push_back({LineChannel(std::move(fd)), now_ns + kHelloNs});
      }
    }
  }
}

void Coordinator::State::find_nodes() {
  std::ranges::sort(sessions, {}, [](const Session& one) { return one.hello.rank; });
  std::map<std::string, int32_t> known;
  int64_t first_ns = INT64_MAX;
  for (const Session& session : sessions) {
    first_ns = std::min(first_ns, session.joined_ns);
  }
  std::set<int32_t> came;
  for (size_t i = 0; i < sessions.size(); ++i) {
    Session& session = sessions[i];
    const auto [at, is_new] = known.emplace(session.hello.host, static_cast<int32_t>(results.nodes.size()));
    session.node = at->second;
    if (is_new) {
      first_session_.push_back(static_cast<int32_t>(i));
      results.nodes.push_back(session.hello.node);
      results.nodes.back().first_rank = session.hello.rank;
      results.reports.push_back(session.hello.report);
    }
    results.ranks.push_back(
        {.rank = session.hello.rank, .node = session.node, .joined_ns = session.joined_ns - first_ns});
    came.insert(session.hello.rank);
  }
  // Names are for people: where two nodes have one, the rank is added.
  std::map<std::string, int> names;
  for (const TestedNode& node : results.nodes) {
    ++names[node.name];
  }
  for (size_t i = 0; i < results.nodes.size(); ++i) {
    TestedNode& node = results.nodes[i];
    if (names[node.name] > 1) {
      node.name = fmt::format("{}#{}", node.name, node.first_rank);
      results.reports[i].host = node.name;
    }
  }
  std::vector<int32_t> missing;
  for (int32_t rank = 0; rank < launch.world_size; ++rank) {
    if (!came.contains(rank)) {
      missing.push_back(rank);
    }
  }
  if (!missing.empty()) {
    results.launch_checks.push_back(
        {.check = "launch",
         .subject = missing.size() == 1 ? "rank" : "ranks",
         .outcome = Outcome::kFailed,
         .detail = fmt::format("{} did not come within {}", list_of(missing), format_duration(launch.wait_ns)),
         .remedy = "look at their output: does the launcher start them, does MASTER_ADDR lead to rank 0's host, does a "
                   "firewall let the port pass?"});
  }
}

std::vector<size_t> Coordinator::State::readable(const std::set<size_t>& waiting, int64_t end_ns) {
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

std::map<size_t, Json> Coordinator::State::ask(const std::map<size_t, Json>& orders, int64_t limit_ns,
                                               std::string_view step) {
  const int64_t end_ns = monotonic_now_ns() + limit_ns;
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
    for (const size_t index : readable(waiting, end_ns)) {
      auto message = sessions[index].channel.poll_message();
      if (!message) {
        give_up(sessions[index], step, message.error().what);
        waiting.erase(index);
      } else if (*message) {
        answers.emplace(index, **std::move(message));
        waiting.erase(index);
      }
    }
  }
  for (const size_t index : waiting) {
    give_up(sessions[index], step, fmt::format("no answer for {}", format_duration(limit_ns)));
  }
  return answers;
}

void Coordinator::State::look_up_names(const std::vector<std::vector<Pair>>& rounds) {
  std::map<int32_t, std::set<int32_t>> peers;
  for (const auto& round : rounds) {
    for (const auto& [a, b] : round) {
      peers[a].insert(b);
      peers[b].insert(a);
    }
  }
  std::map<size_t, Json> orders;
  for (const auto& [from, others] : peers) {
    const std::string& own = session_of(from).hello.hostname;
    std::set<std::string> names;
    for (const int32_t other : others) {
      const std::string& name = session_of(other).hello.hostname;
      if (!name.empty() && name != own) {
        names.insert(name);
      }
    }
    if (!names.empty()) {
      orders.emplace(first_session_[static_cast<size_t>(from)], Json{{"order", "names"}, {"names", names}});
    }
  }
  for (const auto& [index, answer] : ask(orders, kNamesNs, "the look-up of names")) {
    TestedNode& node = results.nodes[static_cast<size_t>(sessions[index].node)];
    const auto found = answer.find("addresses");
    for (const Json& name : orders[index]["names"]) {
      const auto addresses =
          found != answer.end() && found->is_object() ? found->find(name.get<std::string>()) : Json::const_iterator();
      if (found == answer.end() || !found->is_object() || addresses == found->end() || !addresses->is_array() ||
          addresses->empty()) {
        node.wrong_names.push_back(fmt::format("{} is not found", name.get<std::string>()));
        continue;
      }
      for (const Json& address : *addresses) {
        if (address.is_string() && is_loopback(address.get<std::string>())) {
          node.wrong_names.push_back(fmt::format("{} is {}", name.get<std::string>(), address.get<std::string>()));
        }
      }
    }
  }
}

Json Coordinator::State::test_order(int32_t from, int32_t to, bool flow_only) {
  const Session& peer = session_of(to);
  return to_json(TestOrder{.address = peer.hello.node.address,
                           .tcp_port = peer.hello.tcp_port,
                           .udp_port = peer.hello.udp_port,
                           .secret = peer.hello.secret,
                           .flow_only = flow_only,
                           .interface_mtu = node(from).mtu,
                           .flow = launch.flow});
}

void Coordinator::State::test_one_way(const std::vector<Pair>& pairs) {
  std::map<size_t, Json> orders;
  for (const auto& [from, to] : pairs) {
    orders.emplace(first_session_[static_cast<size_t>(from)], test_order(from, to, false));
  }
  const std::map<size_t, Json> answers = ask(orders, kTestNs + launch.flow.time_ns, "the tests of pairs");
  for (const auto& [from, to] : pairs) {
    const auto answer = answers.find(static_cast<size_t>(first_session_[static_cast<size_t>(from)]));
    PairResult result = answer == answers.end() ? PairResult() : pair_result_from_json(answer->second);
    result.from = from;
    result.to = to;
    results.pairs.push_back(std::move(result));
  }
}

void Coordinator::State::test_pairs(const std::vector<std::vector<Pair>>& rounds) {
  for (const std::vector<Pair>& round : rounds) {
    std::vector<Pair> back;
    back.reserve(round.size());
    std::ranges::transform(round, std::back_inserter(back),
                           [](const Pair& pair) { return Pair(pair.second, pair.first); });
    test_one_way(round);
    test_one_way(back);
  }
}

void Coordinator::State::test_slow_pairs_again() {
  std::vector<double> speeds;
  for (const PairResult& pair : results.pairs) {
    if (pair.alone) {
      speeds.push_back(pair.alone->mbit());
    }
  }
  if (speeds.empty()) {
    return;
  }
  const auto middle = speeds.begin() + static_cast<ptrdiff_t>(speeds.size() / 2);
  std::ranges::nth_element(speeds, middle);
  std::vector<size_t> slow;
  for (size_t i = 0; i < results.pairs.size(); ++i) {
    const auto& flow = results.pairs[i].alone;
    if (flow && flow->bytes > 0 && flow->mbit() < kSlowPair * *middle) {
      slow.push_back(i);
    }
  }
  for (size_t round = 0; round < kMostRetests && !slow.empty(); ++round) {
    std::set<int32_t> busy;
    std::map<size_t, Json> orders;
    std::map<size_t, size_t> pair_of;
    std::vector<size_t> later;
    for (const size_t index : slow) {
      const auto [from, to] = Pair(results.pairs[index].from, results.pairs[index].to);
      if (busy.contains(from) || busy.contains(to)) {
        later.push_back(index);
        continue;
      }
      busy.insert({from, to});
      const auto session = static_cast<size_t>(first_session_[static_cast<size_t>(from)]);
      orders.emplace(session, test_order(from, to, true));
      pair_of.emplace(session, index);
    }
    for (const auto& [session, answer] : ask(orders, kTestNs + launch.flow.time_ns, "the second test of slow pairs")) {
      const PairResult again = pair_result_from_json(answer);
      auto& flow = results.pairs[pair_of[session]].alone;
      if (again.alone && again.alone->mbit() > flow->mbit()) {
        flow = again.alone;
      }
    }
    slow = std::move(later);
  }
}

void Coordinator::State::test_together() {
  const auto count = static_cast<int32_t>(results.nodes.size());
  std::map<size_t, Json> orders;
  for (int32_t from = 0; from < count; ++from) {
    const int32_t to = (from + 1) % count;
    // What did not answer as a rank's test port does gets no flow: it may be anybody's.
    const bool unreached = std::ranges::any_of(results.pairs, [&](const PairResult& one) {
      return one.from == from && one.to == to && one.reach != Reach::kReached;
    });
    if (!unreached) {
      orders.emplace(first_session_[static_cast<size_t>(from)], test_order(from, to, true));
    }
  }
  for (const auto& [index, answer] : ask(orders, kTestNs + launch.flow.time_ns, "the test of all at once")) {
    const int32_t from = sessions[index].node;
    const int32_t to = (from + 1) % count;
    auto pair = std::ranges::find_if(results.pairs, [&](const auto& one) { return one.from == from && one.to == to; });
    if (pair == results.pairs.end()) {
      pair = results.pairs.insert(results.pairs.end(), PairResult{.from = from, .to = to});
    }
    pair->together = pair_result_from_json(answer).alone;
  }
}

void Coordinator::State::test_barrier() {
  std::map<size_t, Json> orders;
  for (size_t i = 0; i < sessions.size(); ++i) {
    orders.emplace(i, Json{{"order", "barrier"}});
  }
  std::vector<size_t> taking_part;
  for (const auto& [index, answer] : ask(orders, kReadyNs, "the barrier")) {
    taking_part.push_back(index);
  }
  std::vector<int64_t> released_ns(sessions.size());
  const int64_t last_ns = monotonic_now_ns() + kBarriersNs;
  for (int64_t round = 0; round < launch.barrier_rounds && !taking_part.empty() && monotonic_now_ns() < last_ns;
       ++round) {
    // Who is released first has its answer read late: everybody is first in turn.
    std::ranges::rotate(taking_part, taking_part.begin() + 1);
    std::set<size_t> waiting;
    for (const size_t index : taking_part) {
      released_ns[index] = monotonic_now_ns();
      if (sessions[index].channel.send_byte('g')) {
        waiting.insert(index);
      }
    }
    const int64_t end_ns = monotonic_now_ns() + launch.arrival_ns;
    while (!waiting.empty() && monotonic_now_ns() < end_ns) {
      const std::vector<size_t> arrived = readable(waiting, end_ns);
      const int64_t now_ns = monotonic_now_ns();
      for (const size_t index : arrived) {
        waiting.erase(index);
        if (sessions[index].channel.receive_byte(0)) {
          results.ranks[index].arrivals_ns.push_back(now_ns - released_ns[index]);
        } else {
          give_up(sessions[index], "the barrier", "the other end has closed the connection");
        }
      }
    }
    for (const size_t index : waiting) {
      give_up(sessions[index], fmt::format("round {} of the barrier", round + 1),
              fmt::format("did not arrive for {}", format_duration(launch.arrival_ns)));
    }
    std::erase_if(taking_part, [&](size_t index) { return !sessions[index].channel.open(); });
  }
  for (const size_t index : taking_part) {
    (void)sessions[index].channel.send_byte('e');
  }
}

Coordinator::Coordinator(std::unique_ptr<State> state) : state_(std::move(state)) {}
Coordinator::Coordinator(Coordinator&&) noexcept = default;
Coordinator::~Coordinator() = default;

Result<Coordinator> Coordinator::open(const Launch& launch) {
  auto state = std::make_unique<State>();
  state->launch = launch;
  ST_ASSIGN(const Endpoint anywhere, Endpoint::of("", launch.port));
  auto listener = listen_on(anywhere, /*small_segments=*/true);
  if (!listener) {  // a kernel without IPv6
    ST_ASSIGN(const Endpoint anywhere_v4, Endpoint::of("0.0.0.0", launch.port));
    listener = listen_on(anywhere_v4, /*small_segments=*/true);
  }
  ST_ASSIGN(state->listener, std::move(listener));
  return Coordinator(std::move(state));
}

uint16_t Coordinator::port() const { return local_endpoint(state_->listener.get()).port(); }

Result<LaunchResults> Coordinator::run(const Say& say) {
  State& state = *state_;
  state.results.world_size = state.launch.world_size;
  state.wait_for_ranks();
  state.find_nodes();
  if (state.sessions.empty()) {
    return fail("no rank came", "start the same command once for each rank, all within the time of --wait");
  }
  const auto count = static_cast<int32_t>(state.results.nodes.size());
  const auto rounds = plan_rounds(count, static_cast<size_t>(state.launch.most_rounds));
  state.results.rounds = static_cast<int64_t>(rounds.size());
  state.results.possible_rounds = count < 2 ? 0 : count + count % 2 - 1;
  const FlowLimits& flow = state.launch.flow;
  const std::string pairs =
      count < 2 ? "no pairs"
                : fmt::format("{} of pairs, in which a node sends over {} for {} or {}{}, and then receives",
                              count_of(state.results.rounds, "round"), count_of(flow.streams, "stream"),
                              format_duration(flow.time_ns), format_size(flow.bytes),
                              flow.mbit > 0 ? fmt::format(" at {} Mbit/s", flow.mbit) : "");
  say(fmt::format("{} on {}; {}", count_of(static_cast<int64_t>(state.sessions.size()), "rank"),
                  count_of(count, "node"), pairs));
  state.look_up_names(rounds);
  std::map<size_t, Json> ready;
  for (const int32_t first : state.first_session_) {
    ready.emplace(first, Json{{"order", "respond"}});
  }
  (void)state.ask(ready, kReadyNs, "the start of the tests");
  state.test_pairs(rounds);
  state.test_slow_pairs_again();
  say(fmt::format("barrier: {} of all ranks", count_of(state.launch.barrier_rounds, "round")));
  state.test_barrier();
  if (count > 1) {
    say(fmt::format("all at once: each node sends to the next for {}", format_duration(flow.time_ns)));
    state.test_together();
  }
  return state.results;
}

void Coordinator::finish(bool failed) {
  for (Session& session : state_->sessions) {
    if (session.channel.open()) {
      (void)session.channel.send({{"order", "end"}, {"failed", failed}});
    }
  }
}

}  // namespace stalltrace::preflight
