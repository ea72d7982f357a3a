// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/preflight_nodes.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/net/loopback.h"
#include "base/text.h"
#include "cli/fleet/preflight/missing_nodes.h"
#include "cli/framework/confined_reading.h"
#include "cli/framework/exit_code.h"
#include "fleet/client.h"
#include "serve/json/json.h"
#include "serve/requests/preflight_request.h"

namespace stalltrace::cli {
namespace {

using fleet::FailedNode;
using fleet::NodeAddress;
using serve::PreflightRequest;

constexpr size_t kMostLeaderBytes = 160 << 20;  // rank 0's answer
constexpr size_t kMostRankBytes = 64 << 10;     // another rank's
constexpr size_t kMostOfFirstNode = 16;
constexpr int64_t kMoreThanTheServersMs = 10'000;

fleet::Question question_of(const PreflightRequest& request) {
  return {.method = "POST", .target = "/v1/preflight", .body = serve::to_json(request)};
}

/// Whether a node could take part.
class ReadyConversation final : public fleet::Conversation {
 public:
  Result<std::optional<fleet::Question>> next(fleet::Reply* last) override {
    return last != nullptr ? std::nullopt : std::optional(question_of({.only_ready = true}));
  }
};

/// A rank's answer: lines, as they come.
class RankConversation final : public fleet::Conversation {
 public:
  RankConversation(PreflightRequest request, Console* steps) : request_(std::move(request)), steps_(steps) {}

  Result<std::optional<fleet::Question>> next(fleet::Reply* last) override {
    if (last != nullptr) {
      return failed || error
                 ? Result<std::optional<fleet::Question>>(std::nullopt)
                 : fail("its answer has no end", "is it 'stalltrace serve' that listens there?", ErrorKind::kCorrupt);
    }
    fleet::Question question = question_of(request_);
    question.most_bytes = request_.rank == 0 ? kMostLeaderBytes : kMostRankBytes;
    question.sink = [this](std::string_view bytes) { return take(bytes); };
    return question;
  }

  std::optional<bool> failed;  // whether a check did
  std::string report;
  std::optional<Error> error;  // of the tests themselves

 private:
  Result<bool> take(std::string_view bytes) {
    begun_.append(bytes);
    size_t from = 0;
    for (size_t end = 0; (end = begun_.find('\n', std::max(from, searched_))) != std::string::npos; from = end + 1) {
      take_line(std::string_view(begun_).substr(from, end - from));
      searched_ = 0;
    }
    begun_.erase(0, from);
    searched_ = begun_.size();
    return false;
  }

  void take_line(std::string_view line) {
    if (line.empty()) {
      return;
    }
    const auto json = serve::parse_json(line, {.depth = 2, .values = 16, .members = 8});
    if (!json || !json->is_object()) {
      // Of a line that the server had to cut off, the next one has the reason.
      error = Error{.kind = ErrorKind::kCorrupt,
                    .what = "its answer is not made of lines of JSON",
                    .remedy = "is it 'stalltrace serve' that listens there?"};
      return;
    }
    const auto text = [&](std::string_view name) {
      const serve::Json* member = json->find(name);
      return member == nullptr ? nullptr : member->text();
    };
    if (const std::string* step = text("step"); step != nullptr && steps_ != nullptr) {
      steps_->note("preflight: " + *step);
    }
    if (const std::string* what = text("error")) {
      const std::string* remedy = text("remedy");
      error = Error{.what = *what, .remedy = remedy == nullptr ? "" : *remedy};
    }
    const serve::Json* verdict = json->find("failed");
    if (verdict != nullptr && verdict->boolean() != nullptr) {
      failed = *verdict->boolean();
      const std::string* whole = text("report");
      report = whole == nullptr ? "" : *whole;
    }
  }

