// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/campaign/score.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/clock.h"

namespace stalltrace::lab {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 5> kVerdicts = {"right", "abstained", "wrong", "costless", "failed"};
constexpr std::string_view kUnknown = "unknown";
constexpr std::string_view kNothing = "nothing";

/// The rank at an address such as "10.77.0.3:40112" or "[fd77::3]:40112".
std::optional<int> rank_at(std::string_view endpoint) {
  std::string_view address = endpoint.substr(0, endpoint.rfind(':'));
  if (address.starts_with('[') && address.ends_with(']')) {
    address = address.substr(1, address.size() - 2);
  }
  for (int rank = 0; rank < kMaximumRanks; ++rank) {
    const VirtualNode node = make_node(rank, "");
    if (address == node.address || address == node.address6) {
      return rank;
    }
  }
  return std::nullopt;
}

/// An agent of one node knows the other end only by its address.
std::optional<int> read_end(const Json& link, const char* rank, const char* endpoint) {
  if (const auto found = link.find(rank); found != link.end() && !found->is_null()) {
    return found->get<int>();
  }
  const auto found = link.find(endpoint);
  return found == link.end() || found->is_null() ? std::nullopt : rank_at(found->get<std::string>());
}

std::optional<FaultLink> read_link(const Json& json) {
  if (json.is_null()) {
    return std::nullopt;
  }
  const std::optional<int> src = read_end(json, "src_rank", "src");
  const std::optional<int> dst = read_end(json, "dst_rank", "dst");
  return src && dst ? std::optional(FaultLink{*src, *dst}) : std::nullopt;
}

TrueFault read_fault(const Json& json) {
  TrueFault fault;
  fault.cause = json.at("cause").get<std::string>();
  const FaultRow* row = find_fault_row(fault.cause);
  fault.harmless = row != nullptr && row->harmless;
  fault.rank = json.at("rank").get<int>();
  fault.link = read_link(json.at("link"));
  fault.direction = json.at("dose").value("direction", "");
  for (const Json& interval : json.at("intervals")) {
    fault.intervals.push_back({interval.at("from_ns").get<int64_t>(), interval.at("to_ns").get<int64_t>()});
  }
  return fault;
}

ReportedFault read_finding(const Json& json) {
  ReportedFault reported;
  reported.cause = json.at("cause").get<std::string>();
  if (const Json& culprit = json.at("culprit"); !culprit.is_null() && !culprit.at("rank").is_null()) {
    reported.culprit = culprit.at("rank").get<int>();
  }
  reported.link = read_link(json.at("link"));
  reported.stall_ms = json.at("stall_ms").get<double>();
  if (const auto detected = json.find("detected_ns"); detected != json.end() && !detected->is_null()) {
    reported.detected_ns = detected->get<int64_t>();
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

/// Whether a link shows what affects everything that a node receives, or sends.
bool on_that_side(const FaultLink& link, const TrueFault& fault) {
  const bool in = link.dst_rank == fault.rank;
  const bool out = link.src_rank == fault.rank;
  if (fault.direction == "both") {
    return in || out;
  }
  return is_outgoing(fault) ? out : in;
}

std::vector<TrueFault> real_faults(const std::vector<TrueFault>& faults) {
  std::vector<TrueFault> real;
  std::ranges::copy_if(faults, std::back_inserter(real), [](const TrueFault& fault) { return !fault.harmless; });
  return real;
}

/// Findings that match no fault, in the order of the report: most expensive first.
std::vector<ReportedFault> unfounded(const std::vector<TrueFault>& faults, const std::vector<ReportedFault>& reported) {
  std::vector<ReportedFault> strange;
  std::ranges::copy_if(reported, std::back_inserter(strange), [&](const ReportedFault& finding) {
    return std::ranges::none_of(faults, [&](const TrueFault& fault) { return names(finding, fault); });
  });
  return strange;
}

FaultScore unnamed(const TrueFault& fault, const std::vector<ReportedFault>& reported) {
  FaultScore score{.cause = fault.cause, .reported = std::string(kNothing)};
  if (!reported.empty()) {
    score.reported = reported.front().cause;
  }
  return score;
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
    truth.ended_ns = root.at("run").at("ended_ns").get<int64_t>();
    truth.completed = root.at("run").at("completed").get<bool>();
    for (const Json& fault : root.at("faults")) {
      if (fault.at("injected").get<bool>()) {
        truth.faults.push_back(read_fault(fault));
      }
    }
    return truth;
  });
}

Result<std::vector<ReportedFault>> read_findings(std::string_view json) {
  return read_json(json, "findings.json", [](const Json& root) {
    std::vector<ReportedFault> reported;
    for (const Json& finding : root.at("findings")) {
      reported.push_back(read_finding(finding));
    }
    return reported;
  });
}

bool names(const ReportedFault& reported, const TrueFault& fault) {
  if (reported.cause != fault.cause || fault.harmless) {
    return false;
  }
  const bool on_network = fault.link || !fault.direction.empty() || is_outgoing(fault);
  if (fault.link) {
    return reported.link && reported.link->src_rank == fault.link->src_rank &&
           reported.link->dst_rank == fault.link->dst_rank && !reported.culprit;
  }
  if (reported.culprit) {
    return *reported.culprit == fault.rank;
  }
  return on_network && reported.link && on_that_side(*reported.link, fault);
}

DrawScore score(const std::vector<TrueFault>& faults, const std::vector<ReportedFault>& reported,
                std::optional<double> cost_ms) {
  DrawScore result;
  const std::vector<ReportedFault> strange = unfounded(faults, reported);
  bool all_named = true;
  bool any_fault = false;
  for (const TrueFault& fault : real_faults(faults)) {
    any_fault = true;
    const auto finding =
        std::ranges::find_if(reported, [&](const ReportedFault& other) { return names(other, fault); });
    if (finding == reported.end()) {
      all_named = false;
      result.faults.push_back(unnamed(fault, strange));
      if (faults.size() == 1) {
        result.faults.back().cost_ms = cost_ms;
      }
      continue;
    }
    FaultScore named{.cause = fault.cause, .reported = finding->cause};
    if (faults.size() == 1 && cost_ms) {
      named.cost_ms = cost_ms;
      named.reported_ms = finding->stall_ms;
    }
    result.faults.push_back(std::move(named));
  }
  for (const ReportedFault& finding : strange) {
    if (finding.cause != kUnknown || !any_fault) {
      result.false_causes.push_back(finding.cause);
    }
  }
  const bool costless = faults.size() == 1 && reported.empty() && cost_ms && *cost_ms < kWorthSayingMs;
  result.verdict = !result.false_causes.empty() ? DrawVerdict::kWrong
                   : all_named                  ? DrawVerdict::kRight
                   : costless                   ? DrawVerdict::kCostless
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
  for (const ReportedFault& finding : unfounded(faults, reported)) {
    if (finding.cause != kUnknown || real.empty()) {
      score.live_false.push_back(finding.cause);
    }
  }
}

}  // namespace stalltrace::lab
