// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/set_up/rendezvous.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>

#include "analysis/causes/cause.h"
#include "analysis/evidence/flows.h"
#include "analysis/rank_numbers.h"
#include "analysis/thresholds/hangs.h"
#include "analysis/thresholds/set_up.h"
#include "base/net/loopback.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kMostDifferences = 3;

/// What a rule found.
struct Failure {
  Ranks culprits;                 // the first one is the finding's, if it is known
  std::optional<int32_t> absent;  // a rank without a recorded process, if that is the culprit
  std::string what;               // "rank 1 was started twice"
  std::string remedy;
  int64_t from_ns = 0;
  std::vector<std::string> used;  // names of the variables in `what`
  Severity severity = Severity::kCritical;
  std::string_view head = "The job was not set up";
  bool culprit_known = true;  // false: one that was not recorded may be to blame
};

/// It came nowhere: it tries in vain, or ended before it met the others.
bool is_lost(const JobSetUp& set_up, const LaunchedRank& rank) {
  return !set_up.met(rank) && (set_up.fails_at_store(rank) != nullptr || (rank.failed() && set_up.is_gone(rank)));
}

/// A variable may differ and be right: rank 0 can call its own host "localhost". It is the cause where those that have
/// the rare value come nowhere, or where no other rank does and rank 0 waits at a port of its own.
bool keeps_apart(const JobSetUp& set_up, const Difference& difference) {
  const Ranks& rare = difference.minority();
  const auto lost = [&](const LaunchedRank* rank) { return is_lost(set_up, *rank); };
  if (difference.name == "WORLD_SIZE") {
    return set_up.in_trouble();
  }
  if (difference.name == "MASTER_ADDR" && rare.front()->rank == 0) {
    return false;
  }
  const Ranks trying = set_up.failing_at_store();
  const bool others_try = std::ranges::any_of(
      trying, [&](const LaunchedRank* rank) { return std::ranges::find(rare, rank) == rare.end(); });
  return std::ranges::all_of(rare, lost) || (difference.name == "MASTER_PORT" && rare.front()->rank == 0 && others_try);
}

/// The ranks were given different addresses to meet at, or different numbers of ranks.
std::optional<Failure> variables_differ(const JobSetUp& set_up) {
  for (const Difference& difference : differences(set_up.job())) {
    const bool meeting =
        difference.name == "MASTER_ADDR" || difference.name == "MASTER_PORT" || difference.name == "WORLD_SIZE";
    if (!meeting || !keeps_apart(set_up, difference)) {
      continue;
    }
    const Ranks& minority = difference.minority();
    return Failure{.culprits = minority,
                   .absent = std::nullopt,
                   .what = fmt::format("{} is not the same on all its ranks: {}", difference.name, difference.text()),
                   .remedy = fmt::format("give all ranks the same {}: see how {} {} started", difference.name,
                                         set_up.names(minority), minority.size() == 1 ? "is" : "are"),
                   .from_ns = set_up.trouble_from_ns(),
                   .used = {difference.name}};
  }
  return std::nullopt;
}

