// SPDX-License-Identifier: Apache-2.0
#include "preflight/peers/launch_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "preflight/output.h"
#include "preflight/peers/collectives/output.h"
#include "preflight/peers/messages.h"

namespace stalltrace::preflight {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchema = 1;
constexpr size_t kMostLines = 30;  // of pairs; of more only some with a fault
constexpr size_t kMostFaults = 10;
constexpr size_t kNameWidth = 12;
constexpr size_t kCellsWithNumbers = 11;  // 12 + 11 * 6 fit 80 columns
constexpr size_t kMostCells = 64;

std::string short_name(const std::string& name) {
  const std::string clean = printable(name);
  return clean.size() <= kNameWidth ? clean : ".." + clean.substr(clean.size() - kNameWidth + 2);
}

/// "941M", "9.4G", "97G"
std::string short_speed(double mbit) {
  return mbit < 1000   ? fmt::format("{:.0f}M", mbit)
         : mbit < 9950 ? fmt::format("{:.1f}G", mbit / 1000)
                       : fmt::format("{:.0f}G", mbit / 1000);
}

Outcome outcome_of(const Judgement& judgement, const Pair& pair) {
  const auto found = judgement.pairs.find(pair);
  return found == judgement.pairs.end() ? Outcome::kOk : found->second;
}

char mark_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kFailed:
      return 'X';
    case Outcome::kWarning:
      return '!';
    case Outcome::kUnknown:
      return '?';
    case Outcome::kOk:
      return '.';
  }
  return ' ';
}

std::string pair_line(const LaunchResults& results, const PairResult& pair, Outcome outcome) {
  const auto name = [&](int32_t node) { return short_name(results.nodes[static_cast<size_t>(node)].name); };
  const std::string latency = pair.latency ? format_duration(pair.latency->median_ns) : "-";
  const std::string slowest = pair.latency ? format_duration(pair.latency->max_ns) : "-";
  return fmt::format("{:<12} {:<12} {:<11} {:>8} {:>8} {:>5} {:>6} {:>6} {}\n", name(pair.from), name(pair.to),
                     to_text(pair.reach), latency, slowest, pair.mtu ? std::to_string(pair.mtu->largest) : "-",
                     pair.alone ? short_speed(pair.alone->mbit()) : "-",
                     pair.alone ? std::to_string(pair.alone->retransmits) : "-",
                     outcome == Outcome::kOk ? ' ' : mark_of(outcome));
}

std::string pair_table(const LaunchResults& results, const Judgement& judgement) {
  std::vector<const PairResult*> shown;
  const bool all = results.pairs.size() <= kMostLines;
  for (const PairResult& pair : results.pairs) {
    if (all || outcome_of(judgement, {pair.from, pair.to}) != Outcome::kOk) {
      shown.push_back(&pair);
    }
  }
  if (shown.empty()) {
    return {};
  }
  const auto order = [](const PairResult* pair) { return Pair(pair->from, pair->to); };
  std::ranges::sort(shown, {}, order);
  std::string text = fmt::format("{:<12} {:<12} {:<11} {:>8} {:>8} {:>5} {:>6} {:>6}\n", "from", "to", "", "median",
                                 "slowest", "MTU", "bit/s", "resent");
  const size_t most = all ? kMostLines : kMostFaults;
  for (size_t i = 0; i < shown.size() && i < most; ++i) {
    text += pair_line(results, *shown[i], outcome_of(judgement, order(shown[i])));
  }
  if (shown.size() > most) {
    text += fmt::format("and {} more; --json has all\n", shown.size() - most);
  }
  return text + "\n";
}

std::string numbers(const LaunchResults& results, const Judgement& judgement) {
  const size_t count = results.nodes.size();
  std::vector<std::vector<std::string>> cells(count, std::vector<std::string>(count, ""));
  for (size_t i = 0; i < count; ++i) {
    cells[i][i] = "-";
  }
  for (const PairResult& pair : results.pairs) {
    const Outcome outcome = outcome_of(judgement, {pair.from, pair.to});
    cells[static_cast<size_t>(pair.from)][static_cast<size_t>(pair.to)] =
        (pair.alone ? short_speed(pair.alone->mbit()) : "") +
        (outcome == Outcome::kOk ? "" : std::string(1, mark_of(outcome)));
  }
  std::string text = fmt::format("{:<12}", "from \\ to");
  for (size_t to = 0; to < count; ++to) {
    text += fmt::format("{:>6}", fmt::format("[{}]", to));
  }
  text += "\n";
  for (size_t from = 0; from < count; ++from) {
    const std::string label = fmt::format("[{}] {}", from, results.nodes[from].name);
    text += fmt::format("{:<12}", printable(label).substr(0, kNameWidth));
    for (const std::string& cell : cells[from]) {
      text += fmt::format("{:>6}", cell);
    }
    text += "\n";
  }
  return text;
}

