// SPDX-License-Identifier: Apache-2.0
#include "cli/evidence/autopsy_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "autopsy/output/autopsy_text.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "model/json/autopsy_result.h"
#include "report/findings_text.h"
#include "report/page.h"

namespace stalltrace::cli {
namespace {

using autopsy::HostResult;
using autopsy::JobVerdict;
using autopsy::Snapshot;
using Json = nlohmann::ordered_json;

constexpr std::string_view kRasTooLong = "the answers of NCCL's RAS are too long to be kept in this result";

/// Of the only host.
HostResult host_of(const AutopsyResult& result) {
  const auto& [node, traced] = *result.context.traced.begin();
  HostResult host{.file = {},
                  .node = node,
                  .snapshots = {},
                  .traced = traced,
                  .ras = result.context.ras,
                  .problems = result.ras_problems};
  host.snapshots = {result.snapshots.front(), result.snapshots.back()};
  for (Snapshot& snapshot : host.snapshots) {
    snapshot.taken_ns += result.context.utc_offset_ns;
  }
  return host;
}

Json job_to_json(const JobVerdict& verdict) {
  Json findings = Json::array();
  for (const Finding& finding : verdict.findings) {
    findings.push_back(report::finding_to_json(finding));
    if (finding.collectives_affected == 0) {  // no call with a known operation
      findings.back()["op"] = nullptr;
    }
  }
  return {{"job", verdict.job},   {"ranks", verdict.ranks},          {"state", to_text(verdict.state)},
          {"text", verdict.text}, {"findings", std::move(findings)}, {"notes", verdict.notes}};
}

/// "here", "on 2 hosts", "on gpu02": that hold the job's ranks.
std::string hosts_of(const AutopsyResult& result, const std::string& job) {
  std::set<std::string> hosts;
  for (const Snapshot* snapshot : {&result.snapshots.front(), &result.snapshots.back()}) {
    for (const autopsy::RankState& rank : snapshot->ranks) {
      if (rank.job == job) {
        hosts.insert(rank.node);
      }
    }
  }
  if (hosts.size() > 1) {
    return fmt::format("on {} hosts", hosts.size());
  }
  const bool here = result.of_this_host && result.context.traced.size() == 1;
  return here || hosts.empty() ? "here" : "on " + printable(*hosts.begin());
}

void add_note(Json& json, const std::string& note) {
  for (Json& job : json["jobs"]) {
    job["notes"].push_back(note);
  }
}

bool is_readable(const std::string& text) {
  return text.size() <= autopsy::kLargestResult && autopsy::read_result(text);
}

bool has_threads(const Json& json) {
  return std::ranges::any_of(json["ranks"], [](const Json& rank) { return !rank["threads"].is_null(); });
}

/// As much evidence as is read again: the ranks' threads, which are judged by no host, are the first that are left out,
/// then what RAS answered.
std::string with_evidence(Json json, HostResult host) {
  json["evidence"] = autopsy::evidence_json(host);
  std::string text = document_text(json);
  if (has_threads(json) && !is_readable(text)) {
    for (Json& rank : json["ranks"]) {
      rank["threads"] = nullptr;
    }
    add_note(json, "the threads of the ranks are too many to be kept in this result");
    text = document_text(json);
  }
  if (!host.ras.empty() && !is_readable(text)) {
    host.ras.clear();
    host.problems.emplace_back(kRasTooLong);
    add_note(json, std::string(kRasTooLong));
    json["evidence"] = autopsy::evidence_json(host);
    text = document_text(json);
  }
  if (!is_readable(text)) {
    json.erase("evidence");
    add_note(json, "this result is too large to be judged together with those of other hosts");
    text = document_text(json);
  }
  return text;
}

}  // namespace

std::string autopsy_to_text(const AutopsyResult& result, bool colour) {
  std::string text;
  for (const JobVerdict& verdict : result.verdicts) {
    report::Page page(colour);
    const std::string who = verdict.job.empty() ? "job" : "job " + printable(verdict.job);
    page.line(fmt::format("{}{}, {} {}: {}", text.empty() ? "" : "\n", page.paint(who, report::kBold),
                          count_of(verdict.ranks, "rank"), hosts_of(result, verdict.job), printable(verdict.text)));
    text += page.take() + autopsy::job_text(result.snapshots.back(), verdict);
    text += report::findings_to_text(verdict.findings, {.colour = colour});
    report::Page notes(colour);
    for (const std::string& note : verdict.notes) {
      notes.field("note", note);
    }
    text += notes.take();
  }
  return text;
}

std::string autopsy_to_json(const AutopsyResult& result) {
  const auto& hosts = result.context.traced;
  const Snapshot& last = result.snapshots.back();
  Json json{{kMadeBy, kMadeByAutopsy}, {"schema", autopsy::kResultSchema}};
  if (hosts.size() == 1) {
    json["node"] = hosts.begin()->first;
  } else {
    json["nodes"] = Json::array();
    for (const auto& [node, traced] : hosts) {
      json["nodes"].push_back(node);
    }
  }
  json["taken_ns"] = last.taken_ns + result.context.utc_offset_ns;
  json["watched_ms"] = (last.taken_ns - result.snapshots.front().taken_ns) / kNsPerMs;
  json["traced"] = std::ranges::all_of(hosts, [](const auto& host) { return host.second.done; });
  json["jobs"] = Json::array();
  for (const JobVerdict& verdict : result.verdicts) {
    json["jobs"].push_back(job_to_json(verdict));
  }
  json["ranks"] = autopsy::ranks_json(last);
  if (hosts.size() == 1) {
    return with_evidence(std::move(json), host_of(result));
  }
  return document_text(json);
}

std::string autopsy_evidence_line(const AutopsyResult& result) {
  HostResult host = host_of(result);
  Json json{{kMadeBy, kMadeByAutopsy}, {"schema", autopsy::kResultSchema}, {"node", host.node}};
  json["evidence"] = autopsy::evidence_json(host);
  std::string line = line_text(json);
  if (!host.ras.empty() && !is_readable(line)) {
    host.ras.clear();
    host.problems.emplace_back(kRasTooLong);
    json["evidence"] = autopsy::evidence_json(host);
    line = line_text(json);
  }
  return is_readable(line) ? line : "";
}

}  // namespace stalltrace::cli
