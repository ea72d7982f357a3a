// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/injection/fault_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "base/similar_name.h"
#include "base/text.h"
#include "lab/cluster/injection/fault_table.h"

namespace stalltrace::lab {
namespace {

std::string parameter_names(const FaultRow& row) {
  const std::string_view location = row.of_job ? "" : row.of_node ? "rank or node, " : "rank, ";
  std::string names = fmt::format("{}start, duration, every", location);
  if (row.pulse.empty()) {
    names += ", for";
  }
  for (const FaultParameter& parameter : row.parameters) {
    names += ", " + std::string(parameter.name);
  }
  return names;
}

Status check_value(const FaultParameter& parameter, std::string_view value) {
  if (!parameter.choices.empty()) {
    if (std::ranges::find(parameter.choices, value) == parameter.choices.end()) {
      return fail(fmt::format("{}={} is not one of {}", parameter.name, value, fmt::join(parameter.choices, ", ")), {},
                  ErrorKind::kUsage);
    }
    return {};
  }
  const std::optional<double> number = parameter_number(value);
  if (!number || *number < parameter.minimum || *number > parameter.maximum) {
    return fail(
        fmt::format("{}={} is not a number from {} to {}", parameter.name, value, parameter.minimum, parameter.maximum),
        {}, ErrorKind::kUsage);
  }
  return {};
}

Status read_rank(std::string_view value, FaultSpec& spec) {
  if (value == "random") {
    return {};
  }
  const auto rank = parse_integer(value);
  if (!rank || *rank < 0 || *rank >= kMaximumRanks) {
    return fail(fmt::format("rank={} is not a rank", value), "write rank=2, or rank=random", ErrorKind::kUsage);
  }
  spec.rank = static_cast<int>(*rank);
  return {};
}

Status read_node(const FaultRow& row, std::string_view value, FaultSpec& spec) {
  const auto node = parse_integer(value);
  if (!row.of_node) {
    return fail(fmt::format("{} acts on a rank, not on a node", row.cause),
                fmt::format("write it like {}", row.example), ErrorKind::kUsage);
  }
  if (!node || *node < 0 || *node >= kMaximumRanks) {
    return fail(fmt::format("node={} is not a node", value), "write node=1", ErrorKind::kUsage);
  }
  spec.node = static_cast<int>(*node);
  return {};
}

constexpr std::string_view kLaunch = "launch";

Status read_time(std::string_view key, std::string_view value, std::optional<int64_t>& into) {
  auto time = parse_duration_ns(value);
  if (!time) {
    return with_context(key, std::move(time.error()));
  }
  into = *time;
  return {};
}

Status read_pair(const FaultRow& row, std::string_view key, std::string_view value, FaultSpec& spec) {
  if (row.of_job && (key == "rank" || key == "node")) {
    return fail(fmt::format("{} acts on all ranks", row.cause), fmt::format("write it like {}", row.example),
                ErrorKind::kUsage);
  }
  if (key == "rank") {
    return read_rank(value, spec);
  }
  if (key == "node") {
    return read_node(row, value, spec);
  }
  if (key == "start" && value == kLaunch) {
    spec.at_launch = row.onset != Onset::kRunning;
    return spec.at_launch ? Status{}
                          : fail(fmt::format("{} cannot begin before the ranks start", row.cause),
                                 "give a start like 2s", ErrorKind::kUsage);
  }
  if (key == "start") {
    return read_time(key, value, spec.start_ns);
  }
  if (key == "duration") {
    return read_time(key, value, spec.duration_ns);
  }
  if (key == "every") {
    return read_time(key, value, spec.every_ns);
  }
  if (key == "for" && row.pulse.empty()) {
    return read_time(key, value, spec.pulse_ns);
  }
  const auto parameter = std::ranges::find(row.parameters, key, &FaultParameter::name);
  if (parameter == row.parameters.end()) {
    return fail(fmt::format("{} takes no '{}'", row.cause, key), "it takes " + parameter_names(row), ErrorKind::kUsage);
  }
  ST_TRY(check_value(*parameter, value));
  spec.values.insert_or_assign(std::string(key), std::string(value));
  return {};
}

std::unexpected<Error> no_such_fault(std::string_view cause, const std::string& context) {
  std::vector<std::string_view> names{"none"};
  for (const FaultRow& row : fault_rows()) {
    names.push_back(row.cause);
  }
  const auto meant = similar_name(cause, names);
  return fail(
      fmt::format("{}: no such fault", context),
      meant ? fmt::format("did you mean '{}'?", *meant) : fmt::format("the faults are {}", fmt::join(names, ", ")),
      ErrorKind::kUsage);
}

Status read_pairs(const FaultRow& row, std::string_view text, FaultSpec& spec) {
  bool rank_given = false;
  for (const std::string_view pair : split(text, ',')) {
    const size_t equals = pair.find('=');
    if (pair.empty() && text.empty()) {
      break;
    }
    if (equals == std::string_view::npos) {
      return fail(fmt::format("'{}' is not key=value", pair), fmt::format("write it like {}", row.example),
                  ErrorKind::kUsage);
    }
    const bool names_location = pair.starts_with("rank=") || pair.starts_with("node=");
    if (names_location && rank_given) {
      return fail("a fault has one location", "leave one of rank and node out", ErrorKind::kUsage);
    }
    rank_given = rank_given || names_location;
    ST_TRY(read_pair(row, pair.substr(0, equals), pair.substr(equals + 1), spec));
  }
  if (row.of_job) {
    spec.rank = 0;
  } else if (!rank_given) {
    return fail(fmt::format("{} needs rank=N", row.cause), fmt::format("write it like {}, or rank=random", row.example),
                ErrorKind::kUsage);
  }
  return {};
}

/// An intermittent fault has a period that is longer than its pulse.
Status check_pulse(const FaultRow& row, const FaultSpec& spec) {
  if (spec.at_launch && (spec.start_ns || spec.duration_ns || spec.every_ns || spec.pulse_ns)) {
    return fail("start=launch lasts to the end of the run", "leave start, duration, for and every out",
                ErrorKind::kUsage);
  }
  if (row.pulse.empty() && spec.every_ns.has_value() != spec.pulse_ns.has_value()) {
    return fail("every and for belong together", fmt::format("write it like {},for=500ms,every=2s", row.example),
                ErrorKind::kUsage);
  }
  const std::optional<int64_t> pulse_ns = pulse_of(row, spec);
  if (spec.every_ns && pulse_ns && *spec.every_ns <= *pulse_ns) {
    return fail(fmt::format("every={} is not longer than the {} it lasts", format_duration(*spec.every_ns),
                            format_duration(*pulse_ns)),
                "leave time between two pulses", ErrorKind::kUsage);
  }
  return {};
}

}  // namespace

std::optional<int64_t> pulse_of(const FaultRow& row, const FaultSpec& spec) {
  if (row.pulse.empty()) {
    return spec.pulse_ns;
  }
  return static_cast<int64_t>(spec.number(row.pulse) * static_cast<double>(kNsPerMs));
}

Result<FaultSpec> parse_fault(std::string_view text) {
  const std::string context = fmt::format("fault '{}'", text);
  FaultSpec spec;
  spec.text = text;
  const size_t colon = text.find(':');
  spec.cause = text.substr(0, colon);
  if (text == "none") {
    return spec;
  }
  const FaultRow* row = find_fault_row(spec.cause);
  if (row == nullptr) {
    return no_such_fault(spec.cause, context);
  }
  for (const FaultParameter& parameter : row->parameters) {
    if (!parameter.standard.empty()) {
      spec.values.emplace(parameter.name, parameter.standard);
    }
  }
  auto status = read_pairs(*row, colon == std::string_view::npos ? "" : text.substr(colon + 1), spec);
  if (status) {
    status = check_pulse(*row, spec);
  }
  if (!status) {
    return with_context(context, std::move(status.error()));
  }
  return spec;
}

std::string fault_help() {
  std::string help = "none\n    no fault: a healthy run\n";
  for (const FaultRow& row : fault_rows()) {
    help += fmt::format("{}\n    {}\n    e.g. {}\n", row.cause, row.summary, row.example);
    for (const FaultParameter& parameter : row.parameters) {
      const std::string limits = parameter.choices.empty()
                                     ? fmt::format("{} to {}", parameter.minimum, parameter.maximum)
                                     : fmt::format("{}", fmt::join(parameter.choices, "|"));
      help += fmt::format("    {}={}  {} ({})\n", parameter.name, parameter.standard, parameter.help, limits);
    }
  }
  return help +
         "every fault takes rank=N or rank=random (those of the network, which act on the interface of the rank's "
         "node, "
         "also node=N; slow_input, which acts on all, no location), start=DURATION after the first step or, of network "
         "faults, "
         "start=launch (default: a third into the "
         "run), "
         "duration=DURATION, and for=DURATION,every=DURATION to come and go (process_stopped: every alone)\n";
}

}  // namespace stalltrace::lab