std::string blocks(const LaunchResults& results, const Judgement& judgement) {
  const size_t count = results.nodes.size();
  const size_t block = (count + kMostCells - 1) / kMostCells;
  const size_t side = (count + block - 1) / block;
  std::vector<std::string> cells(side, std::string(side, ' '));
  constexpr std::string_view kWorstLast = " .?!X";
  for (const PairResult& pair : results.pairs) {
    char& cell = cells[static_cast<size_t>(pair.from) / block][static_cast<size_t>(pair.to) / block];
    const char mark = mark_of(outcome_of(judgement, {pair.from, pair.to}));
    cell = kWorstLast.find(mark) > kWorstLast.find(cell) ? mark : cell;
  }
  std::string text = block == 1 ? "" : fmt::format("a cell is {0} x {0} nodes, and shows the worst of them\n", block);
  for (size_t row = 0; row < side; ++row) {
    text += fmt::format("{:<12} {}\n", short_name(results.nodes[row * block].name), cells[row]);
  }
  return text;
}

std::string matrix(const LaunchResults& results, const Judgement& judgement) {
  if (results.nodes.size() < 3 || (results.nodes.size() > kCellsWithNumbers && judgement.pairs.empty())) {
    return {};
  }
  const bool fits = results.nodes.size() <= kCellsWithNumbers;
  return (fits ? numbers(results, judgement) : blocks(results, judgement)) +
         fmt::format("X failed  ! warning  ? unknown{}\n\n", fits ? "" : "  . ok  blank: not tested");
}

}  // namespace

std::string launch_text(const LaunchResults& results, const Judgement& judgement) {
  std::string text = pair_table(results, judgement) + matrix(results, judgement);
  if (results.rounds < results.possible_rounds) {
    text += fmt::format("{} of {} rounds of pairs were tested (--rounds).\n", results.rounds, results.possible_rounds);
  }
  if (results.collectives) {
    text += collectives_text(*results.collectives);
  }
  return text + checks_text(judgement.checks);
}

std::string launch_json(const LaunchResults& results, const Judgement& judgement) {
  Json hosts = Json::array();
  Json nodes = Json::array();
  for (const TestedNode& node : results.nodes) {
    hosts.push_back(node.name);
    nodes.push_back({{"name", node.name},
                     {"first_rank", node.first_rank},
                     {"address", node.address},
                     {"interface", node.interface},
                     {"mtu", node.mtu},
                     {"line_mbit", node.line_mbit == 0 ? Json() : Json(node.line_mbit)}});
  }
  Json pairs = Json::array();
  for (const PairResult& pair : results.pairs) {
    Json one{{"from", results.nodes[static_cast<size_t>(pair.from)].name},
             {"to", results.nodes[static_cast<size_t>(pair.to)].name},
             {"outcome", to_text(outcome_of(judgement, {pair.from, pair.to}))}};
    one.update(to_json(pair));
    for (const auto& [name, flow] : {std::pair("alone", &pair.alone), std::pair("small_segments", &pair.small),
                                     std::pair("half_rate", &pair.half_rate), std::pair("together", &pair.together)}) {
      if (*flow) {
        one[name]["mbit_per_s"] = (*flow)->mbit();
      }
    }
    pairs.push_back(std::move(one));
  }
  Json ranks = Json::array();
  for (const TestedRank& rank : results.ranks) {
    Json one{{"rank", rank.rank},
             {"node", results.nodes[static_cast<size_t>(rank.node)].name},
             {"joined_ns", rank.joined_ns},
             {"barrier_rounds", rank.arrivals_ns.size()}};
    if (!rank.arrivals_ns.empty()) {
      one["median_arrival_ns"] = median_arrival_ns(rank);
      one["max_arrival_ns"] = *std::ranges::max_element(rank.arrivals_ns);
    }
    ranks.push_back(std::move(one));
  }
  Json object = Json::parse(comparison_json(results.reports, judgement.checks));
  object["world_size"] = results.world_size;
  object["rounds"] = results.rounds;
  object["possible_rounds"] = results.possible_rounds;
  object["nodes"] = std::move(nodes);
  object["ranks"] = std::move(ranks);
  object["pairs"] = std::move(pairs);
  if (results.collectives) {
    object["collectives"] = collectives_json(*results.collectives);
  }
  return document_text(object);
}

}  // namespace stalltrace::preflight
