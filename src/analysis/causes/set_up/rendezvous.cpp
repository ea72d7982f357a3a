// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/set_up/rendezvous.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>

#include "analysis/causes/cause.h"
#include "analysis/thresholds.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kMostDifferences = 3;

using Ranks = std::vector<const LaunchedRank*>;

/// The result of a rule.
struct Failure {
  Ranks culprits;                 // the first one is the finding's
  std::optional<int32_t> absent;  // a rank without a recorded process, if that is the culprit
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

/// A job's set-up, with the queries of the rules.
class Scene {
 public:
  Scene(Cluster& cluster, const SetUp& set_up) : cluster_(cluster), set_up_(set_up) {
    for (const auto& [who, attempts] : set_up.reach.unreached) {
      const Attempts*& most = fails_[who.first];
      if (!reached(who.first, who.second) && (most == nullptr || attempts.count() > most->count())) {
        most = &attempts;
      }
    }
    std::erase_if(fails_, [&](const auto& entry) {
      return entry.second == nullptr ||
             std::max(entry.second->count(), unanswered_at(set_up.reach.unreached, entry.second->target)) <
                 kUnreachedAttempts;
    });
    for (const StuckCall& one : set_up.stuck) {
      const Member& member = cluster.member(one.call->member);
      stuck_.try_emplace({member.node_id, member.pid}, &one);
    }
  }

  [[nodiscard]] const SetUp& set_up() const { return set_up_; }
  [[nodiscard]] const LaunchedJob& job() const { return *set_up_.job; }
  [[nodiscard]] Cluster& cluster() const { return cluster_; }

