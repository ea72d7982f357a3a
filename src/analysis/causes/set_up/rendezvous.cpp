// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/set_up/rendezvous.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "analysis/causes/cause.h"
#include "analysis/thresholds.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr std::array<std::string_view, 3> kMeetingVariables{"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE"};
constexpr size_t kMostDifferences = 3;

using Ranks = std::vector<const LaunchedRank*>;

/// What a rule found.
struct Failure {
  Ranks culprits;                 // the first one is the finding's
  std::optional<int32_t> absent;  // a rank of which no process was seen, where that is the culprit
  std::string what;               // "rank 1 was started twice"
  std::string remedy;
  int64_t from_ns = 0;
  std::vector<std::string> used;  // names of the variables in `what`
  Severity severity = Severity::kCritical;
  std::string_view head = "The job was not set up";
};

std::string numbers_of(const Ranks& ranks) {
  std::vector<int32_t> numbers;
  std::ranges::transform(ranks, std::back_inserter(numbers), &LaunchedRank::rank);
  return ranks_text(std::move(numbers));
}

/// A job's set-up, and what its rules ask about it.
class Scene {
 public:
  Scene(Cluster& cluster, const SetUp& set_up) : cluster_(cluster), set_up_(set_up) {}

  [[nodiscard]] const SetUp& set_up() const { return set_up_; }
  [[nodiscard]] const LaunchedJob& job() const { return *set_up_.job; }

  [[nodiscard]] std::string name(const LaunchedRank& rank) const {
    const MemberIndex member = cluster_.join(rank.process->node_id, rank.process->pid);
    return member == kNoMember ? ranks_text({rank.rank}) : cluster_.describe(member);
  }
  [[nodiscard]] std::string names(const Ranks& ranks) const {
    return ranks.size() == 1 ? name(*ranks[0]) : numbers_of(ranks);
  }
  [[nodiscard]] std::string node_of(const LaunchedRank& rank) const {
    return cluster_.node_name(rank.process->node_id);
  }
  [[nodiscard]] std::string nodes() const {
    std::set<std::string> names;
    for (const LaunchedRank& rank : job().ranks) {
      names.insert(node_of(rank));
    }
    return names.size() == 1 ? *names.begin() : count_of(static_cast<int64_t>(names.size()), "recorded node");
  }

