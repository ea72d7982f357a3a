// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/set_up/job_set_up.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "analysis/causes/cause.h"
#include "analysis/evidence/flows.h"
#include "analysis/rank_numbers.h"
#include "analysis/thresholds/set_up.h"
#include "analysis/thresholds/timeline.h"
#include "base/net/loopback.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

bool is_store(const LaunchedRank& rank, const Endpoint& endpoint) {
  return rank.setting("MASTER_PORT") == std::to_string(endpoint.port);
}

template <typename Condition>
Ranks ranks_where(const LaunchedJob& job, const Condition& condition) {
  Ranks ranks;
  for (const LaunchedRank& rank : job.ranks) {
    if (condition(rank)) {
      ranks.push_back(&rank);
    }
  }
  return ranks;
}

}  // namespace

std::string numbers_of(const Ranks& ranks) {
  std::vector<int32_t> numbers;
  std::ranges::transform(ranks, std::back_inserter(numbers), &LaunchedRank::rank);
  return ranks_text(std::move(numbers));
}

JobSetUp::JobSetUp(Cluster& cluster, const Timeline& timeline, const LaunchedJob& job,
                   const std::vector<StuckCall>& stuck, const Reach& reach)
    : cluster_(cluster), job_(job) {
  for (const LaunchedRank& rank : job.ranks) {
    lives_[rank.key()] = rank.life;
    if (rank.life.to_ns != kForever) {
      seen_to_ns_ = std::max(seen_to_ns_, rank.life.to_ns);
    }
    if (!rank.process->exit_ns) {
      living_.insert(rank.rank);
    }
  }
  take_calls(timeline, stuck);
  take_reach(reach);
  take_waits();
}

void JobSetUp::take_calls(const Timeline& timeline, const std::vector<StuckCall>& stuck) {
  const auto key_of = [&](MemberIndex index) {
    const Member& member = cluster_.member(index);
    return ProcessKey{member.node_id, member.pid};
  };
  for (const StuckCall& one : stuck) {
    if (lives_.contains(key_of(one.call->member))) {
      stuck_.push_back(one);
      stuck_by_process_.try_emplace(key_of(one.call->member), one);
      seen_to_ns_ = std::max(seen_to_ns_, one.time.to_ns);
    }
  }
  made_communicators_ = std::ranges::any_of(timeline.communicator_calls(), [&](const CommunicatorCall& call) {
    return lives_.contains(key_of(call.member)) && call.end_ns != kForever &&
           !call_failed(call.library, call.return_code.value_or(0));
  });
}

void JobSetUp::take_reach(const Reach& reach) {
  reach_.own_addresses = reach.own_addresses;
  for (const auto& [process, endpoints] : reach.reached) {
    if (lives_.contains(process)) {
      reach_.reached.emplace(process, endpoints);
    }
  }
  for (const auto& [who, attempts] : reach.unreached) {
    const auto life = lives_.find(who.first);
    if (life != lives_.end() && attempts.first_ns <= life->second.to_ns) {
      reach_.unreached.emplace(who, attempts);
      seen_to_ns_ = std::max(seen_to_ns_, std::min(attempts.last_ns, life->second.to_ns));
    }
  }
  for (const auto& [who, attempts] : reach_.unreached) {
    const auto reached = reach_.reached.find(who.first);
    if (reached != reach_.reached.end() && reached->second.contains(who.second)) {
      continue;
    }
    const auto [most, is_new] = fails_.try_emplace(who.first, attempts);
    if (!is_new && attempts.count() > most->second.count()) {
      most->second = attempts;
    }
  }
  const std::map<std::string, int64_t> unanswered = unanswered_by_address(reach_.unreached);
  std::erase_if(fails_, [&](const auto& entry) {
    const Attempts& attempts = entry.second;
    return std::max(attempts.count(), unanswered.at(attempts.target.address)) < kUnreachedAttempts;
  });
}

void JobSetUp::take_waits() {
  for (const LaunchedRank& rank : job_.ranks) {
    const StuckCall* call = stuck(rank);
    const Attempts* attempts = fails_at_store(rank);
    if (call != nullptr || attempts != nullptr) {
      waits_.emplace_back(
          std::max(call == nullptr ? -kForever : call->time.to_ns, attempts == nullptr ? -kForever : attempts->last_ns),
          &rank);
    }
  }
  std::ranges::sort(waits_, std::greater<>(), [](const auto& wait) { return wait.first; });
}

MemberIndex JobSetUp::member_of(const LaunchedRank& rank) const {
  return cluster_.join(rank.process->node_id, rank.process->pid);
}

std::string JobSetUp::name(const LaunchedRank& rank) const {
  const MemberIndex member = member_of(rank);
  return member == kNoMember ? ranks_text({rank.rank}) : cluster_.describe(member);
}

std::string JobSetUp::names(const Ranks& ranks) const {
  return ranks.size() == 1 ? name(*ranks[0]) : numbers_of(ranks);
}

std::string JobSetUp::how_it_ended(const LaunchedRank& rank) const {
  const MemberIndex member = member_of(rank);
  return member == kNoMember ? "ended" : cluster_.member(member).how_it_ended();
}

std::string JobSetUp::node_of(const LaunchedRank& rank) const { return cluster_.node_name(rank.process->node_id); }

std::string JobSetUp::nodes() const {
  std::set<std::string> names;
  for (const LaunchedRank& rank : job_.ranks) {
    names.insert(node_of(rank));
  }
  return names.size() == 1 ? *names.begin() : count_of(static_cast<int64_t>(names.size()), "recorded node");
}

