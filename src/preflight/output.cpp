// SPDX-License-Identifier: Apache-2.0
#include "preflight/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json.h"
#include "base/text.h"
#include "preflight/topology/topology.h"

namespace stalltrace::preflight {
namespace {

using Json = nlohmann::ordered_json;

Json checks_json(std::span<const HostCheck> checks) {
  Json rows = Json::array();
  for (const HostCheck& check : checks) {
    rows.push_back({{"check", check.check},
                    {"subject", check.subject},
                    {"outcome", to_text(check.outcome)},
                    {"detail", check.detail},
                    {"remedy", check.remedy}});
  }
  return rows;
}

Json topology_json(const Topology& topology) {
  Json devices = Json::array();
  Json paths = Json::array();
  for (const PciDevice& device : topology.devices) {
    devices.push_back({{"name", device.name},
                       {"kind", device.kind == PciDevice::Kind::kGpu ? "gpu" : "card"},
                       {"address", device.address},
                       {"numa_node", device.numa_node < 0 ? Json() : Json(device.numa_node)}});
    Json row = Json::array();
    for (const PciDevice& other : topology.devices) {
      row.push_back(to_text(path_between(device, other)));
    }
    paths.push_back(std::move(row));
  }
  return {{"devices", std::move(devices)}, {"paths", std::move(paths)}};
}

constexpr int kSchema = 1;
constexpr int kDeepest = 8;
constexpr size_t kMostRows = 4096;

std::optional<Outcome> outcome_from_text(std::string_view text) {
  for (const Outcome outcome : {Outcome::kOk, Outcome::kWarning, Outcome::kFailed, Outcome::kUnknown}) {
    if (to_text(outcome) == text) {
      return outcome;
    }
  }
  return std::nullopt;
}

std::string_view mark_of(Outcome outcome) { return outcome == Outcome::kFailed ? "FAILED" : to_text(outcome); }

bool any_failed(std::span<const HostCheck> checks) {
  return std::ranges::any_of(checks, [](const HostCheck& check) { return check.outcome == Outcome::kFailed; });
}

}  // namespace

std::string checks_text(std::span<const HostCheck> checks) {
  size_t widest = 0;
  for (const HostCheck& check : checks) {
    widest = std::max(widest, check.check.size());
  }
  std::string text;
  int64_t failed = 0;
  int64_t warnings = 0;
  for (const HostCheck& check : checks) {
    failed += check.outcome == Outcome::kFailed ? 1 : 0;
    warnings += check.outcome == Outcome::kWarning ? 1 : 0;
    const std::string_view space = check.subject.empty() || check.detail.starts_with('=') ? "" : " ";
    text += printable(fmt::format("{:<8} {:<{}} {}{}{}", mark_of(check.outcome), check.check, widest, check.subject,
                                  space, check.detail)) +
            "\n";
    if (!check.remedy.empty()) {
      text += printable(fmt::format("{:<8} {:<{}} -> {}", "", "", widest, check.remedy)) + "\n";
    }
  }
  return text + fmt::format("{} failed, {}.\n", count_of(failed, "check"), count_of(warnings, "warning"));
}

std::string report_text(const HostReport& report) {
  return topology_text(report.topology) + checks_text(report.checks);
}

std::string report_json(const HostReport& report) {
  Json object{{"schema", kSchema},
              {"host", report.host},
              {"failed", report.failed()},
              {"checks", checks_json(report.checks)},
              {"facts", report.facts}};
  if (!report.topology.devices.empty()) {
    object["topology"] = topology_json(report.topology);
  }
  return document_text(object);
}

std::string comparison_json(std::span<const HostReport> hosts, std::span<const HostCheck> found) {
  Json names = Json::array();
  for (const HostReport& host : hosts) {
    names.push_back(host.host);
  }
  return document_text({{"schema", kSchema},
                        {"hosts", std::move(names)},
                        {"failed", any_failed(found)},
                        {"checks", checks_json(found)}});
}

Result<HostReport> parse_report(std::string_view json) {
  const auto refused = [] {
    return fail("is no report of `stalltrace preflight --json`", "give the files that it wrote on each node",
                ErrorKind::kCorrupt);
  };
  const auto not_too_deep = [](int depth, nlohmann::json::parse_event_t /*event*/, nlohmann::json& /*value*/) {
    return depth <= kDeepest;
  };
  const nlohmann::json object = nlohmann::json::parse(json, not_too_deep, false);
  const auto schema = object.find("schema");
  if (!object.is_object() || schema == object.end() || !schema->is_number_integer() || *schema != kSchema ||
      !object.contains("host") || !object["host"].is_string() || !object.contains("facts") ||
      !object["facts"].is_object() || !object.contains("checks") || !object["checks"].is_array() ||
      object["facts"].size() > kMostRows || object["checks"].size() > kMostRows) {
    return refused();
  }
  HostReport report{.host = object["host"].get<std::string>()};
  for (const auto& [fact, value] : object["facts"].items()) {
    if (!value.is_string()) {
      return refused();
    }
    report.facts[fact] = value.get<std::string>();
  }
  for (const nlohmann::json& row : object["checks"]) {
    const auto text = [&](const char* name) -> std::optional<std::string> {
      return row.is_object() && row.contains(name) && row[name].is_string()
                 ? std::optional(row[name].get<std::string>())
                 : std::nullopt;
    };
    const auto outcome = outcome_from_text(text("outcome").value_or(""));
    if (!outcome || !text("check") || !text("subject") || !text("detail") || !text("remedy")) {
      return refused();
    }
    report.add(*text("check"), *text("subject"), *outcome, *text("detail"), *text("remedy"));
  }
  return report;
}

}  // namespace stalltrace::preflight