  /// Its attempts to reach the address that it tried most in vain; null: none that came to nothing often enough.
  [[nodiscard]] const Attempts* fails(const LaunchedRank& rank) const {
    const Attempts* most = nullptr;
    for (const auto& [who, attempts] : set_up_.reach.unreached) {
      if (who.first == rank.key() && !reached(rank, who.second) &&
          (most == nullptr || attempts.count() > most->count())) {
        most = &attempts;
      }
    }
    return most != nullptr &&
                   std::max(most->count(), unanswered_at(set_up_.reach.unreached, most->target)) >= kUnreachedAttempts
               ? most
               : nullptr;
  }
  [[nodiscard]] bool reached(const LaunchedRank& rank, const Endpoint& endpoint) const {
    const auto found = set_up_.reach.reached.find(rank.key());
    return found != set_up_.reach.reached.end() && found->second.contains(endpoint);
  }
  /// It connected, tried to, or made a call: not a child that only inherited its parent's variables.
  [[nodiscard]] bool acts(const LaunchedRank& rank) const {
    return set_up_.reach.reached.contains(rank.key()) ||
           std::ranges::any_of(set_up_.reach.unreached,
                               [&](const auto& entry) { return entry.first.first == rank.key(); }) ||
           stuck(rank) != nullptr;
  }
  [[nodiscard]] const StuckCall* stuck(const LaunchedRank& rank) const {
    const auto found = std::ranges::find_if(set_up_.stuck, [&](const StuckCall& one) {
      const Member& member = cluster_.member(one.call->member);
      return ProcessKey{member.node_id, member.pid} == rank.key();
    });
    return found == set_up_.stuck.end() ? nullptr : &*found;
  }
  /// Those that have been inside a set-up call for `least_ns` and still are.
  [[nodiscard]] Ranks waiting(int64_t least_ns) const {
    Ranks waiting;
    for (const LaunchedRank& rank : job().ranks) {
      const StuckCall* call = stuck(rank);
      if (call != nullptr && !call->failed && call->call->end_ns == kForever && call->time.length() >= least_ns) {
        waiting.push_back(&rank);
      }
    }
    return waiting;
  }
  [[nodiscard]] Ranks failing() const {
    Ranks ranks;
    for (const LaunchedRank& rank : job().ranks) {
      if (fails(rank) != nullptr) {
        ranks.push_back(&rank);
      }
    }
    return ranks;
  }
  /// Of each rank one process at most: those that ended by themselves and badly, by the time of that.
  [[nodiscard]] Ranks failed() const {
    Ranks ranks;
    for (const LaunchedRank& rank : job().ranks) {
      const bool first = &rank == &job().ranks.front() || (&rank - 1)->rank != rank.rank;
      if (rank.failed() && (first || acts(rank))) {
        ranks.push_back(&rank);
      }
    }
    std::ranges::stable_sort(ranks, {}, [](const LaunchedRank* rank) { return rank->life.to_ns; });
    return ranks;
  }
  /// Those that are not in `ranks`.
  [[nodiscard]] Ranks others(const Ranks& ranks) const {
    Ranks others;
    for (const LaunchedRank& rank : job().ranks) {
      const bool in = std::ranges::any_of(ranks, [&](const LaunchedRank* one) { return one->rank == rank.rank; });
      const bool again = !others.empty() && others.back()->rank == rank.rank;
      if (!in && !again) {
        others.push_back(&rank);
      }
    }
    return others;
  }
  /// Something went wrong or somebody waits: without that, variables that differ mean nothing.
  [[nodiscard]] bool in_trouble() const {
    return !failing().empty() || !failed().empty() || !waiting(kInitHangNs).empty() ||
           std::ranges::any_of(set_up_.stuck, &StuckCall::failed);
  }
  /// When the trouble began.
  [[nodiscard]] int64_t from_ns() const {
    int64_t from_ns = set_up_.seen.to_ns;
    for (const LaunchedRank& rank : job().ranks) {
      const Attempts* attempts = fails(rank);
      const StuckCall* call = stuck(rank);
      from_ns = std::min({from_ns, attempts == nullptr ? kForever : attempts->first_ns,
                          call == nullptr ? kForever : call->time.from_ns, rank.failed() ? rank.life.to_ns : kForever});
    }
    return from_ns;
  }

  /// The address at which most ranks met: of the port that they were given, where that is known.
  [[nodiscard]] std::optional<Endpoint> store() const {
    std::map<Endpoint, size_t> visits;
    for (const LaunchedRank& rank : job().ranks) {
      if (const auto found = set_up_.reach.reached.find(rank.key()); found != set_up_.reach.reached.end()) {
        for (const Endpoint& endpoint : found->second) {
          visits[endpoint] += is_store(rank, endpoint) ? 1 : 0;
        }
      }
    }
    const auto most = std::ranges::max_element(visits, {}, [](const auto& entry) { return entry.second; });
    return most == visits.end() || most->second == 0 ? std::nullopt : std::optional(most->first);
  }
  [[nodiscard]] static bool is_store(const LaunchedRank& rank, const Endpoint& endpoint) {
    return rank.setting("MASTER_PORT") == std::to_string(endpoint.port);
  }

  Cluster& cluster() const { return cluster_; }

 private:
  Cluster& cluster_;
  const SetUp& set_up_;
};

/// The ranks were given different places to meet, or different numbers of ranks.
std::optional<Failure> variables_differ(const Scene& scene) {
  if (!scene.in_trouble()) {
    return std::nullopt;
  }
  for (const Difference& difference : differences(scene.job())) {
    if (std::ranges::find(kMeetingVariables, difference.name) == kMeetingVariables.end()) {
      continue;
    }
    const Ranks& minority = difference.minority();
    std::string remedy = fmt::format("give all ranks the same {}: see how {} {} started", difference.name,
                                     scene.names(minority), minority.size() == 1 ? "is" : "are");
    return Failure{.culprits = minority,
                   .absent = std::nullopt,
                   .what = fmt::format("{} is not the same on all its ranks: {}", difference.name, difference.text()),
                   .remedy = std::move(remedy),
                   .from_ns = scene.from_ns(),
                   .used = {difference.name}};
  }
  return std::nullopt;
}

