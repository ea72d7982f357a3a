// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/campaign/score.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

namespace stalltrace::lab {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, kDrawVerdicts> kVerdicts = {"right", "abstained", "wrong", "costless",
                                                                   "job_failed"};
constexpr std::string_view kUnknown = "unknown";
constexpr std::string_view kNothing = "nothing";
/// Of a fault that acts on all ranks alike: any rank that is accused is innocent.
constexpr int kNoRank = -1;

/// The first rank of the node at an address such as "10.77.0.3:40112" or "[fd77::3]:40112".
std::optional<int> rank_at(std::string_view endpoint, int ranks_per_node) {
  std::string_view address = endpoint.substr(0, endpoint.rfind(':'));
  if (address.starts_with('[') && address.ends_with(']')) {
    address = address.substr(1, address.size() - 2);
  }
  for (int rank = 0; rank < kMaximumRanks; rank += ranks_per_node) {
    const VirtualNode node = make_node(rank, "", ranks_per_node);
    if (address == node.address || address == node.address6) {
      return rank;
    }
  }
  return std::nullopt;
}

/// An agent of one node knows the other end only by its address.
std::optional<int> read_end(const Json& link, const char* rank, const char* endpoint, int ranks_per_node) {
  if (const auto found = link.find(rank); found != link.end() && !found->is_null()) {
    return found->get<int>();
  }
  const auto found = link.find(endpoint);
  return found == link.end() || found->is_null() ? std::nullopt : rank_at(found->get<std::string>(), ranks_per_node);
}

std::optional<FaultLink> read_link(const Json& json, int ranks_per_node) {
  if (json.is_null()) {
    return std::nullopt;
  }
  const std::optional<int> src = read_end(json, "src_rank", "src", ranks_per_node);
  const std::optional<int> dst = read_end(json, "dst_rank", "dst", ranks_per_node);
  return src && dst ? std::optional(FaultLink{*src, *dst}) : std::nullopt;
}

bool has(const std::vector<int>& ranks, int rank) { return std::ranges::find(ranks, rank) != ranks.end(); }

/// A node's ranks, by its name.
using NodeRanks = std::map<std::string, std::vector<int>, std::less<>>;

NodeRanks read_nodes(const Json& root) {
  NodeRanks nodes;
  for (const Json& node : root.value("nodes", Json::array())) {
    nodes[node.at("node").get<std::string>()].push_back(node.at("rank").get<int>());
  }
  return nodes;
}

/// The name and the ranks of a rank's node; without a name, the rank alone.
std::pair<std::string, std::vector<int>> node_of(int rank, const NodeRanks& nodes) {
  for (const auto& [name, ranks] : nodes) {
    if (has(ranks, rank)) {
      return {name, ranks};
    }
  }
  return {"", {rank}};
}

/// Whether a cause of findings describes it.
bool is_catalogued(std::string_view cause) { return cause != kUnknown && cause_from_text(cause).has_value(); }

TrueFault read_fault(const Json& json, const NodeRanks& nodes) {
  TrueFault fault;
  fault.cause = json.at("cause").get<std::string>();
  fault.catalogued = is_catalogued(fault.cause);
  const FaultRow* row = find_fault_row(fault.cause);
  fault.harmless = row != nullptr && row->harmless;
  fault.rank = row != nullptr && row->of_job ? kNoRank : json.at("rank").get<int>();
  std::tie(fault.node, fault.node_ranks) = node_of(fault.rank, nodes);
  fault.link = read_link(json.at("link"), 1);  // has its ranks
  if (fault.link) {
    fault.src_ranks = node_of(fault.link->src_rank, nodes).second;
    fault.dst_ranks = node_of(fault.link->dst_rank, nodes).second;
  }
  fault.direction = json.at("dose").value("direction", "");
  for (const Json& interval : json.at("intervals")) {
    fault.intervals.push_back({interval.at("from_ns").get<int64_t>(), interval.at("to_ns").get<int64_t>()});
  }
  return fault;
}

ReportedFault read_finding(const Json& json, int ranks_per_node) {
  ReportedFault reported;
  reported.cause = json.at("cause").get<std::string>();
  const Json& culprit = json.at("culprit");
  if (!culprit.is_null()) {
    if (const Json& rank = culprit.at("rank"); !rank.is_null()) {
      reported.culprit = rank.get<int>();
    }
    if (const auto node = culprit.find("node"); node != culprit.end() && node->is_string()) {
      reported.node = node->get<std::string>();
    }
  }
  reported.link = read_link(json.at("link"), ranks_per_node);
  reported.either_way = std::ranges::any_of(json.value("evidence", Json::array()), [](const Json& one) {
    return one.at("kind").get<std::string>() == kDirectionNotKnown;
  });
  reported.accuses = !culprit.is_null() || !json.at("link").is_null();
  reported.waiting = json.at("severity").get<std::string>() == to_text(Severity::kWaiting);
  reported.confidence = json.at("confidence").get<double>();
  reported.window = {json.at("window").at("from_ns").get<int64_t>(), json.at("window").at("to_ns").get<int64_t>()};
  reported.stall_ms = json.at("stall_ms").get<double>();
  if (const auto detected = json.find("detected_ns"); detected != json.end() && !detected->is_null()) {
    reported.detected_ns = detected->get<int64_t>();
  }
  return reported;
}

ReportedFault reported_fault(const Finding& finding) {
  ReportedFault reported{.cause = std::string(to_text(finding.cause)),
                         .either_way = std::ranges::any_of(
                             finding.evidence, [](const Evidence& one) { return one.kind == kDirectionNotKnown; }),
                         .accuses = finding.culprit || finding.link,
                         .waiting = finding.severity == Severity::kWaiting,
                         .confidence = finding.confidence,
                         .window = finding.window,
                         .stall_ms = finding.stall_ms,
                         .detected_ns = finding.detected_ns.value_or(0)};
  if (finding.culprit) {
    reported.culprit = finding.culprit->rank;
    reported.node = finding.culprit->node;
  }
  if (finding.link && finding.link->src_rank && finding.link->dst_rank) {
    reported.link = FaultLink{*finding.link->src_rank, *finding.link->dst_rank};
  }
  return reported;
}

/// Only here, the library throws if a key is missing or of another type.
template <typename Read>
auto read_json(std::string_view text, std::string_view what, Read read) -> Result<decltype(read(Json()))> {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception& error) {
    return fail(std::string(what) + ": " + error.what(), {}, ErrorKind::kCorrupt);
  }
}

