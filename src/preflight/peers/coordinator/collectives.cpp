// SPDX-License-Identifier: Apache-2.0
// Orders the collectives of all ranks, size by size, and gathers their times and faults.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"
#include "preflight/peers/collectives/messages.h"
#include "preflight/peers/collectives/operations.h"
#include "preflight/peers/coordinator/steps.h"

namespace stalltrace::preflight {
namespace {

using Step = CollectiveOrder::Step;
using Answers = std::map<size_t, CollectiveAnswer>;

CollectiveFault::Kind kind_of(CollectiveAnswer::State state, bool loads) {
  return state == CollectiveAnswer::State::kUnfinished ? CollectiveFault::Kind::kUnfinished
         : loads                                       ? CollectiveFault::Kind::kNotReady
         : state == CollectiveAnswer::State::kEnded    ? CollectiveFault::Kind::kEnded
                                                       : CollectiveFault::Kind::kError;
}

constexpr int64_t kIdNs = 30 * kNsPerSecond;
/// The next size takes four times as long, and is made twice within a step's limit, which is a minute.
constexpr int64_t kMostTimedNs = 5 * kNsPerSecond;

int64_t time_of(const Launch& launch) { return std::min(launch.flow.time_ns, kMostTimedNs); }

class Collectives {
 public:
  explicit Collectives(Ranks& ranks) : ranks_(ranks), limits_(ranks.launch.collectives) {
    for (size_t i = 0; i < ranks.sessions.size(); ++i) {
      if (ranks.sessions[i].channel.open()) {
        members_.push_back(i);
      }
    }
    results().ranks = static_cast<int64_t>(members_.size());
    results().max_bytes = limits_.max_bytes;
  }

  void run() {
    if (!load() || members_.size() < 2 || !connect()) {
      return;
    }
    const int64_t end_ns = monotonic_now_ns() + limits_.all_ns;
    for (size_t operation = 0; operation < collective_operations().size(); ++operation) {
      for (const int64_t bytes : collective_sizes(limits_.max_bytes)) {
        if (monotonic_now_ns() >= end_ns) {
          results().cut_short = true;
          return;
        }
        const auto once_ns = measure(operation, bytes);
        if (!once_ns) {
          return;
        }
        if (*once_ns > time_of(ranks_.launch)) {
          break;  // a larger one takes longer
        }
      }
    }
  }

 private:
  CollectiveResults& results() { return *ranks_.results.collectives; }

  bool load();
  bool connect();
  /// The time of one call on the slowest rank; nothing: a rank did not do it.
  std::optional<int64_t> measure(size_t operation, int64_t bytes);
  bool make_calls(const CollectiveOrder& order, CollectiveTime& time);

  /// All answers; what is not done becomes a fault. An order for each member.
  Answers ask(const std::function<CollectiveOrder(size_t)>& order_of, const std::string& step);
  [[nodiscard]] int32_t rank_of(size_t session) const { return ranks_.sessions[session].hello.rank; }

