// SPDX-License-Identifier: Apache-2.0
// Rank 0 of `preflight --network`: the order of its tests, from the listening port to the report.
#include <fmt/format.h>

#include "base/process/descriptor_limit.h"
#include "base/text.h"
#include "preflight/peers/coordinator/steps.h"

namespace stalltrace::preflight {
namespace {

using Json = nlohmann::ordered_json;
using Announce = std::function<void(const std::string&)>;

constexpr size_t kOtherDescriptors = 64;  // libraries, files that are read

}  // namespace

struct Coordinator::State {
  explicit State(const Launch& launch) : ranks(launch) {}

  UniqueFd listener;
  Ranks ranks;
};

Coordinator::Coordinator(std::unique_ptr<State> state) : state_(std::move(state)) {}
Coordinator::Coordinator(Coordinator&&) noexcept = default;
Coordinator::~Coordinator() = default;

Result<Coordinator> Coordinator::open(const Launch& launch) {
  raise_open_files(static_cast<size_t>(launch.world_size) + kMoreConnections + kOtherDescriptors);
  auto state = std::make_unique<State>(launch);
  ST_ASSIGN(const Endpoint anywhere, Endpoint::of(launch.listen_at, launch.port));
  auto listener = listen_on(anywhere, /*small_segments=*/true);
  if (!listener && launch.listen_at.empty()) {  // a kernel without IPv6
    ST_ASSIGN(const Endpoint anywhere_v4, Endpoint::of("0.0.0.0", launch.port));
    listener = listen_on(anywhere_v4, /*small_segments=*/true);
  }
  ST_ASSIGN(state->listener, std::move(listener));
  return Coordinator(std::move(state));
}

uint16_t Coordinator::port() const { return local_endpoint(state_->listener.get()).port(); }

Result<LaunchResults> Coordinator::run(const Announce& announce) {
  Ranks& ranks = state_->ranks;
  ranks.results.world_size = ranks.launch.world_size;
  const std::string problem = ranks.gather(state_->listener.get());
  if (ranks.sessions.empty()) {
    return fail("no rank came" + problem, "start the same command once for each rank, all within the time of --wait");
  }
  const auto count = static_cast<int32_t>(ranks.results.nodes.size());
  const auto rounds = plan_rounds(count, static_cast<size_t>(ranks.launch.most_rounds));
  ranks.results.rounds = static_cast<int64_t>(rounds.size());
  ranks.results.possible_rounds = count < 2 ? 0 : count + count % 2 - 1;
  const FlowLimits& flow = ranks.launch.flow;
  const std::string pairs =
      count < 2 ? "no pairs"
                : fmt::format(
                      "{} of pairs, in which a node sends over {} {}, at most {} and {}, where segments are sent again "
                      "once more at half the rate, and then receives; slow pairs twice",
                      count_of(ranks.results.rounds, "round"), count_of(flow.streams, "stream"),
                      flow.mbit > 0 ? fmt::format("at up to {} Mbit/s", flow.mbit)
                                    : "as fast as TCP allows (--max-mbit limits it)",
                      format_duration(flow.time_ns), format_size(flow.bytes));
  announce(fmt::format("{} on {}; {}", count_of(static_cast<int64_t>(ranks.sessions.size()), "rank"),
                       count_of(count, "node"), pairs));
  look_up_names(ranks, rounds);
  std::map<size_t, Json> ready;
  for (int32_t node = 0; node < count; ++node) {
    ready.emplace(ranks.first_session(node), Json{{"order", "respond"}});
  }
  (void)ranks.ask(ready, kReadyNs, "the start of the tests");
  test_pairs(ranks, rounds);
  test_slow_pairs_again(ranks);
  announce(fmt::format("barrier: {} of all ranks", count_of(ranks.launch.barrier_rounds, "round")));
  test_barrier(ranks);
  if (count > 1) {
    announce(fmt::format("all at once: each node sends to the next, at most {} and {}", format_duration(flow.time_ns),
                         format_size(flow.bytes)));
    test_together(ranks);
  }
  if (ranks.launch.collectives.wanted) {
    test_collectives(ranks, announce);
  }
  return ranks.results;
}

void Coordinator::finish(bool failed) {
  for (Session& session : state_->ranks.sessions) {
    if (session.channel.open()) {
      (void)session.channel.send({{"order", "end"}, {"failed", failed}});
    }
  }
}

}  // namespace stalltrace::preflight