/// Faults of a node that show on its outgoing links.
constexpr std::array<std::string_view, 3> kOutgoing = {"slow_link", "host_drop", "fabric_errors"};
bool is_outgoing(const TrueFault& fault) {
  return fault.direction == "egress" || std::ranges::find(kOutgoing, fault.cause) != kOutgoing.end();
}

/// Of all that a node sends or receives, and not of one of its ranks.
bool is_of_node(const TrueFault& fault) { return !fault.direction.empty() || is_outgoing(fault); }

/// Whether a link shows what affects everything that a node receives, or sends.
bool on_that_side(const FaultLink& link, const TrueFault& fault) {
  const bool in = has(fault.node_ranks, link.dst_rank);
  const bool out = has(fault.node_ranks, link.src_rank);
  if (fault.direction == "both") {
    return in || out;
  }
  return is_outgoing(fault) ? out : in;
}

bool is_of_that_time(const ReportedFault& reported, const TrueFault& fault) {
  return std::ranges::any_of(fault.intervals, [&](const TimeRange& interval) {
    return reported.window.to_ns >= interval.from_ns - kTimeSlackNs &&
           reported.window.from_ns <= interval.to_ns + kTimeSlackNs;
  });
}

/// Whether a finding with the link `link` has the fault's location.
bool is_on(const std::optional<FaultLink>& link, const ReportedFault& reported, const TrueFault& fault) {
  if (fault.link) {
    return link && has(fault.src_ranks, link->src_rank) && has(fault.dst_ranks, link->dst_rank) && !reported.culprit &&
           reported.node.empty();
  }
  if (fault.rank == kNoRank) {
    return !reported.accuses;
  }
  if (!is_of_node(fault)) {
    return reported.culprit == fault.rank;
  }
  if (reported.culprit || !reported.node.empty()) {
    return (!reported.node.empty() && reported.node == fault.node) ||
           (reported.culprit && has(fault.node_ranks, *reported.culprit));
  }
  return link && on_that_side(*link, fault);
}

