// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/recorded_kinds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace stalltrace::analysis {
namespace {

const Node* node_of(const AnalysisContext& context, MemberIndex member) {
  const std::vector<Node>& nodes = context.cluster.nodes();
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const Node& node) {
    return node.node_id == context.cluster.member(member).node_id;
  });
  return found == nodes.end() ? nullptr : &*found;
}

/// The release only, without the architecture: "5.10.0-32-amd64 x86_64".
std::string_view release_of(const Node& node) {
  const std::string_view kernel = node.kernel;
  return kernel.substr(0, kernel.find(' '));
}

}  // namespace

std::vector<UnrecordedKind> unrecorded_kinds(const AnalysisContext& context, const Stall& stall) {
  std::vector<UnrecordedKind> kinds;
  for (const uint32_t sequence : context.timeline.groups()[stall.group].sequences) {
    const MemberIndex member = context.timeline.sequences()[sequence].member;
    const Node* node = node_of(context, member);
    if (!node || node->missing_evidence.empty()) {
      continue;
    }
    for (const EvidenceKind kind : kinds_of_keys(node->missing_evidence)) {
      if (std::none_of(kinds.begin(), kinds.end(), [&](const UnrecordedKind& known) { return known.kind == kind; })) {
        kinds.push_back({kind, member});
      }
    }
  }
  return kinds;
}

void distrust_absence(const AnalysisContext& context, const Stall& stall, std::span<const EvidenceKind> kinds,
                      std::span<Hypothesis> hypotheses) {
  if (kinds.empty() || std::none_of(hypotheses.begin(), hypotheses.end(), [](const auto& o) { return o.applies; })) {
    return;
  }
  for (const UnrecordedKind& unrecorded : unrecorded_kinds(context, stall)) {
    if (std::find(kinds.begin(), kinds.end(), unrecorded.kind) == kinds.end()) {
      continue;
    }
    for (Hypothesis& hypothesis : hypotheses) {
      hypothesis.applies = false;
      hypothesis.why =
          fmt::format("this would need {}, not recorded; {}", unrecorded_text(context, unrecorded), hypothesis.why);
    }
    return;
  }
}

std::string unrecorded_text(const AnalysisContext& context, const UnrecordedKind& kind) {
  const Node* node = node_of(context, kind.member);
  return fmt::format("{} ({}, Linux {})", info_of(kind.kind).title, context.cluster.member(kind.member).node,
                     node ? release_of(*node) : "");
}

std::vector<std::string> notes_on_unrecorded(const std::vector<Node>& nodes) {
  std::map<std::string, std::vector<const Node*>> by_kinds;
  for (const Node& node : nodes) {
    if (!node.missing_evidence.empty()) {
      by_kinds[node.missing_evidence].push_back(&node);
    }
  }
  std::vector<std::string> notes;
  for (const auto& [keys, lacking] : by_kinds) {
    std::vector<std::string_view> titles;
    for (const EvidenceKind kind : kinds_of_keys(keys)) {
      titles.push_back(info_of(kind).title);
    }
    const Node& first = *lacking.front();
    const std::string who = lacking.size() == 1 ? fmt::format("{} (Linux {})", first.name, release_of(first))
                                                : fmt::format("{} and {} more (Linux {})", first.name,
                                                              lacking.size() - 1, release_of(first));
    notes.push_back(fmt::format("not recorded on {}: {}", who, fmt::join(titles, "; ")));
  }
  return notes;
}

}  // namespace stalltrace::analysis