/// Two processes were given one rank.
std::optional<Failure> rank_twice(const Scene& scene) {
  const std::vector<LaunchedRank>& ranks = scene.job().ranks;
  for (size_t i = 1; i < ranks.size(); ++i) {
    const LaunchedRank& first = ranks[i - 1];
    const LaunchedRank& second = ranks[i];
    if (first.rank != second.rank || !scene.acts(first) || !scene.acts(second) || !scene.in_trouble()) {
      continue;
    }
    const std::vector<int32_t> missing = scene.job().missing();
    return Failure{
        .culprits = {&second, &first},
        .absent = std::nullopt,
        .what = fmt::format("rank {} was started twice (pid {} on {}, pid {} on {}){}", first.rank, first.process->pid,
                            scene.node_of(first), second.process->pid, scene.node_of(second),
                            missing.empty() ? "" : fmt::format(", and {} was not seen", ranks_text(missing))),
        .remedy = "give each process a RANK of its own, from 0 to WORLD_SIZE - 1",
        .from_ns = scene.from_ns(),
        .used = {}};
  }
  return std::nullopt;
}

/// It tries an address at which nobody meets, while the others met at another.
std::optional<Failure> elsewhere(const Scene& scene) {
  const std::optional<Endpoint> store = scene.store();
  if (!store) {
    return std::nullopt;
  }
  Ranks lost;
  for (const LaunchedRank* rank : scene.failing()) {
    if (scene.fails(*rank)->target.port != store->port && !scene.reached(*rank, *store)) {
      lost.push_back(rank);
    }
  }
  if (lost.empty()) {
    return std::nullopt;
  }
  const Attempts& attempts = *scene.fails(*lost.front());
  return Failure{.culprits = lost,
                 .absent = std::nullopt,
                 .what = fmt::format("{} tried to reach {} ({}) while others of its ranks met at {}", scene.names(lost),
                                     format_endpoint(attempts.target), error_text(attempts), format_endpoint(*store)),
                 .remedy = fmt::format("let {} use {}, as the others do: its program, or what starts it, sets another "
                                       "MASTER_ADDR or MASTER_PORT than its environment",
                                       scene.names(lost), format_endpoint(*store)),
                 .from_ns = scene.from_ns(),
                 .used = {}};
}

std::string server_text(const Scene& scene, const LaunchedRank* server) {
  if (server == nullptr) {
    return fmt::format("rank 0, which serves it, was not seen on {}", scene.nodes());
  }
  const MemberIndex member = scene.cluster().join(server->process->node_id, server->process->pid);
  if (server->process->exit_ns && member != kNoMember) {
    return fmt::format("{}, which serves it, {}", scene.name(*server), scene.cluster().member(member).how_it_ended());
  }
  return fmt::format("{}, which serves it, runs", scene.name(*server));
}

/// The place where all ranks meet can't be reached.
std::optional<Failure> store_unreached(const Scene& scene) {
  Ranks kept_out;
  const Attempts* attempts = nullptr;
  for (const LaunchedRank* rank : scene.failing()) {
    const Attempts* own = scene.fails(*rank);
    if (scene.is_store(*rank, own->target)) {
      kept_out.push_back(rank);
      attempts = attempts == nullptr ? own : attempts;
    }
  }
  if (attempts == nullptr) {
    return std::nullopt;
  }
  const auto zero = std::ranges::find(scene.job().ranks, 0, &LaunchedRank::rank);
  const LaunchedRank* server = zero == scene.job().ranks.end() ? nullptr : &*zero;
  const bool refused = attempts->refused > 0;
  Failure failure{.culprits = kept_out,
                  .absent = std::nullopt,
                  .what = fmt::format("{} did not reach the store at {} (MASTER_ADDR and MASTER_PORT): {}; {}",
                                      scene.names(kept_out), format_endpoint(attempts->target), error_text(*attempts),
                                      server_text(scene, server)),
                  .remedy = "",
                  .from_ns = scene.from_ns(),
                  .used = {"MASTER_ADDR", "MASTER_PORT"}};
  if (server == nullptr || server->process->exit_ns) {
    failure.absent = server == nullptr ? std::optional(0) : std::nullopt;
    failure.culprits = server == nullptr ? Ranks() : Ranks{server};
    failure.remedy =
        "see why rank 0 does not run: it must be started first, or at the same time, on the host that "
        "MASTER_ADDR names";
  } else {
    failure.remedy = fmt::format(
        "check that {} is an address of {}, where rank 0 runs, {}", attempts->target.address, scene.node_of(*server),
        refused ? fmt::format("and that port {} is free there for rank 0 to listen on", attempts->target.port)
                : fmt::format("and that a firewall lets connections to port {} through", attempts->target.port));
  }
  return failure;
}