bool is_of_that_location(const ReportedFault& reported, const TrueFault& fault) {
  return is_on(reported.link, reported, fault) ||
         (reported.either_way && reported.link &&
          is_on(FaultLink{reported.link->dst_rank, reported.link->src_rank}, reported, fault));
}

std::vector<TrueFault> real_faults(const std::vector<TrueFault>& faults) {
  std::vector<TrueFault> real;
  std::ranges::copy_if(faults, std::back_inserter(real), [](const TrueFault& fault) { return !fault.harmless; });
  return real;
}

enum class Meaning : uint8_t {
  kNames,     // a fault
  kWaiting,   // asserts nothing
  kDoubt,     // nothing false: unknown, or a fault's cause without a location
  kInnocent,  // false: with another location than any fault, or there is none
  kCause,     // false: at a fault's location and time, with another cause
};

Meaning meaning_of(const ReportedFault& finding, const std::vector<TrueFault>& real) {
  const auto any = [&](auto holds) { return std::ranges::any_of(real, holds); };
  if (any([&](const TrueFault& fault) { return names(finding, fault); })) {
    return Meaning::kNames;
  }
  if (finding.waiting) {
    return Meaning::kWaiting;
  }
  const bool at_fault = any([&](const TrueFault& fault) { return locates(finding, fault); });
  if (finding.cause == kUnknown) {
    return at_fault || (!finding.accuses && !real.empty()) ? Meaning::kDoubt : Meaning::kInnocent;
  }
  if (!finding.accuses &&
      any([&](const TrueFault& fault) { return finding.cause == fault.cause && is_of_that_time(finding, fault); })) {
    return Meaning::kDoubt;
  }
  return at_fault ? Meaning::kCause : Meaning::kInnocent;
}

bool is_false(Meaning meaning) { return meaning == Meaning::kInnocent || meaning == Meaning::kCause; }

/// The cause that was reported in the place of a fault that no finding names: the first of what is false or doubtful.
std::string reported_instead(const std::vector<ReportedFault>& reported, const std::vector<TrueFault>& real) {
  const auto found = std::ranges::find_if(
      reported, [&](const ReportedFault& finding) { return meaning_of(finding, real) != Meaning::kNames; });
  return found == reported.end() ? std::string(kNothing) : found->cause;
}

/// Findings that name a fault are ordered as in the report: the most expensive one is first.
FaultScore score_fault(const TrueFault& fault, const std::vector<TrueFault>& real,
                       const std::vector<ReportedFault>& reported) {
  FaultScore score{.cause = fault.cause};
  for (const ReportedFault& finding : reported) {
    if (names(finding, fault)) {
      if (++score.findings == 1) {
        score.reported_ms = finding.stall_ms;
      }
    }
  }
  score.reported = score.findings > 0 ? fault.cause : reported_instead(reported, real);
  return score;
}

/// True if what the only fault cost is less than a finding needs.
bool is_below(const CostGate& gate, const TrueCost& cost, const TruthRead& truth) {
  const std::vector<TimeRange>& intervals = truth.faults.front().intervals;
  const int64_t job_ns = truth.ended_ns - truth.started_ns;
  const int64_t fault_ns = intervals.empty() ? 0 : intervals.back().to_ns - intervals.front().from_ns;
  const int64_t span_ns = std::max(std::min(fault_ns, job_ns), std::min(gate.span_ns, job_ns));
  const double total_ns = std::max(static_cast<double>(gate.total_ns), gate.share * static_cast<double>(span_ns));
  constexpr auto kNs = static_cast<double>(kNsPerMs);
  return cost.ms * kNs < total_ns && cost.single_ms * kNs < static_cast<double>(gate.single_ns);
}

}  // namespace

std::string_view to_text(DrawVerdict verdict) { return kVerdicts[static_cast<size_t>(verdict)]; }

std::optional<DrawVerdict> verdict_from_text(std::string_view text) {
  const auto found = std::ranges::find(kVerdicts, text);
  return found == kVerdicts.end() ? std::nullopt : std::optional(static_cast<DrawVerdict>(found - kVerdicts.begin()));
}