/// Two processes were given one rank.
std::optional<Failure> rank_twice(const JobSetUp& set_up) {
  const std::vector<LaunchedRank>& ranks = set_up.job().ranks;
  if (!set_up.in_trouble()) {
    return std::nullopt;
  }
  for (size_t i = 1; i < ranks.size(); ++i) {
    const LaunchedRank& first = ranks[i - 1];
    const LaunchedRank& second = ranks[i];
    if (first.rank != second.rank || !set_up.acts(first) || !set_up.acts(second)) {
      continue;
    }
    const MissingRanks missing = set_up.job().missing();
    return Failure{
        .culprits = {&second, &first},
        .absent = std::nullopt,
        .what = fmt::format("rank {} was started twice (pid {} on {}, pid {} on {}){}", first.rank, first.process->pid,
                            set_up.node_of(first), second.process->pid, set_up.node_of(second),
                            missing.empty() ? "" : fmt::format(", and {} was not seen", missing.text())),
        .remedy = "give each process a RANK of its own, from 0 to WORLD_SIZE - 1",
        .from_ns = set_up.trouble_from_ns(),
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

/// It tries a port at which no ranks meet, while the others met at another.
std::optional<Failure> elsewhere(const JobSetUp& set_up) {
  const std::optional<Endpoint> store = set_up.store();
  Ranks lost = set_up.failing();
  std::erase_if(lost, [&](const LaunchedRank* rank) {
    return set_up.met(*rank) || set_up.stuck(*rank) != nullptr || set_up.is_child(*rank) || !store ||
           set_up.fails(*rank)->target.port == store->port;
  });
  const std::optional<Severity> severity = lost.empty() ? std::nullopt : severity_of(set_up.tried_ns(lost));
  if (!severity) {
    return std::nullopt;
  }
  const Attempts& attempts = *set_up.fails(*lost.front());
  return Failure{
      .culprits = lost,
      .absent = std::nullopt,
      .what = fmt::format("{} tried to reach {} ({}) while others of its ranks met at {}", set_up.names(lost),
                          format_endpoint(attempts.target), error_text(attempts), format_endpoint(*store)),
      .remedy = fmt::format("let {} use {}, as the others do: its program, or what starts it, sets another "
                            "MASTER_ADDR or MASTER_PORT than its environment",
                            set_up.names(lost), format_endpoint(*store)),
      .from_ns = set_up.trouble_from_ns(),
      .used = {},
      .severity = *severity,
      .head = head_of(*severity)};
}

/// What is known of the store's host: the job's rank 0 runs there, or its launcher.
struct Server {
  std::string text;  // "rank 0, on whose node it is served, runs"
  std::string remedy;
  const LaunchedRank* culprit = nullptr;
  bool rank_absent = false;
  bool recorded = true;
};

Server server_of(const JobSetUp& set_up, const LaunchedRank& kept_out, const Attempts& attempts) {
  const auto zero = std::ranges::find(set_up.job().ranks, 0, &LaunchedRank::rank);
  const bool loopback = is_loopback(attempts.target.address);
  const std::string set_address =
      fmt::format("set MASTER_ADDR to an address of rank 0's node on all ranks: {} leads each node to itself",
                  attempts.target.address);
  if (zero == set_up.job().ranks.end()) {
    const bool should_be_here = set_up.is_own_address(attempts.target.address) && !set_up.job().processes_left_out;
    return {.text = fmt::format("rank 0, on whose node it is served, was not seen on {}", set_up.nodes()),
            .remedy = loopback ? "see why rank 0 does not run here; if it runs on another node, " + set_address
                      : should_be_here
                          ? "see why rank 0 does not run: it must be started on the host that MASTER_ADDR names"
                          : "see whether rank 0, or its launcher, runs on the host that MASTER_ADDR names",
            .rank_absent = should_be_here,
            .recorded = false};
  }
  const std::string name = set_up.name(*zero);
  if (loopback && zero->process->node_id != kept_out.process->node_id) {
    return {.text = fmt::format("that address leads to {} itself, and {} runs on {}", set_up.node_of(kept_out), name,
                                set_up.node_of(*zero)),
            .remedy = set_address};
  }
  if (set_up.is_gone(0) && zero->life.to_ns - attempts.first_ns < kOpenInitNs) {  // not one that gave up later
    return {.text = fmt::format("{}, on whose node it is served, {}", name, set_up.how_it_ended(*zero)),
            .remedy = "see why rank 0 ended: read the last lines that it wrote to standard error",
            .culprit = &*zero};
  }
  return {.text = fmt::format("{}, on whose node it is served, {}", name, set_up.is_gone(0) ? "ran then" : "runs"),
          .remedy = loopback ? fmt::format("check that rank 0 listens on port {}", attempts.target.port)
                             : fmt::format("check that {} is an address of {}, where rank 0 runs",
                                           attempts.target.address, set_up.node_of(*zero))};
}

/// No rank that tries reaches the store.
std::optional<Failure> store_unreached(const JobSetUp& set_up) {
  const Ranks kept_out = set_up.failing_at_store();
  const std::optional<Severity> severity = kept_out.empty() ? std::nullopt : severity_of(set_up.tried_ns(kept_out));
  if (!severity) {
    return std::nullopt;
  }
  const Attempts& attempts = *set_up.fails(*kept_out.front());
  const Server server = server_of(set_up, *kept_out.front(), attempts);
  const std::string port =
      attempts.error == ECONNREFUSED
          ? fmt::format(", and that it listens on port {}", attempts.target.port)
          : fmt::format(", and that a firewall lets connections to port {} through", attempts.target.port);
  return Failure{
      .culprits = server.culprit != nullptr ? Ranks{server.culprit} : kept_out,
      .absent = server.rank_absent ? std::optional(0) : std::nullopt,
      .what = fmt::format("{} did not reach the store at {} ({}), where MASTER_ADDR and MASTER_PORT lead; {}",
                          set_up.names(kept_out), format_endpoint(attempts.target), error_text(attempts), server.text),
      .remedy = server.remedy + (is_loopback(attempts.target.address) ? "" : port),
      .from_ns = set_up.trouble_from_ns(),
      .used = {"MASTER_ADDR", "MASTER_PORT"},
      .severity = *severity,
      .head = head_of(*severity),
      .culprit_known = server.recorded || server.rank_absent || set_up.store().has_value()};
}

/// A rank ended before it met the others, who missed it. Of several the first one, unless it was asked to end: their
/// launcher does that when one has failed.
std::optional<Failure> rank_ended(const JobSetUp& set_up) {
  if (set_up.made_communicators()) {
    return std::nullopt;
  }
  const Ranks gone = set_up.gone();
  const auto found = std::ranges::find_if(gone, [&](const LaunchedRank* rank) {
    return set_up.is_missed(*rank) && (gone.size() == 1 || !rank->was_asked_to_end());
  });
  if (found == gone.end()) {
    return std::nullopt;
  }
  const LaunchedRank& first = **found;
  const bool is_first = gone.size() > 1 && found == gone.begin() &&
                        std::ranges::all_of(gone, [&](const auto* rank) { return set_up.on_one_host(*rank, first); });
  return Failure{.culprits = {&first},
                 .absent = std::nullopt,
                 .what = fmt::format("{} {}, {} after it was started{}", set_up.name(first), set_up.how_it_ended(first),
                                     format_duration(first.life.length()), is_first ? ", before any other" : ""),
                 .remedy = fmt::format("read the last lines that rank {} wrote to standard error on {}: its program "
                                       "ended before its communicators were made",
                                       first.rank, set_up.node_of(first)),
                 .from_ns = first.life.to_ns,
                 .used = {}};
}

/// The others wait for ranks of which there is no process. Where half of the ranks are, they are on nodes that were not
/// recorded, more likely than not.
std::optional<Failure> rank_absent(const JobSetUp& set_up) {
  const MissingRanks missing = set_up.job().missing();
  const bool half_absent = missing.count() >= static_cast<int64_t>(set_up.job().present().size());
  const Ranks waiting = set_up.waiting(half_absent ? kLongWaitNs : kAbsentRankNs);
  if (missing.empty() || waiting.empty() || set_up.job().processes_left_out) {
    return std::nullopt;
  }
  const Severity severity = set_up.waiting(kLongWaitNs).empty() ? Severity::kWaiting : Severity::kCritical;
  // One that ended may be why the others wait, and one that was not seen may run on a node that was not recorded. That
  // one rank does not reach another shows that the other was started.
  const bool known = missing.count() == 1 && set_up.gone().empty() && set_up.failing() == set_up.failing_at_store();
  return Failure{.culprits = {},
                 .absent = known ? std::optional(missing.first()) : std::nullopt,
                 .what = fmt::format("{} of {} {} not seen on {}", missing.text(), set_up.job().world_size,
                                     missing.count() == 1 ? "was" : "were", set_up.nodes()),
                 .remedy = fmt::format("see whether {} {} started, and with which RANK and WORLD_SIZE; record the "
                                       "nodes where they should be, too",
                                       missing.text(), missing.count() == 1 ? "was" : "were"),
                 .from_ns = set_up.trouble_from_ns(),
                 .used = {},
                 .severity = severity,
                 .head = head_of(severity),
                 .culprit_known = known};
}

/// The most direct first: what explains the symptoms of those behind it.
using Rule = std::optional<Failure> (*)(const JobSetUp&);
constexpr std::array<Rule, 6> kRules{variables_differ, rank_twice, elsewhere, store_unreached, rank_ended, rank_absent};

void add_evidence(const JobSetUp& set_up, const Failure& failure, Finding& finding) {
  size_t lines = 0;
  for (const LaunchedRank& rank : set_up.job().ranks) {
    const Attempts* attempts = set_up.fails(rank);
    if (attempts != nullptr && ++lines <= kMostSteps) {
      finding.evidence.push_back(attempts_evidence(ranks_text({rank.rank}), *attempts));
    }
  }
  lines = 0;
  for (const StuckCall& stuck : set_up.stuck()) {
    if (++lines <= kMostSteps) {
      finding.evidence.push_back({"collective", 1, stuck_text(set_up.cluster(), stuck), {}});
    }
  }
  lines = 0;
  for (const LaunchedRank* rank : set_up.gone()) {
    if (++lines <= kMostSteps) {
      finding.evidence.push_back({"process",
                                  1,
                                  fmt::format("{} {}, {} after it was started", set_up.name(*rank),
                                              set_up.how_it_ended(*rank), format_duration(rank->life.length())),
                                  {}});
    }
  }
  lines = 0;
  for (const Difference& difference : differences(set_up.job())) {
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
std::string waiting_text(const JobSetUp& set_up, const Failure& failure) {
  Ranks waiting = set_up.waiting(0);
  std::erase_if(waiting, [&](const LaunchedRank* rank) {
    return std::ranges::find(failure.culprits, rank) != failure.culprits.end();
  });
  if (waiting.empty()) {
    return "";
  }
  int64_t longest_ns = 0;
  for (const LaunchedRank* rank : waiting) {
    longest_ns = std::max(longest_ns, set_up.stuck(*rank)->time.length());
  }
  return fmt::format("; {} waited for {}", numbers_of(waiting), format_duration(longest_ns));
}

}  // namespace

std::optional<Finding> rendezvous_failure(const JobSetUp& set_up) {
  std::optional<Failure> failure;
  for (const Rule rule : kRules) {
    if (!failure) {
      failure = rule(set_up);
    }
  }
  if (!failure) {
    return std::nullopt;
  }
  Finding finding{.cause = Cause::kInitFailure, .severity = failure->severity, .confidence = kInitFailureConfidence};
  if (failure->absent) {
    finding.culprit = Culprit{.node = "", .rank = failure->absent, .pid = 0};
  } else if (failure->culprit_known) {
    const MemberIndex member = set_up.member_of(*failure->culprits.front());
    finding.culprit = member == kNoMember ? std::nullopt : std::optional(culprit_of(set_up.cluster(), member));
  }
  if (!set_up.stuck().empty()) {
    const CommunicatorCall& call = *set_up.stuck().front().call;
    finding.comm_id_hash = call.hash;
    if (const AttemptIndex attempt = set_up.cluster().attempt_of(call.member); attempt != kNoAttempt) {
      finding.attempt = attempt + int64_t{1};
    }
  }
  finding.op = Operation::kCommInitRank;
  finding.collectives_affected = 1;
  finding.window = {failure->from_ns, std::max(failure->from_ns, set_up.seen_to_ns())};
  finding.stall_ms = static_cast<double>(finding.window.to_ns - finding.window.from_ns) / static_cast<double>(kNsPerMs);
  finding.summary = fmt::format("{}: {}{}.", failure->head, failure->what, waiting_text(set_up, *failure));
  add_evidence(set_up, *failure, finding);
  finding.remedy = failure->remedy;
  return finding;
}

}  // namespace stalltrace::analysis
