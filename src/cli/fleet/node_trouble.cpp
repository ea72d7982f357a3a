// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/node_trouble.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <thread>

#include "base/text.h"

namespace stalltrace::cli {
namespace {

constexpr std::chrono::seconds kSlow{1};

using NamedTrouble = std::pair<std::string_view, NodeTrouble>;
constexpr std::array<NamedTrouble, 9> kTroubles{{{"down", NodeTrouble::kDown},
                                                 {"hangs", NodeTrouble::kHangs},
                                                 {"stalls", NodeTrouble::kStalls},
                                                 {"trickles", NodeTrouble::kTrickles},
                                                 {"slow", NodeTrouble::kSlow},
                                                 {"refuses", NodeTrouble::kRefuses},
                                                 {"garbage", NodeTrouble::kGarbage},
                                                 {"bad-rows", NodeTrouble::kBadRows},
                                                 {"version", NodeTrouble::kVersion}}};

/// As many bytes, some of them others, from the first on.
serve::HttpAnswer damaged(serve::HttpAnswer answer) {
  if (answer.next_piece) {
    answer.next_piece = [next = std::move(answer.next_piece)]() -> Result<std::string> {
      ST_ASSIGN(std::string piece, next());
      constexpr size_t kEvery = 97;
      for (size_t i = 0; i < piece.size(); i += kEvery) {
        piece[i] = static_cast<char>(~piece[i]);
      }
      return piece;
    };
  }
  return answer;
}

}  // namespace

std::optional<NodeTrouble> node_trouble_named(std::string_view name) {
  const auto* const known = std::ranges::find(kTroubles, name, &NamedTrouble::first);
  return known == kTroubles.end() ? std::nullopt : std::optional(known->second);
}

std::string_view name_of(NodeTrouble trouble) {
  const auto* const known = std::ranges::find(kTroubles, trouble, &NamedTrouble::second);
  return known == kTroubles.end() ? "" : known->first;
}

Result<std::pair<int, NodeTrouble>> parse_node_trouble(std::string_view text) {
  const size_t sign = text.find('=');
  const auto node = parse_integer(text.substr(0, sign));
  const auto known = node_trouble_named(sign == std::string_view::npos ? "" : text.substr(sign + 1));
  if (!node || *node < 0 || *node > INT32_MAX || !known) {
    std::string names;
    for (const auto& [name, trouble] : kTroubles) {
      names += fmt::format("{}3={}", names.empty() ? "" : ", ", name);
    }
    return fail(fmt::format("'{}' is no node and what is wrong with it", printable(text)), "give one of " + names,
                ErrorKind::kUsage);
  }
  return std::pair(static_cast<int>(*node), *known);
}

std::optional<Silence> silence_of(NodeTrouble trouble) {
  switch (trouble) {
    case NodeTrouble::kHangs:
      return Silence::kAll;
    case NodeTrouble::kStalls:
      return Silence::kAfterHead;
    case NodeTrouble::kTrickles:
      return Silence::kTrickles;
    default:
      return std::nullopt;
  }
}

bool suits_tls(NodeTrouble trouble) { return trouble != NodeTrouble::kStalls && trouble != NodeTrouble::kTrickles; }

serve::HttpAnswer answer_with(NodeTrouble trouble, serve::Api& api, const serve::HttpRequest& request) {
  switch (trouble) {
    case NodeTrouble::kSlow:
      std::this_thread::sleep_for(kSlow);
      break;
    case NodeTrouble::kRefuses:
      return serve::answer_of_error(401, "the token is wrong", "give --token-file as the server has it");
    case NodeTrouble::kGarbage:
      return {.body = std::string("\x8f\x01\xff{]\n", 6)};
    case NodeTrouble::kBadRows:
      return request.path == "/v1/rows" ? damaged(api.answer(request)) : api.answer(request);
    case NodeTrouble::kVersion:
      return serve::nothing_at_this_path(serve::kApiVersion + 1);
    case NodeTrouble::kDown:
    case NodeTrouble::kHangs:
    case NodeTrouble::kStalls:
    case NodeTrouble::kTrickles:  // SilentNodes
    case NodeTrouble::kNone:
      break;
  }
  return api.answer(request);
}

}  // namespace stalltrace::cli
