// SPDX-License-Identifier: Apache-2.0
// Accepts the ranks' connections, numbers their nodes, and reports who is missing.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/io/poll_until.h"
#include "base/text.h"
#include "preflight/peers/coordinator/ranks.h"

namespace stalltrace::preflight {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kHelloNs = 10 * kNsPerSecond;  // from a connection to its introduction
constexpr int64_t kAcceptAgainNs = 100 * kNsPerMs;
constexpr size_t kMostNamed = 8;

std::string list_of(const std::vector<int32_t>& ranks, const std::vector<std::string>& names) {
  const size_t shown = std::min(ranks.size(), kMostNamed);
  std::vector<std::string> texts;
  for (size_t i = 0; i < shown; ++i) {
    const auto rank = static_cast<size_t>(ranks[i]);
    texts.push_back(rank < names.size() ? names[rank] : std::to_string(rank));
  }
  const std::string text = fmt::format("{}", fmt::join(texts, ", "));
  return ranks.size() > shown ? fmt::format("{} and {} more", text, ranks.size() - shown) : text;
}

}  // namespace

std::string Ranks::gather(int listener) {
  wait_for_ranks(listener);
  number_nodes();
  name_nodes_apart();
  report_missing();
  return accept_problem();
}

std::string Ranks::accept_problem() const {
  return accept_error_ == 0 ? "" : fmt::format("; rank 0 could not take connections: {}", std::strerror(accept_error_));
}

void Ranks::admit(LineChannel channel, const Result<std::optional<Json>>& message, int64_t now_ns) {
  const auto refuse = [&](const std::string& why) { (void)channel.send({{"refused", why}}); };
  if (!message) {
    return refuse(message.error().what);
  }
  auto hello = hello_from_json(**message);
  if (!hello) {
    return refuse(hello.error().what);
  }
  if (!launch.secret.empty() && !is_admitted(*hello, launch.secret)) {
    return refuse("it does not know the secret of these tests");
  }
  // Of another launch that has the same port; nothing is wrong with this one.
  if (hello->job != launch.job) {
    return refuse(fmt::format("it is of job '{}', rank 0 of '{}'", hello->job, launch.job));
  }
  // Any program can connect, again and again: the checks of those that are refused have a limit.
  const auto report = [&](HostCheck check) {
    if (refused_++ < kMostNamed) {
      results.launch_checks.push_back(std::move(check));
    }
  };
  const auto twice = std::ranges::find(sessions, hello->rank, [](const Session& one) { return one.hello.rank; });
  if (hello->world_size != launch.world_size || hello->rank >= launch.world_size) {
    report({.check = "launch",
            .subject = fmt::format("rank {}", hello->rank),
            .outcome = Outcome::kFailed,
            .detail = fmt::format("on {} was started as one of {}, rank 0 as one of {}", hello->node.name,
                                  count_of(hello->world_size, "rank"), launch.world_size),
            .remedy = "give all nodes the same number of ranks (WORLD_SIZE, --nnodes, --nproc-per-node, -n)"});
    return refuse(
        fmt::format("rank {} of {}, where rank 0 knows {}", hello->rank, hello->world_size, launch.world_size));
  }
  if (twice != sessions.end()) {
    report({.check = "launch",
            .subject = fmt::format("rank {}", hello->rank),
            .outcome = Outcome::kFailed,
            .detail = fmt::format("came twice, from {} and {}", twice->hello.node.name, hello->node.name),
            .remedy = "give each process a rank of its own (RANK, --node-rank)"});
    return refuse(fmt::format("rank {} has come already, from {}", hello->rank, twice->hello.node.name));
  }
  if (!launch.secret.empty()) {
    (void)channel.send(welcome(launch.secret));  // where it fails, the first order does too
  }
  sessions.push_back({.channel = std::move(channel), .hello = *std::move(hello), .joined_ns = now_ns});
}

void Ranks::wait_for_ranks(int listener) {
  struct Stranger {
    LineChannel channel;
    int64_t end_ns;
  };
  std::vector<Stranger> strangers;
  const int64_t end_ns = monotonic_now_ns() + launch.wait_ns;
  const auto most = static_cast<size_t>(launch.world_size) + kMoreConnections;
  bool accepts = true;  // not for a while after it failed: the listener stays readable
  while (sessions.size() < static_cast<size_t>(launch.world_size) && monotonic_now_ns() < end_ns) {
    std::vector<pollfd> polled{
        {.fd = listener, .events = static_cast<short>(accepts && strangers.size() < most ? POLLIN : 0)}};
    int64_t next_ns = accepts ? end_ns : std::min(end_ns, monotonic_now_ns() + kAcceptAgainNs);
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
    accepts = true;
    if (polled[0].revents != 0) {
      if (UniqueFd fd(::accept(listener, nullptr, nullptr)); fd) {
        strangers.push_back({LineChannel(std::move(fd)), now_ns + kHelloNs});
        accept_error_ = 0;
      } else if (errno != ECONNABORTED && errno != EINTR) {  // those are of one connection, which is gone
        accept_error_ = errno;
        accepts = false;
      }
    }
  }
}

void Ranks::number_nodes() {
  std::ranges::sort(sessions, {}, [](const Session& one) { return one.hello.rank; });
  std::map<std::string, int32_t> known;
  int64_t first_ns = INT64_MAX;
  for (const Session& session : sessions) {
    first_ns = std::min(first_ns, session.joined_ns);
  }
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
  }
}

// Names are for people: where two nodes have one, the rank is added.
void Ranks::name_nodes_apart() {
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
}

void Ranks::report_missing() {
  std::set<int32_t> came;
  for (const Session& session : sessions) {
    came.insert(session.hello.rank);
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
         .subject = std::string(launch.rank_names.empty() ? "rank" : "node") + (missing.size() == 1 ? "" : "s"),
         .outcome = Outcome::kFailed,
         .detail = fmt::format("{} did not come within {}{}", list_of(missing, launch.rank_names),
                               format_duration(launch.wait_ns), accept_problem()),
         .remedy =
             accept_error_ == EMFILE ? "raise rank 0's limit of open files (ulimit -n), one for each rank and some more"
             : !launch.rank_names.empty()
                 ? fmt::format("can they reach {} port {}: routes, firewall? --port chooses another one", launch.master,
                               launch.port)
                 : "look at their output: does the launcher start them, does MASTER_ADDR lead to rank 0's host, does a "
                   "firewall let the port pass?"});
  }
}

}  // namespace stalltrace::preflight