/// A rank ended before it met the others.
std::optional<Failure> rank_ended(const Scene& scene) {
  const Ranks failed = scene.failed();
  if (failed.empty() || scene.job().ranks.size() < 2) {
    return std::nullopt;
  }
  const LaunchedRank& first = *failed.front();
  const MemberIndex member = scene.cluster().join(first.process->node_id, first.process->pid);
  if (member == kNoMember) {
    return std::nullopt;
  }
  return Failure{
      .culprits = {&first},
      .absent = std::nullopt,
      .what = fmt::format("{} {}, {} after it was started{}", scene.name(first),
                          scene.cluster().member(member).how_it_ended(), format_duration(first.life.length()),
                          failed.size() > 1 ? ", before any other" : ""),
      .remedy = fmt::format("read the last lines that rank {} wrote to standard error on {}: its program "
                            "ended before its communicators were made",
                            first.rank, scene.node_of(first)),
      .from_ns = first.life.to_ns,
      .used = {},
      .head = "The job called no collective"};
}

/// The others wait for ranks of which there is no process.
std::optional<Failure> rank_absent(const Scene& scene) {
  const std::vector<int32_t> missing = scene.job().missing();
  const bool on_other_nodes = missing.size() > scene.job().ranks.size();  // which may not be recorded
  const Ranks waiting = scene.waiting(on_other_nodes ? kLongWaitNs : kAbsentRankNs);
  if (missing.empty() || waiting.empty()) {
    return std::nullopt;
  }
  return Failure{.culprits = {},
                 .absent = missing.front(),
                 .what = fmt::format("{} of {} {} not seen on {}", ranks_text(missing), scene.job().world_size,
                                     missing.size() == 1 ? "was" : "were", scene.nodes()),
                 .remedy = fmt::format("see whether {} {} started, and with which RANK and WORLD_SIZE; record the "
                                       "nodes where they should be, too",
                                       ranks_text(missing), missing.size() == 1 ? "was" : "were"),
                 .from_ns = scene.from_ns(),
                 .used = {},
                 .severity = scene.waiting(kLongWaitNs).empty() ? Severity::kWaiting : Severity::kCritical,
                 .head = "The job is not set up yet"};
}

/// The most direct first: what explains the symptoms of those behind it.
using Rule = std::optional<Failure> (*)(const Scene&);
constexpr std::array<Rule, 6> kRules{variables_differ, rank_twice, elsewhere, store_unreached, rank_ended, rank_absent};

void add_evidence(const Scene& scene, const Failure& failure, Finding& finding) {
  size_t lines = 0;
  for (const LaunchedRank& rank : scene.job().ranks) {
    const Attempts* attempts = scene.fails(rank);
    if (attempts != nullptr && ++lines <= kMostSteps) {
      finding.evidence.push_back(attempts_evidence(ranks_text({rank.rank}), *attempts));
    }
  }
  lines = 0;
  for (const StuckCall& stuck : scene.set_up().stuck) {
    if (++lines <= kMostSteps) {
      finding.evidence.push_back({"collective", 1, stuck_text(scene.cluster(), stuck), {}});
    }
  }
  lines = 0;
  for (const LaunchedRank* rank : scene.failed()) {
    const MemberIndex member = scene.cluster().join(rank->process->node_id, rank->process->pid);
    if (member != kNoMember && ++lines <= kMostSteps) {
      finding.evidence.push_back(
          {"process",
           1,
           fmt::format("{} {}, {} after it was started", scene.name(*rank),
                       scene.cluster().member(member).how_it_ended(), format_duration(rank->life.length())),
           {}});
    }
  }
  lines = 0;
  for (const Difference& difference : differences(scene.job())) {
    const Ranks& minority = difference.minority();
    const bool of_culprit = std::ranges::any_of(failure.culprits, [&](const LaunchedRank* rank) {
      return std::ranges::find(minority, rank) != minority.end();
    });
    if (of_culprit && std::ranges::find(failure.used, difference.name) == failure.used.end() &&
        ++lines <= kMostDifferences) {
      finding.evidence.push_back({"environment", static_cast<int64_t>(minority.size()), difference.text(), {}});
    }
  }
}