  Ranks& ranks_;
  const CollectiveLimits& limits_;
  std::vector<size_t> members_;  // their sessions, by rank in the communicator
};

Answers Collectives::ask(const std::function<CollectiveOrder(size_t)>& order_of, const std::string& step) {
  std::map<size_t, nlohmann::ordered_json> orders;
  int64_t limit_ns = 0;
  bool first_step = false;
  for (size_t i = 0; i < members_.size(); ++i) {
    const CollectiveOrder order = order_of(i);
    limit_ns = order.limit_ns;
    first_step = order.step == Step::kLoad;
    orders.emplace(members_[i], to_json(order));
  }
  // Each rank ends its own wait before: only one that does not answer at all is given up.
  // Nor do ranks wait long for one whose library failed. They load theirs alone.
  const auto is_fault = [](const nlohmann::ordered_json& answer) {
    const CollectiveAnswer::State state = collective_answer_from_json(answer).state;
    return state == CollectiveAnswer::State::kError || state == CollectiveAnswer::State::kEnded;
  };
  const auto answered = first_step ? ranks_.ask(orders, limit_ns + kReadyNs, step)
                                   : ranks_.ask(orders, limit_ns + kReadyNs, step, is_fault);
  Answers answers;
  for (const size_t session : members_) {
    const auto found = answered.find(session);
    // NCCL fails on the others, too, where a rank is gone: their errors are of that.
    const bool gone = !ranks_.sessions[session].silent;
    const CollectiveAnswer answer =
        found != answered.end() ? collective_answer_from_json(found->second)
        : gone                  ? CollectiveAnswer{.state = CollectiveAnswer::State::kEnded, .detail = "is gone"}
               : CollectiveAnswer{.state = CollectiveAnswer::State::kUnfinished, .detail = "does not answer"};
    if (answer.state != CollectiveAnswer::State::kDone) {
      results().faults.push_back({.kind = kind_of(answer.state, first_step),
                                  .rank = rank_of(session),
                                  .step = step,
                                  .detail = answer.detail,
                                  .launched = answer.launched});
    }
    answers.emplace(session, answer);
  }
  return answers;
}

bool Collectives::load() {
  std::map<int32_t, int64_t> of_node;  // ranks that have a device there, also those that take no part any more
  std::vector<int64_t> devices;
  for (const Session& session : ranks_.sessions) {
    devices.push_back(of_node[session.node]++);
  }
  const Answers answers = ask(
      [&](size_t member) {
        return CollectiveOrder{.step = Step::kLoad, .limit_ns = limits_.set_up_ns, .device = devices[members_[member]]};
      },
      "the loading of the library");
  if (!results().faults.empty()) {
    return false;
  }
  for (const auto& [session, answer] : answers) {
    results().versions[answer.version].push_back(rank_of(session));
  }
  results().library = answers.empty() ? "" : answers.begin()->second.library;
  return !answers.empty();
}

bool Collectives::connect() {
  const std::vector<size_t> all = members_;
  members_.resize(1);
  const Answers made = ask([](size_t) { return CollectiveOrder{.step = Step::kId, .limit_ns = kIdNs}; },
                           "the making of the communicator's id");
  members_ = all;
  if (!results().faults.empty()) {
    return false;
  }
  const std::string& id = made.begin()->second.id;
  const Answers answers = ask(
      [&](size_t member) {
        return CollectiveOrder{.step = Step::kConnect,
                               .limit_ns = limits_.set_up_ns,
                               .ranks = static_cast<int64_t>(members_.size()),
                               .rank = static_cast<int64_t>(member),
                               .bytes = limits_.max_bytes,
                               .id = id};
      },
      "the set-up of the communicator");
  for (const auto& [session, answer] : answers) {
    results().connect_ns = std::max(results().connect_ns, answer.duration_ns);
  }
  return results().faults.empty();
}

bool Collectives::make_calls(const CollectiveOrder& order, CollectiveTime& time) {
  const Answers answers = ask([&](size_t) { return order; }, name_of_call(order.operation, order.bytes));
  if (!results().faults.empty()) {
    return false;
  }
  time = {.operation = order.operation, .calls = order.calls, .least_ns = INT64_MAX};
  double sum_ns = 0;
  for (const auto& [session, answer] : answers) {
    sum_ns += static_cast<double>(answer.duration_ns);
    time.bytes = std::max(time.bytes, answer.bytes);
    time.least_ns = std::min(time.least_ns, answer.duration_ns);
    if (answer.duration_ns >= time.most_ns) {
      time.most_ns = answer.duration_ns;
      time.slowest_rank = rank_of(session);
    }
    if (answer.wrong > 0) {
      results().wrong.push_back(
          {.operation = order.operation, .bytes = answer.bytes, .rank = rank_of(session), .elements = answer.wrong});
    }
  }
  time.average_ns = static_cast<int64_t>(sum_ns / static_cast<double>(std::max<size_t>(answers.size(), 1)));
  return true;
}

std::optional<int64_t> Collectives::measure(size_t operation, int64_t bytes) {
  CollectiveOrder order{
      .step = Step::kRun, .limit_ns = limits_.step_ns, .bytes = bytes, .operation = operation, .check = true};
  CollectiveTime once;
  if (!make_calls(order, once)) {
    return std::nullopt;
  }
  CollectiveTime time = once;
  order.calls = std::clamp<int64_t>(time_of(ranks_.launch) / std::max<int64_t>(once.most_ns, 1), 1, kMostCalls);
  order.check = false;
  if (order.calls > 1 && !make_calls(order, time)) {
    return std::nullopt;
  }
  results().times.push_back(time);
  return once.most_ns;
}

}  // namespace

void test_collectives(Ranks& ranks, const std::function<void(const std::string&)>& announce) {
  ranks.results.collectives.emplace();
  Collectives test(ranks);
  const CollectiveLimits& limits = ranks.launch.collectives;
  std::vector<std::string_view> names;
  for (const CollectiveOperation& one : collective_operations()) {
    names.push_back(one.name);
  }
  announce(fmt::format(
      "collectives: the job's NCCL makes {} of {} to {} among {}; each size once, and then up to {} times in about {}. "
      "Each rank takes {} of its GPU",
      fmt::join(names, ", "), format_size(collective_sizes(limits.max_bytes).front()), format_size(limits.max_bytes),
      count_of(ranks.results.collectives->ranks, "rank"), kMostCalls, format_duration(time_of(ranks.launch)),
      format_size(2 * limits.max_bytes)));
  test.run();
}

}  // namespace stalltrace::preflight