  [[nodiscard]] std::string name(const LaunchedRank& rank) const {
    const MemberIndex member = member_of(rank);
    return member == kNoMember ? ranks_text({rank.rank}) : cluster_.describe(member);
  }
  [[nodiscard]] std::string names(const Ranks& ranks) const {
    return ranks.size() == 1 ? name(*ranks[0]) : numbers_of(ranks);
  }
  [[nodiscard]] MemberIndex member_of(const LaunchedRank& rank) const {
    return cluster_.join(rank.process->node_id, rank.process->pid);
  }
  [[nodiscard]] std::string how_it_ended(const LaunchedRank& rank) const {
    const MemberIndex member = member_of(rank);
    return member == kNoMember ? "ended" : cluster_.member(member).how_it_ended();
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

  /// The rank's attempts to reach the address that it failed most often to reach; null if none failed often enough.
  [[nodiscard]] const Attempts* fails(const LaunchedRank& rank) const {
    const auto found = fails_.find(rank.key());
    return found == fails_.end() ? nullptr : found->second;
  }
  /// The same, if they go to the meeting place in its variables.
  [[nodiscard]] const Attempts* fails_at_store(const LaunchedRank& rank) const {
    const Attempts* attempts = fails(rank);
    return attempts != nullptr && is_store(rank, attempts->target) ? attempts : nullptr;
  }
  /// True if it reached the meeting place in its variables.
  [[nodiscard]] bool met(const LaunchedRank& rank) const {
    const auto found = set_up_.reach.reached.find(rank.key());
    return found != set_up_.reach.reached.end() &&
           std::ranges::any_of(found->second, [&](const Endpoint& endpoint) { return is_store(rank, endpoint); });
  }
  /// True if it reached the others or tried to, or made a call: a child that only inherited its parent's variables does
  /// none of these.
  [[nodiscard]] bool acts(const LaunchedRank& rank) const {
    return met(rank) || fails_at_store(rank) != nullptr || stuck(rank) != nullptr;
  }
  [[nodiscard]] const StuckCall* stuck(const LaunchedRank& rank) const {
    const auto found = stuck_.find(rank.key());
    return found == stuck_.end() ? nullptr : found->second;
  }
  /// Ranks that have been inside a set-up call for at least `least_ns` and still are.
  [[nodiscard]] Ranks waiting(int64_t least_ns) const {
    return those([&](const LaunchedRank& rank) {
      const StuckCall* call = stuck(rank);
      return call != nullptr && !call->failed && call->call->end_ns == kForever && call->time.length() >= least_ns;
    });
  }
  [[nodiscard]] Ranks failing() const {
    return those([&](const LaunchedRank& rank) { return fails(rank) != nullptr; });
  }
  [[nodiscard]] Ranks failing_at_store() const {
    return those([&](const LaunchedRank& rank) { return fails_at_store(rank) != nullptr; });
  }
  /// True if all processes of the rank have ended.
  [[nodiscard]] bool is_gone(int32_t rank) const {
    return std::ranges::none_of(job().ranks,
                                [&](const LaunchedRank& one) { return one.rank == rank && !one.process->exit_ns; });
  }
  /// The relevant process of each rank that is gone: the one that acted, or the first; sorted by its end.
  [[nodiscard]] Ranks gone() const {
    Ranks ranks = those([&](const LaunchedRank& rank) {
      const bool first = &rank == &job().ranks.front() || (&rank - 1)->rank != rank.rank;
      return (first || acts(rank)) && is_gone(rank.rank);
    });
    std::ranges::stable_sort(ranks, {}, [](const LaunchedRank* rank) { return rank->life.to_ns; });
    return ranks;
  }
  [[nodiscard]] Ranks failed() const {
    Ranks ranks = gone();
    std::erase_if(ranks, [](const LaunchedRank* rank) { return !rank->failed(); });
    return ranks;
  }
  /// True if another rank was in its set-up at that time, or tried to reach it, and continued for a while: the job was
  /// not ended as a whole.
  [[nodiscard]] bool is_missed(const LaunchedRank& gone) const {
    return std::ranges::any_of(job().ranks, [&](const LaunchedRank& rank) {
      const StuckCall* call = stuck(rank);
      const Attempts* attempts = fails_at_store(rank);
      const int64_t waits_to_ns =
          std::max(call == nullptr ? -kForever : call->time.to_ns, attempts == nullptr ? -kForever : attempts->last_ns);
      return rank.rank != gone.rank && waits_to_ns - gone.life.to_ns >= kOpenInitNs;
    });
  }
  /// True if a communicator of the job was made.
  [[nodiscard]] bool is_set_up() const { return set_up_.made_communicators; }
  /// True if a rank waits, fails to reach the others, or failed: otherwise differing variables mean nothing.
  [[nodiscard]] bool in_trouble() const {
    return !failing_at_store().empty() || !failed().empty() || !waiting(kInitHangNs).empty() ||
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
  /// The longest time for which one of the ranks has tried, since attempts may still succeed; kForever if one gave up.
  [[nodiscard]] int64_t tried_ns(const Ranks& ranks) const {
    int64_t longest_ns = 0;
    for (const LaunchedRank* rank : ranks) {
      const Attempts* attempts = fails(*rank);
      longest_ns = std::max(longest_ns, rank->process->exit_ns ? kForever : attempts->last_ns - attempts->first_ns);
    }
    return longest_ns;
  }

  /// The address at which most ranks met.
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
  [[nodiscard]] bool is_own_address(const std::string& address) const {
    return is_loopback(address) || set_up_.reach.own_addresses.contains(address);
  }

 private:
  template <typename Condition>
  [[nodiscard]] Ranks those(const Condition& condition) const {
    Ranks ranks;
    for (const LaunchedRank& rank : job().ranks) {
      if (condition(rank)) {
        ranks.push_back(&rank);
      }
    }
    return ranks;
  }
  [[nodiscard]] bool reached(const ProcessKey& process, const Endpoint& endpoint) const {
    const auto found = set_up_.reach.reached.find(process);
    return found != set_up_.reach.reached.end() && found->second.contains(endpoint);
  }
  [[nodiscard]] static bool is_store(const LaunchedRank& rank, const Endpoint& endpoint) {
    return rank.setting("MASTER_PORT") == std::to_string(endpoint.port);
  }

  Cluster& cluster_;
  const SetUp& set_up_;
  std::map<ProcessKey, const Attempts*> fails_;
  std::map<ProcessKey, const StuckCall*> stuck_;
};

/// True if it met no other rank: its attempts fail, or it ended before.
bool is_lost(const Scene& scene, const LaunchedRank& rank) {
  return !scene.met(rank) && (scene.fails_at_store(rank) != nullptr || (rank.failed() && scene.is_gone(rank.rank)));
}

/// A differing variable may be right: rank 0 can call its own host "localhost". It is the cause if the ranks with the
/// rare value are lost, or if only the others are lost and rank 0 waits at a port of its own.
bool keeps_apart(const Scene& scene, const Difference& difference) {
  const Ranks& rare = difference.minority();
  const auto lost = [&](const LaunchedRank* rank) { return is_lost(scene, *rank); };
  if (difference.name == "WORLD_SIZE") {
    return scene.in_trouble();
  }
  if (difference.name == "MASTER_ADDR" && rare.front()->rank == 0) {
    return false;
  }
  const Ranks trying = scene.failing_at_store();
  const bool others_try = std::ranges::any_of(
      trying, [&](const LaunchedRank* rank) { return std::ranges::find(rare, rank) == rare.end(); });
  return std::ranges::all_of(rare, lost) || (difference.name == "MASTER_PORT" && rare.front()->rank == 0 && others_try);
}

/// The ranks have different meeting places or different world sizes in their variables.
std::optional<Failure> variables_differ(const Scene& scene) {
  for (const Difference& difference : differences(scene.job())) {
    const bool meeting =
        difference.name == "MASTER_ADDR" || difference.name == "MASTER_PORT" || difference.name == "WORLD_SIZE";
    if (!meeting || !keeps_apart(scene, difference)) {
      continue;
    }
    const Ranks& minority = difference.minority();
    return Failure{.culprits = minority,
                   .absent = std::nullopt,
                   .what = fmt::format("{} is not the same on all its ranks: {}", difference.name, difference.text()),
                   .remedy = fmt::format("give all ranks the same {}: see how {} {} started", difference.name,
                                         scene.names(minority), minority.size() == 1 ? "is" : "are"),
                   .from_ns = scene.from_ns(),
                   .used = {difference.name}};
  }
  return std::nullopt;
}

/// Two processes have the same rank in their variables.
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

/// Attempts that may still succeed are a fault only after a while.
std::optional<Severity> severity_of(int64_t waited_ns) {
  return waited_ns >= kLongWaitNs     ? std::optional(Severity::kCritical)
         : waited_ns >= kAbsentRankNs ? std::optional(Severity::kWaiting)
                                      : std::nullopt;
}

std::string_view head_of(Severity severity) {
  return severity == Severity::kWaiting ? "The job is not set up yet" : "The job was not set up";
}

/// A rank tries a port at which no rank meets, while the others met at another.
std::optional<Failure> elsewhere(const Scene& scene) {
  const std::optional<Endpoint> store = scene.store();
  Ranks lost = scene.failing();
  std::erase_if(lost, [&](const LaunchedRank* rank) {
    return scene.met(*rank) || scene.stuck(*rank) != nullptr || !store ||
           scene.fails(*rank)->target.port == store->port;
  });
  const std::optional<Severity> severity = lost.empty() ? std::nullopt : severity_of(scene.tried_ns(lost));
  if (!severity) {
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
                 .used = {},
                 .severity = *severity,
                 .head = head_of(*severity)};
}

/// The meeting place of all ranks can't be reached. It is served by rank 0, or by the launcher on rank 0's node.
std::optional<Failure> store_unreached(const Scene& scene) {
  const Ranks kept_out = scene.failing_at_store();
  const std::optional<Severity> severity = kept_out.empty() ? std::nullopt : severity_of(scene.tried_ns(kept_out));
  if (!severity) {
    return std::nullopt;
  }
  const Attempts& attempts = *scene.fails(*kept_out.front());
  const auto zero = std::ranges::find(scene.job().ranks, 0, &LaunchedRank::rank);
  const LaunchedRank* server = zero == scene.job().ranks.end() ? nullptr : &*zero;
  const bool should_be_here = scene.is_own_address(attempts.target.address);
  Failure failure{.culprits = kept_out,
                  .absent = std::nullopt,
                  .what = "",
                  .remedy = "",
                  .from_ns = scene.from_ns(),
                  .used = {"MASTER_ADDR", "MASTER_PORT"},
                  .severity = *severity,
                  .head = head_of(*severity)};
  std::string about_server;
  if (server == nullptr) {
    about_server = fmt::format("rank 0, on whose node it is served, was not seen on {}", scene.nodes());
    failure.absent = should_be_here ? std::optional(0) : std::nullopt;
    failure.remedy = should_be_here
                         ? "see why rank 0 does not run: it must be started on the host that MASTER_ADDR names"
                         : "see whether rank 0, or its launcher, runs on the host that MASTER_ADDR names";
  } else if (scene.is_gone(0) && server->life.to_ns - attempts.first_ns < kOpenInitNs) {  // it did not give up later
    about_server = fmt::format("{}, on whose node it is served, {}", scene.name(*server), scene.how_it_ended(*server));
    failure.culprits = {server};
    failure.remedy = "see why rank 0 ended: read the last lines that it wrote to standard error";
  } else {
    about_server =
        fmt::format("{}, on whose node it is served, {}", scene.name(*server), scene.is_gone(0) ? "ran then" : "runs");
    failure.remedy = fmt::format("check that {} is an address of {}, where rank 0 runs", attempts.target.address,
                                 scene.node_of(*server));
  }
  failure.remedy +=
      attempts.error == ECONNREFUSED
          ? fmt::format(", and that it listens on port {}", attempts.target.port)
          : fmt::format(", and that a firewall lets connections to port {} through", attempts.target.port);
  failure.what =
      fmt::format("{} did not reach the store at {} ({}), where MASTER_ADDR and MASTER_PORT lead; {}",
                  scene.names(kept_out), format_endpoint(attempts.target), error_text(attempts), about_server);
  return failure;
}

/// A rank ended before it met the others, which missed it.
std::optional<Failure> rank_ended(const Scene& scene) {
  if (scene.is_set_up()) {
    return std::nullopt;
  }
  const Ranks gone = scene.gone();
  const auto found = std::ranges::find_if(gone, [&](const LaunchedRank* rank) { return scene.is_missed(*rank); });
  if (found == gone.end()) {
    return std::nullopt;
  }
  const LaunchedRank& first = **found;
  return Failure{.culprits = {&first},
                 .absent = std::nullopt,
                 .what = fmt::format("{} {}, {} after it was started{}", scene.name(first), scene.how_it_ended(first),
                                     format_duration(first.life.length()),
                                     gone.size() > 1 && found == gone.begin() ? ", before any other" : ""),
                 .remedy = fmt::format("read the last lines that rank {} wrote to standard error on {}: its program "
                                       "ended before its communicators were made",
                                       first.rank, scene.node_of(first)),
                 .from_ns = first.life.to_ns,
                 .used = {}};
}

/// The others wait for ranks without a process. If half of the ranks or more are absent, they are probably on nodes
/// that were not recorded.
std::optional<Failure> rank_absent(const Scene& scene) {
  const std::vector<int32_t> missing = scene.job().missing();
  const bool elsewhere = scene.job().absent() >= static_cast<int64_t>(scene.job().present().size());
  const Ranks waiting = scene.waiting(elsewhere ? kLongWaitNs : kAbsentRankNs);
  if (missing.empty() || waiting.empty()) {
    return std::nullopt;
  }
  const Severity severity = scene.waiting(kLongWaitNs).empty() ? Severity::kWaiting : Severity::kCritical;
  return Failure{.culprits = {},
                 .absent = missing.front(),
                 .what = fmt::format("{} of {} {} not seen on {}", ranks_text(missing), scene.job().world_size,
                                     missing.size() == 1 ? "was" : "were", scene.nodes()),
                 .remedy = fmt::format("see whether {} {} started, and with which RANK and WORLD_SIZE; record the "
                                       "nodes where they should be, too",
                                       ranks_text(missing), missing.size() == 1 ? "was" : "were"),
                 .from_ns = scene.from_ns(),
                 .used = {},
                 .severity = severity,
                 .head = head_of(severity)};
}

/// The most direct rule first: it explains the symptoms of the later ones.
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

SetUp set_up_of(const Cluster& cluster, const Timeline& timeline, const LaunchedJob& job,
                const std::vector<StuckCall>& stuck, const Reach& reach) {
  SetUp set_up{.job = &job, .stuck = {}, .reach = {}, .seen = {kForever, -kForever}};
  std::map<ProcessKey, Interval> lives;
  for (const LaunchedRank& rank : job.ranks) {
    lives[rank.key()] = rank.life;
    set_up.seen.from_ns = std::min(set_up.seen.from_ns, rank.life.from_ns);
    if (rank.life.to_ns != kForever) {
      set_up.seen.to_ns = std::max(set_up.seen.to_ns, rank.life.to_ns);
    }
  }
  const auto takes_part = [&](MemberIndex index) {
    const Member& member = cluster.member(index);
    return lives.contains({member.node_id, member.pid});
  };
  for (const StuckCall& one : stuck) {
    if (takes_part(one.call->member)) {
      set_up.stuck.push_back(one);
      set_up.seen.to_ns = std::max(set_up.seen.to_ns, one.time.to_ns);
    }
  }
  set_up.made_communicators = std::ranges::any_of(timeline.communicator_calls(), [&](const CommunicatorCall& call) {
    return takes_part(call.member) && call.end_ns != kForever &&
           !call_failed(call.library, call.return_code.value_or(0));
  });
  for (const auto& [who, attempts] : reach.unreached) {
    const auto life = lives.find(who.first);
    if (life != lives.end() && attempts.first_ns <= life->second.to_ns) {
      set_up.reach.unreached.emplace(who, attempts);
      set_up.seen.to_ns = std::max(set_up.seen.to_ns, std::min(attempts.last_ns, life->second.to_ns));
    }
  }
  for (const auto& [process, endpoints] : reach.reached) {
    if (lives.contains(process)) {
      set_up.reach.reached.emplace(process, endpoints);
    }
  }
  set_up.reach.own_addresses = reach.own_addresses;
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
    if (const AttemptIndex attempt = cluster.attempt_of(set_up.stuck.front().call->member); attempt != kNoAttempt) {
      finding.attempt = attempt + int64_t{1};
    }
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