/// "; ranks 0 and 2 waited for 12.2 s"
std::string waiting_text(const Scene& scene, const Failure& failure) {
  Ranks waiting = scene.waiting(0);
  std::erase_if(waiting, [&](const LaunchedRank* rank) {
    return std::ranges::find(failure.culprits, rank) != failure.culprits.end();
  });
  if (waiting.empty()) {
    return "";
  }
  int64_t longest_ns = 0;
  for (const LaunchedRank* rank : waiting) {
    longest_ns = std::max(longest_ns, scene.stuck(*rank)->time.length());
  }
  return fmt::format("; {} waited for {}", numbers_of(waiting), format_duration(longest_ns));
}

}  // namespace

Result<SetUp> set_up_of(EventSource& source, const Cluster& cluster, const LaunchedJob& job,
                        const std::vector<StuckCall>& stuck) {
  SetUp set_up{.job = &job, .stuck = {}, .reach = {}, .seen = {kForever, -kForever}};
  std::set<ProcessKey> processes;
  for (const LaunchedRank& rank : job.ranks) {
    processes.insert(rank.key());
    set_up.seen.from_ns = std::min(set_up.seen.from_ns, rank.life.from_ns);
    if (rank.life.to_ns != kForever) {
      set_up.seen.to_ns = std::max(set_up.seen.to_ns, rank.life.to_ns);
    }
  }
  for (const StuckCall& one : stuck) {
    const Member& member = cluster.member(one.call->member);
    if (processes.contains({member.node_id, member.pid})) {
      set_up.stuck.push_back(one);
      set_up.seen.to_ns = std::max(set_up.seen.to_ns, one.time.to_ns);
    }
  }
  ST_ASSIGN(set_up.reach, reach_in(source, cluster, {set_up.seen.from_ns, kForever / 2}));
  std::erase_if(set_up.reach.unreached, [&](const auto& entry) { return !processes.contains(entry.first.first); });
  std::erase_if(set_up.reach.reached, [&](const auto& entry) { return !processes.contains(entry.first); });
  for (const auto& [who, attempts] : set_up.reach.unreached) {
    set_up.seen.to_ns = std::max(set_up.seen.to_ns, attempts.last_ns);
  }
  return set_up;
}

std::optional<Finding> rendezvous_failure(Cluster& cluster, const SetUp& set_up) {
  const Scene scene(cluster, set_up);
  std::optional<Failure> failure;
  for (const Rule rule : kRules) {
    if (!failure) {
      failure = rule(scene);
    }
  }
  if (!failure) {
    return std::nullopt;
  }
  Finding finding{.cause = Cause::kInitFailure, .severity = failure->severity, .confidence = kInitFailureConfidence};
  if (failure->absent) {
    finding.culprit = Culprit{.node = "", .rank = failure->absent, .pid = 0};
  } else {
    const Process& process = *failure->culprits.front()->process;
    const MemberIndex member = cluster.join(process.node_id, process.pid);
    finding.culprit = member == kNoMember ? std::nullopt : std::optional(culprit_of(cluster, member));
  }
  if (!set_up.stuck.empty()) {
    finding.comm_id_hash = set_up.stuck.front().call->hash;
  }
  finding.op = Operation::kCommInitRank;
  finding.collectives_affected = 1;
  finding.window = {failure->from_ns, std::max(failure->from_ns, set_up.seen.to_ns)};
  finding.stall_ms = static_cast<double>(finding.window.to_ns - finding.window.from_ns) / static_cast<double>(kNsPerMs);
  finding.summary = fmt::format("{}: {}{}.", failure->head, failure->what, waiting_text(scene, *failure));
  add_evidence(scene, *failure, finding);
  finding.remedy = failure->remedy;
  return finding;
}

}  // namespace stalltrace::analysis