  PreflightRequest request_;
  Console* steps_;  // null: they are not shown
  std::string begun_;
  size_t searched_ = 0;
};

Result<std::string> random_digits(size_t digits) {
  std::vector<unsigned char> random(digits / 2);
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    return fail_errno("make a secret", errno);
  }
  std::string text;
  for (const unsigned char byte : random) {
    text += fmt::format("{:02x}", byte);
  }
  return text;
}

/// Asks all whether they are ready. Those that are not become `failed`, with the reason and its remedy.
std::vector<NodeAddress> ready_nodes(const NodeFlags::Target& target, std::vector<FailedNode>& failed) {
  std::vector<std::unique_ptr<ReadyConversation>> asked;
  std::vector<fleet::Conversation*> conversations;
  for (size_t i = 0; i < target.nodes.size(); ++i) {
    asked.push_back(std::make_unique<ReadyConversation>());
    conversations.push_back(asked.back().get());
  }
  std::vector<Status> ended = fleet::converse(target.nodes, conversations, target.client);
  std::vector<NodeAddress> ready;
  for (size_t i = 0; i < target.nodes.size(); ++i) {
    if (ended[i]) {
      ready.push_back(target.nodes[i]);
    } else {
      Error error = std::move(ended[i].error());
      error.remedy = remedy_of_missing(target.nodes[i], asked[i]->progress, error);
      failed.push_back({target.nodes[i].shown(), std::move(error)});
    }
  }
  return ready;
}

/// The others could not reach rank 0 at loopback, where it is this host.
Status check_reachable(const std::vector<NodeAddress>& nodes) {
  const auto is_here = [](const NodeAddress& node) { return std::ranges::all_of(node.addresses, is_loopback); };
  const auto elsewhere = std::ranges::find_if_not(nodes, is_here);
  if (is_here(nodes.front()) && elsewhere != nodes.end()) {
    return fail(fmt::format("{} is to coordinate, and {} can't reach it: its address is one of loopback",
                            nodes.front().shown(), elsewhere->shown()),
                "name it by an address that the other nodes know, or name another node first", ErrorKind::kUsage);
  }
  return {};
}

PreflightRequest request_of(const preflight::Launch& limits, const std::vector<NodeAddress>& nodes,
                            const std::string& secret) {
  PreflightRequest request{.ranks = static_cast<int32_t>(nodes.size()),
                           .secret = secret,
                           .masters = nodes.front().addresses,
                           .port = limits.port,
                           .wait_ms = std::clamp<int64_t>(limits.wait_ns / kNsPerMs, 1, serve::kLongestWaitMs),
                           .limit_ms = longest_tests_ms(limits, static_cast<int64_t>(nodes.size())),
                           .rounds = std::min(limits.most_rounds, serve::kMostPreflightNodes),
                           .test_ms = std::max<int64_t>(limits.flow.time_ns / kNsPerMs, 1),
                           .test_bytes = std::min(limits.flow.bytes, int64_t{1} << 40),
                           .max_mbit = limits.flow.mbit};
  request.masters.resize(std::min(request.masters.size(), kMostOfFirstNode));
  return request;
}

/// The report's own program made its names printable; this one does not rely on it.
std::string printable_lines(std::string_view text) {
  std::string safe;
  for (const std::string_view line : split(text, '\n')) {
    safe += printable(line) + "\n";
  }
  safe.pop_back();  // what follows the last line end is a line for split()
  return safe;
}

}  // namespace

int64_t longest_tests_ms(const preflight::Launch& limits, int64_t nodes) {
  constexpr int64_t kOneTestMs = 22'000;      // above its flows: until rank 0 gives an answer up
  constexpr int64_t kRetests = 8;             // rounds of slow pairs
  constexpr int64_t kOtherStepsMs = 120'000;  // names, start, barrier, neighbours, report
  const int64_t rounds = std::min(limits.most_rounds, nodes);
  const int64_t flows_ms = 2 * limits.flow.time_ns / kNsPerMs;
  return std::min(limits.wait_ns / kNsPerMs + (2 * rounds + kRetests + 1) * (kOneTestMs + flows_ms) + kOtherStepsMs,
                  serve::kLongestPreflightMs);
}

Result<int> test_nodes(Console& console, const NodeFlags& flags, const preflight::Launch& limits, bool json) {
  ST_ASSIGN(NodeFlags::Target target, flags.prepare(console));
  const auto asked = static_cast<int64_t>(target.nodes.size());
  if (asked > serve::kMostPreflightNodes) {
    return fail(fmt::format("{} nodes, {} at most", asked, serve::kMostPreflightNodes), "name fewer at a time",
                ErrorKind::kUsage);
  }
  confine_to_reading({}, "", Makes::kFile, Network::kConnects);
  std::vector<FailedNode> failed;
  const std::vector<NodeAddress> nodes = ready_nodes(target, failed);
  if (nodes.empty() || (flags.require_all() && !failed.empty())) {
    ST_TRY(flags.judge(console, failed, target.nodes.size()));
  }
  ST_TRY(check_reachable(nodes));
  ST_ASSIGN(const std::string secret, random_digits(preflight::kLaunchSecretBytes));
  PreflightRequest request = request_of(limits, nodes, secret);
  std::vector<std::unique_ptr<RankConversation>> ranks;
  std::vector<fleet::Conversation*> conversations;
  for (size_t i = 0; i < nodes.size(); ++i) {
    request.rank = static_cast<int32_t>(i);
    PreflightRequest of_rank = request;
    if (i == 0) {
      of_rank.json = json;
      of_rank.missing = missing_of(failed);
      for (const NodeAddress& node : nodes) {
        of_rank.nodes.push_back(cut_text(node.shown(), serve::kLongestNodeName - 3));
      }
    }
    ranks.push_back(std::make_unique<RankConversation>(std::move(of_rank), i == 0 ? &console : nullptr));
    conversations.push_back(ranks.back().get());
  }
  console.note(fmt::format("preflight: {} of {} take part; they connect to {}, port {}", nodes.size(),
                           count_of(asked, "node"), nodes.front().shown(), limits.port));
  target.client.limit = std::chrono::milliseconds(request.limit_ms + kMoreThanTheServersMs);
  target.client.leader = 0;
  const std::vector<Status> ended = fleet::converse(nodes, conversations, target.client);
  for (size_t i = 1; i < nodes.size(); ++i) {
    const Error* problem = ranks[i]->error ? &*ranks[i]->error : ended[i] ? nullptr : &ended[i].error();
    if (problem != nullptr) {
      console.note(fmt::format("preflight: {}: {}", nodes[i].shown(), problem->what));
    }
  }
  const RankConversation& first = *ranks.front();
  if (first.error) {
    return with_context(nodes.front().shown(), *first.error);
  }
  if (!ended.front()) {
    return with_context(nodes.front().shown(), ended.front().error());
  }
  console.out(printable_lines(first.report));
  return first.failed.value_or(true) ? kExitPreflight : kExitDone;
}

}  // namespace stalltrace::cli