Result<TruthRead> read_truth(std::string_view json) {
  return read_json(json, "truth.json", [](const Json& root) {
    TruthRead truth;
    truth.started_ns = root.at("run").at("started_ns").get<int64_t>();
    truth.ended_ns = root.at("run").at("ended_ns").get<int64_t>();
    truth.completed = root.at("run").at("completed").get<bool>();
    const NodeRanks nodes = read_nodes(root);
    truth.ranks_per_node = nodes.empty() ? 1 : static_cast<int>(nodes.begin()->second.size());
    for (const Json& fault : root.at("faults")) {
      ++truth.planned;
      if (fault.at("injected").get<bool>()) {
        truth.faults.push_back(read_fault(fault, nodes));
      }
    }
    return truth;
  });
}

Result<std::vector<ReportedFault>> read_findings(std::string_view json, int ranks_per_node) {
  return read_json(json, "findings.json", [&](const Json& root) {
    std::vector<ReportedFault> reported;
    for (const Json& finding : root.at("findings")) {
      reported.push_back(read_finding(finding, ranks_per_node));
    }
    return reported;
  });
}

std::vector<ReportedFault> reported_faults(const Report& report) {
  std::vector<ReportedFault> reported;
  std::ranges::transform(report.findings, std::back_inserter(reported), reported_fault);
  return reported;
}

bool locates(const ReportedFault& reported, const TrueFault& fault) {
  return !fault.harmless && is_of_that_time(reported, fault) && is_of_that_location(reported, fault);
}

bool names(const ReportedFault& reported, const TrueFault& fault) {
  return fault.catalogued && reported.cause == fault.cause && locates(reported, fault);
}

DrawScore score(const TruthRead& truth, const std::vector<ReportedFault>& reported, std::optional<TrueCost> cost,
                const GateOf& gate_of) {
  DrawScore result;
  const std::vector<TrueFault> real = real_faults(truth.faults);
  const bool cost_known = truth.faults.size() == 1 && real.size() == 1 && cost;
  bool all_named = true;
  for (const TrueFault& fault : real) {
    FaultScore one = score_fault(fault, real, reported);
    all_named = all_named && (one.findings > 0 || !fault.catalogued);
    one.cost_ms = cost_known ? std::optional(cost->ms) : std::nullopt;
    one.reported_ms = cost_known ? one.reported_ms : std::nullopt;
    result.faults.push_back(std::move(one));
  }
  for (const ReportedFault& finding : reported) {
    const Meaning meaning = meaning_of(finding, real);
    if (is_false(meaning)) {
      result.false_causes.push_back(finding.cause);
    }
    result.blames_innocent = result.blames_innocent || meaning == Meaning::kInnocent;
    result.waiting += meaning == Meaning::kWaiting ? 1 : 0;
    const bool asserts = !finding.waiting && finding.cause != kUnknown && meaning != Meaning::kDoubt;
    if (asserts) {
      result.assertions.push_back({finding.confidence, meaning == Meaning::kNames});
    }
  }
  const bool costless = cost_known && truth.completed && real[0].catalogued &&
                        (cost->ms < kWorthSayingMs || (gate_of && is_below(gate_of(real[0].cause), *cost, truth)));
  result.verdict = !result.false_causes.empty() ? DrawVerdict::kWrong
                   : costless                   ? DrawVerdict::kCostless
                   : all_named                  ? DrawVerdict::kRight
                                                : DrawVerdict::kAbstained;
  return result;
}

void add_live(const std::vector<TrueFault>& faults, const std::vector<ReportedFault>& reported, DrawScore& score) {
  const std::vector<TrueFault> real = real_faults(faults);
  for (size_t i = 0; i < real.size() && i < score.faults.size(); ++i) {
    std::optional<int64_t> first_ns;
    for (const ReportedFault& finding : reported) {
      if (names(finding, real[i])) {
        first_ns = std::min(first_ns.value_or(finding.detected_ns), finding.detected_ns);
      }
    }
    if (first_ns) {
      score.faults[i].latency_ms =
          static_cast<double>(*first_ns - real[i].intervals.front().from_ns) / static_cast<double>(kNsPerMs);
    }
  }
  for (const ReportedFault& finding : reported) {
    if (is_false(meaning_of(finding, real))) {
      score.live_false.push_back(finding.cause);
    }
  }
  if (!score.live_false.empty()) {
    score.verdict = DrawVerdict::kWrong;
  }
}

}  // namespace stalltrace::lab
