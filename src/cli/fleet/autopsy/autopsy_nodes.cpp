// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/autopsy/autopsy_nodes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "autopsy/hosts/join_hosts.h"
#include "autopsy/judge/judge.h"
#include "base/clock.h"
#include "base/text.h"
#include "cli/fleet/autopsy/node_answer.h"
#include "cli/framework/confined_reading.h"
#include "fleet/client.h"

namespace stalltrace::cli {
namespace {

using autopsy::HostResult;
using fleet::FailedNode;

constexpr size_t kMostNamed = 20;                  // nodes in one line
constexpr size_t kMostTogether = size_t{2} << 30;  // bytes of all answers
constexpr size_t kLeastBytes = size_t{4} << 20;    // that one node may send in any case
constexpr int64_t kClockNs = 5 * kNsPerSecond;     // a clock that is wrong by more is not used

class AutopsyConversation final : public fleet::Conversation {
 public:
  AutopsyConversation(const serve::AutopsyRequest& request, size_t most_bytes)
      : request_(request), most_bytes_(most_bytes) {}

  Result<std::optional<fleet::Question>> next(fleet::Reply* last) override {
    if (last != nullptr) {
      body = std::move(last->body);
      sent_ns = last->sent_ns;
      received_ns = last->received_ns;
      return std::nullopt;
    }
    return fleet::Question{
        .method = "POST", .target = "/v1/autopsy", .body = serve::to_json(request_), .most_bytes = most_bytes_};
  }

  std::string body;
  int64_t sent_ns = 0;      // UTC, of this host's clock
  int64_t received_ns = 0;  // likewise

 private:
  serve::AutopsyRequest request_;
  size_t most_bytes_;
};

/// What the nodes answered.
struct Seen {
  std::vector<HostResult> hosts;
  std::vector<std::string> idle;  // nodes on which no job runs
  std::vector<FailedNode> failed;
  std::vector<std::string> notes;
};

/// Times of a host whose clock is wrong become those of this one, by when its answer came.
void correct_clock(HostResult& host, const AutopsyConversation& answer, std::vector<std::string>& notes) {
  const int64_t taken_ns = host.snapshots.back().taken_ns;
  if (taken_ns >= answer.sent_ns - kClockNs && taken_ns <= answer.received_ns + kClockNs) {
    return;
  }
  const int64_t shift_ns = answer.received_ns - taken_ns;
  for (autopsy::Snapshot& snapshot : host.snapshots) {
    snapshot.taken_ns += shift_ns;
  }
  for (autopsy::RasAccount& account : host.ras) {
    account.asked_ns += shift_ns;
  }
  notes.push_back(
      fmt::format("the clock of {} differs from this host's by some {}: its answer shows when it was looked at",
                  host.node, format_duration(std::abs(shift_ns))));
}

/// Which of several hosts that give themselves one name is that host is not known: none of them counts.
void refuse_namesakes(Seen& seen) {
  std::map<std::string, std::vector<std::string>> addresses;
  for (const HostResult& host : seen.hosts) {
    addresses[host.node].push_back(host.file);
  }
  for (const auto& [name, of_name] : addresses) {
    for (const std::string& address : of_name) {
      if (of_name.size() > 1) {
        const std::string& other = address == of_name.front() ? of_name.back() : of_name.front();
        seen.failed.push_back(
            {address, Error{.what = fmt::format("it calls itself {}, as {} does", name, other),
                            .remedy = "name each host once, and give each a name of its own (STALLTRACE_NODE)"}});
      }
    }
  }
  std::erase_if(seen.hosts, [&](const HostResult& host) { return addresses[host.node].size() > 1; });
}

Seen ask_nodes(const NodeFlags::Target& target, const serve::AutopsyRequest& request) {
  const size_t most_bytes = std::clamp(kMostTogether / target.nodes.size(), kLeastBytes, kMostAnswerBytes);
  std::vector<std::unique_ptr<AutopsyConversation>> asked;
  std::vector<fleet::Conversation*> conversations;
  for (size_t i = 0; i < target.nodes.size(); ++i) {
    asked.push_back(std::make_unique<AutopsyConversation>(request, most_bytes));
    conversations.push_back(asked.back().get());
  }
  std::vector<Status> ended = fleet::converse(target.nodes, conversations, target.client);
  Seen seen;
  for (size_t i = 0; i < target.nodes.size(); ++i) {
    const std::string address = target.nodes[i].shown();
    const std::string body = std::exchange(asked[i]->body, {});
    auto host = ended[i] ? read_node_answer(body)
                         : Result<std::optional<HostResult>>(std::unexpected(std::move(ended[i].error())));
    if (!host) {
      seen.failed.push_back({address, std::move(host.error())});
    } else if (!*host) {
      seen.idle.push_back(address);
    } else {
      (*host)->file = address;
      correct_clock(**host, *asked[i], seen.notes);
      seen.hosts.push_back(*std::move(*host));
    }
  }
  refuse_namesakes(seen);
  return seen;
}

/// "a:7700, b:7700 and 12 more"
std::string named(const std::vector<std::string>& nodes) {
  const size_t shown = std::min(nodes.size(), kMostNamed);
  const std::string text = fmt::format("{}", fmt::join(nodes.begin(), nodes.begin() + static_cast<long>(shown), ", "));
  return shown == nodes.size() ? text : fmt::format("{} and {} more", text, nodes.size() - shown);
}

}  // namespace

Result<AutopsyResult> look_at_nodes(Console& console, const NodeFlags& flags, const serve::AutopsyRequest& request,
                                    const std::string& out) {
  ST_ASSIGN(NodeFlags::Target target, flags.prepare(console));
  target.client.limit += std::chrono::seconds(request.seconds);
  target.client.most_together = kMostTogether;
  confine_to_reading({}, out, Makes::kFile, Network::kConnects);
  Seen seen = ask_nodes(target, request);
  ST_TRY(flags.judge(console, seen.failed, target.nodes.size()));
  if (seen.hosts.empty()) {
    return fail(fmt::format("no job runs on {}", named(seen.idle)),
                "name the nodes of the job; servers that do not run as root see the jobs of their own user",
                ErrorKind::kNotFound);
  }
  ST_ASSIGN(autopsy::JoinedHosts joined, autopsy::join_hosts(std::move(seen.hosts)));
  std::ranges::move(seen.notes, std::back_inserter(joined.notes));
  AutopsyResult result{.snapshots = std::move(joined.snapshots), .context = std::move(joined.context), .verdicts = {}};
  result.of_this_host = false;
  result.verdicts = autopsy::judge(result.snapshots, result.context);
  if (!seen.idle.empty()) {
    joined.notes.push_back("no job runs on " + named(seen.idle));
  }
  if (!seen.failed.empty()) {
    std::vector<std::string> unseen;
    for (const FailedNode& node : seen.failed) {
      unseen.push_back(node.node);
    }
    joined.notes.push_back(fmt::format("not looked at, as they did not answer: {}", named(unseen)));
  }
  for (autopsy::JobVerdict& verdict : result.verdicts) {
    verdict.notes.insert(verdict.notes.end(), joined.notes.begin(), joined.notes.end());
  }
  return result;
}

}  // namespace stalltrace::cli