bool JobSetUp::is_own_address(const std::string& address) const {
  return is_loopback(address) || reach_.own_addresses.contains(address);
}

const Attempts* JobSetUp::fails(const LaunchedRank& rank) const {
  const auto found = fails_.find(rank.key());
  return found == fails_.end() ? nullptr : &found->second;
}

const Attempts* JobSetUp::fails_at_store(const LaunchedRank& rank) const {
  const Attempts* attempts = fails(rank);
  return attempts != nullptr && is_store(rank, attempts->target) ? attempts : nullptr;
}

bool JobSetUp::met(const LaunchedRank& rank) const {
  const auto found = reach_.reached.find(rank.key());
  return found != reach_.reached.end() &&
         std::ranges::any_of(found->second, [&](const Endpoint& endpoint) { return is_store(rank, endpoint); });
}

bool JobSetUp::acts(const LaunchedRank& rank) const {
  return met(rank) || fails_at_store(rank) != nullptr || stuck(rank) != nullptr;
}

const StuckCall* JobSetUp::stuck(const LaunchedRank& rank) const {
  const auto found = stuck_by_process_.find(rank.key());
  return found == stuck_by_process_.end() ? nullptr : &found->second;
}

bool JobSetUp::is_missed(const LaunchedRank& gone) const {
  const auto missed_by = [&](int64_t least_ns, bool anywhere) {
    for (const auto& [to_ns, rank] : waits_) {
      if (to_ns < gone.life.to_ns + least_ns) {
        return false;  // and so do all that follow
      }
      if (rank->rank != gone.rank && (anywhere || on_one_host(*rank, gone))) {
        return true;
      }
    }
    return false;
  };
  return gone.life.to_ns != kForever &&
         (missed_by(kOpenInitNs, false) || missed_by(kOpenInitNs + kClocksApartNs, true));
}

bool JobSetUp::is_child(const LaunchedRank& rank) const {
  for (const LaunchedRank* other = &rank; other != &job_.ranks.front();) {
    --other;
    if (other->rank != rank.rank) {
      return false;
    }
    if (other->process->node_id == rank.process->node_id && other->life.to_ns > rank.life.from_ns) {
      return true;
    }
  }
  return false;
}

bool JobSetUp::on_one_host(const LaunchedRank& a, const LaunchedRank& b) const {
  const Clock& clock = cluster_.clock();
  return clock.host(a.process->node_id) == clock.host(b.process->node_id);
}

Ranks JobSetUp::waiting(int64_t least_ns) const {
  return ranks_where(job_, [&](const LaunchedRank& rank) {
    const StuckCall* call = stuck(rank);
    return call != nullptr && !call->failed && call->call->end_ns == kForever && call->time.length() >= least_ns;
  });
}

Ranks JobSetUp::failing() const {
  return ranks_where(job_, [&](const LaunchedRank& rank) { return fails(rank) != nullptr; });
}

Ranks JobSetUp::failing_at_store() const {
  return ranks_where(job_, [&](const LaunchedRank& rank) { return fails_at_store(rank) != nullptr; });
}

Ranks JobSetUp::gone() const {
  Ranks ranks = ranks_where(job_, [&](const LaunchedRank& rank) {
    const bool first = &rank == &job_.ranks.front() || (&rank - 1)->rank != rank.rank;
    return (first || acts(rank)) && is_gone(rank);
  });
  std::ranges::stable_sort(ranks, {}, [](const LaunchedRank* rank) { return rank->life.to_ns; });
  return ranks;
}

bool JobSetUp::in_trouble() const {
  return !failing_at_store().empty() || std::ranges::any_of(gone(), &LaunchedRank::failed) ||
         !waiting(kInitHangNs).empty() || std::ranges::any_of(stuck_, &StuckCall::failed);
}

int64_t JobSetUp::trouble_from_ns() const {
  int64_t from_ns = seen_to_ns_;
  for (const LaunchedRank& rank : job_.ranks) {
    const Attempts* attempts = fails(rank);
    const StuckCall* call = stuck(rank);
    from_ns = std::min({from_ns, attempts == nullptr ? kForever : attempts->first_ns,
                        call == nullptr ? kForever : call->time.from_ns, rank.failed() ? rank.life.to_ns : kForever});
  }
  return from_ns;
}

int64_t JobSetUp::tried_ns(const Ranks& ranks) const {
  int64_t longest_ns = 0;
  for (const LaunchedRank* rank : ranks) {
    const Attempts* attempts = fails(*rank);
    longest_ns = std::max(longest_ns, rank->process->exit_ns ? kForever : attempts->last_ns - attempts->first_ns);
  }
  return longest_ns;
}

std::optional<Endpoint> JobSetUp::store() const {
  std::map<Endpoint, size_t> visits;
  for (const LaunchedRank& rank : job_.ranks) {
    const auto found = reach_.reached.find(rank.key());
    if (found == reach_.reached.end()) {
      continue;
    }
    for (const Endpoint& endpoint : found->second) {
      visits[endpoint] += is_store(rank, endpoint) ? 1 : 0;
    }
  }
  const auto most = std::ranges::max_element(visits, {}, [](const auto& entry) { return entry.second; });
  return most == visits.end() || most->second == 0 ? std::nullopt : std::optional(most->first);
}

}  // namespace stalltrace::analysis
