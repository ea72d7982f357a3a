// SPDX-License-Identifier: Apache-2.0
#include "lab/simulation/shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "base/similar_name.h"
#include "base/text.h"

namespace stalltrace::simulation {
namespace {

/// As many stages as nodes, up to four, of which the number of nodes is a multiple.
int stages_of(const JobOptions& options) {
  const int ranks = options.ranks() / options.tensor;
  return ranks % 4 == 0 && ranks > 4 ? 4 : ranks % 2 == 0 ? 2 : 1;
}

void make_mesh(JobOptions& options, int stages, int micro_batches) {
  options.program = Program::kMesh;
  options.stages = stages;
  options.micro_batches = micro_batches;
  options.units = 8;
}

void evaluate(JobOptions& options, Pause::By by) {
  options.pauses.push_back({.by = by, .every = std::max(2, options.steps / 3), .seconds = 4});
}

constexpr std::array kShapes{
    Shape{"ddp", "gradients are reduced bucket by bucket during the backward pass", [](JobOptions&) {}},
    Shape{"fsdp", "parameters are gathered a unit ahead, gradients scattered",
          [](JobOptions& options) {
            options.program = Program::kShards;
            options.units = 16;
          }},
    Shape{"tp-pp-dp", "tensor groups within a node, two pipeline stages, data groups (--parallel for others)",
          [](JobOptions& options) {
            options.tensor = options.ranks_per_node;
            make_mesh(options, options.nodes % 2 == 0 ? 2 : 1, 8);
          }},
    Shape{"moe", "experts on the ranks of a node exchange uneven work",
          [](JobOptions& options) {
            options.tensor = options.ranks_per_node;
            options.experts = true;
            make_mesh(options, 1, 1);
          }},
    Shape{"pipeline", "two or four stages, which wait for each other by design",
          [](JobOptions& options) { make_mesh(options, stages_of(options), 4); }},
    Shape{"accumulation", "ddp that reduces after eight micro batches",
          [](JobOptions& options) {
            options.micro_batches = 8;
            options.uneven = 0.08;
          }},
    Shape{"evaluation-first", "ddp; rank 0 evaluates now and then, the others wait",
          [](JobOptions& options) { evaluate(options, Pause::By::kFirst); }},
    Shape{"evaluation-last", "the same by the last rank",
          [](JobOptions& options) { evaluate(options, Pause::By::kLast); }},
    Shape{"evaluation-group", "the same by the ranks of a group",
          [](JobOptions& options) { evaluate(options, Pause::By::kGroup); }},
    Shape{"compile", "ddp; some ranks compile for seconds, once",
          [](JobOptions& options) { options.pauses.push_back({.by = Pause::By::kSome, .every = 0, .seconds = 12}); }},
    Shape{"restart", "ddp; the launcher ends all ranks and starts them again",
          [](JobOptions& options) { options.restart_at = std::max(2, options.steps / 2); }},
};

enum class Key : uint8_t { kRank, kNode, kMs, kEvery, kFrom, kTo, kFactor, kPerStep, kHow };
struct KeyText {
  Key key;
  std::string_view text;
};
constexpr std::array kKeys{
    KeyText{Key::kRank, "rank"},     KeyText{Key::kNode, "node"},        KeyText{Key::kMs, "ms"},
    KeyText{Key::kEvery, "every"},   KeyText{Key::kFrom, "from"},        KeyText{Key::kTo, "to"},
    KeyText{Key::kFactor, "factor"}, KeyText{Key::kPerStep, "per_step"}, KeyText{Key::kHow, "how"}};

struct FaultRow {
  FaultKind kind;
  std::string_view cause;
  std::vector<Key> keys;  // besides from and to
  std::string_view summary;
};

const std::vector<FaultRow>& rows() {
  static const std::vector<FaultRow> kRows{
      {FaultKind::kLateRank,
       "late_rank",
       {Key::kRank, Key::kMs, Key::kEvery, Key::kHow},
       "the CPU of a rank begins each step (or the last of `every`) this much later; how=computing or how=blocked"},
      {FaultKind::kSlowDevice,
       "slow_device",
       {Key::kRank, Key::kMs, Key::kEvery},
       "the device of a rank computes this much longer in each step"},
      {FaultKind::kDeadRank, "dead_rank", {Key::kRank}, "a rank is killed in the step `from`"},
      {FaultKind::kProcessStopped,
       "process_stopped",
       {Key::kRank, Key::kMs},
       "a rank is stopped in the step `from`; ms=0: for ever"},
      {FaultKind::kMissingCollective,
       "missing_collective",
       {Key::kRank, Key::kHow},
       "a rank does not go on in the step `from`; how=computing or how=blocked; how=order: it calls two "
       "communicators in the other order (tp-pp-dp)"},
      {FaultKind::kMismatchedCollective,
       "mismatched_collective",
       {Key::kRank},
       "a rank's first collective of the step `from` has half the count"},
      {FaultKind::kSlowLink,
       "slow_link",
       {Key::kNode, Key::kFactor},
       "what leaves a node takes `factor` times as long"},
      {FaultKind::kPacketLoss,
       "packet_loss",
       {Key::kNode, Key::kPerStep},
       "packets that leave a node are lost `per_step` times a step"},
      {FaultKind::kFabricErrors,
       "fabric_errors",
       {Key::kNode, Key::kFactor},
       "the InfiniBand port of a node counts errors, and what leaves it takes `factor` times as long"},
      {FaultKind::kCongestion,
       "congestion",
       {Key::kFactor},
       "all that passes between nodes takes some `factor` times as long, and their ports wait for credit"},
  };
  return kRows;
}

std::string key_list(const FaultRow& row) {
  std::string list;
  for (const KeyText& key : kKeys) {
    const bool always = key.key == Key::kFrom || key.key == Key::kTo;
    if (always || std::ranges::find(row.keys, key.key) != row.keys.end()) {
      list += (list.empty() ? "" : ", ") + std::string(key.text);
    }
  }
  return list;
}

std::unexpected<Error> refuse(std::string what, std::string remedy) {
  return fail(std::move(what), std::move(remedy), ErrorKind::kUsage);
}

/// The row whose name `typed` probably meant; without one, where they are listed.
template <typename Rows, typename Row>
std::string meant_or_list(std::string_view typed, const Rows& rows, std::string_view Row::*name) {
  std::vector<std::string_view> names;
  for (const Row& row : rows) {
    names.push_back(row.*name);
  }
  const auto meant = similar_name(typed, names);
  return meant ? fmt::format("did you mean '{}'?", *meant) : "`stalltrace lab simulate --help` lists them";
}

std::optional<double> number_of(std::string_view text) {
  double number = 0;
  const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  return code == std::errc{} && rest == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// Where the number is within its limits.
bool assign(Key key, double value, const JobOptions& options, Fault& fault) {
  const bool whole = value == static_cast<double>(static_cast<int64_t>(value));
  const auto number = static_cast<int>(std::clamp(value, -1.0, 1e9));
  switch (key) {
    case Key::kRank:
      fault.rank = number;
      return whole && number >= 0 && number < options.ranks();
    case Key::kNode:
      fault.rank = std::clamp(number, 0, options.nodes - 1) * options.ranks_per_node;
      return whole && number >= 0 && number < options.nodes;
    case Key::kMs:
      fault.ms = value;
      return value >= 0 && value <= 1e7;
    case Key::kEvery:
      fault.every = number;
      return whole && number >= 1;
    case Key::kFrom:
      fault.from = number;
      return whole && number >= 0;
    case Key::kTo:
      fault.to = number;
      return whole && number >= 0;
    case Key::kFactor:
      fault.factor = value;
      return value >= 1 && value <= 1e4;
    case Key::kPerStep:
      fault.per_step = value;
      return value >= 0 && value <= 1e3;
    case Key::kHow:
      return false;
  }
  return false;
}

}  // namespace

std::span<const Shape> shapes() { return kShapes; }

Status apply_shape(std::string_view name, JobOptions& options) {
  const auto shape = std::ranges::find(kShapes, name, &Shape::name);
  if (shape == kShapes.end()) {
    return refuse(fmt::format("shape '{}': no such shape", name), meant_or_list(name, kShapes, &Shape::name));
  }
  if (options.ranks() < 2) {
    return refuse("a job has two ranks or more", "give --nodes or --ranks-per-node");
  }
  options.shape = shape->name;
  shape->apply(options);
  return {};
}

Status apply_parallel(std::string_view text, JobOptions& options) {
  int sizes[] = {1, 1, 1};
  constexpr std::array<std::string_view, 3> kNames{"tp", "pp", "dp"};
  for (const std::string_view part : split(text, ',')) {
    const size_t equals = std::min(part.find('='), part.size());
    const auto name = std::ranges::find(kNames, part.substr(0, equals));
    const auto value = parse_integer(part.substr(std::min(equals + 1, part.size())));
    if (name == kNames.end() || !value || *value < 1 || *value > 100'000) {
      return refuse(fmt::format("--parallel {}: '{}' is not a size", text, part), "write tp=2,pp=2,dp=4");
    }
    sizes[name - kNames.begin()] = static_cast<int>(*value);
  }
  const int64_t ranks = int64_t{sizes[0]} * sizes[1] * sizes[2];
  if (ranks != options.ranks()) {
    return refuse(fmt::format("--parallel {} needs {} ranks, and {} nodes of {} have {}", text, ranks, options.nodes,
                              options.ranks_per_node, options.ranks()),
                  "change --parallel, --nodes or --ranks-per-node");
  }
  options.program = Program::kMesh;
  options.tensor = sizes[0];
  options.stages = sizes[1];
  options.units = std::max(8, options.stages);
  options.micro_batches = std::max(options.micro_batches, 2 * options.stages);
  return {};
}

Result<Fault> parse_fault(std::string_view text, const JobOptions& options) {
  const size_t colon = std::min(text.find(':'), text.size());
  const auto row = std::ranges::find(rows(), text.substr(0, colon), &FaultRow::cause);
  if (row == rows().end()) {
    return refuse(fmt::format("fault '{}': no such fault", text),
                  meant_or_list(text.substr(0, colon), rows(), &FaultRow::cause));
  }
  Fault fault{.kind = row->kind, .text = std::string(text), .from = options.steps / 3};
  fault.ms = row->kind == FaultKind::kProcessStopped ? 0 : fault.ms;
  const std::string_view rest = text.substr(std::min(colon + 1, text.size()));
  for (const std::string_view part : rest.empty() ? std::vector<std::string_view>() : split(rest, ',')) {
    const size_t equals = std::min(part.find('='), part.size());
    const std::string_view value = part.substr(std::min(equals + 1, part.size()));
    const auto key = std::ranges::find(kKeys, part.substr(0, equals), &KeyText::text);
    const bool known = key != kKeys.end() && (key->key == Key::kFrom || key->key == Key::kTo ||
                                              std::ranges::find(row->keys, key->key) != row->keys.end());
    if (!known) {
      return refuse(fmt::format("fault '{}': '{}' is no key of {}", text, part, row->cause),
                    "it has " + key_list(*row));
    }
    const std::optional<double> number = number_of(value);
    const bool order = value == "order" && row->kind == FaultKind::kMissingCollective;
    const bool how = key->key == Key::kHow && (value == "computing" || value == "blocked" || order);
    fault.computes = how ? value != "blocked" : fault.computes;
    fault.crosses = how ? order : fault.crosses;
    if (!how && (!number || !assign(key->key, *number, options, fault))) {
      return refuse(fmt::format("fault '{}': {} is out of its range", text, part), "it has " + key_list(*row));
    }
  }
  if (fault.crosses && !has_crossing_groups(options)) {
    return refuse(fmt::format("fault '{}': no rank calls two communicators one after the other", text),
                  "give --parallel with tp=2 or more");
  }
  return fault;
}

bool has_crossing_groups(const JobOptions& options) {
  return options.program == Program::kMesh && options.tensor > 1 && options.ranks() > options.tensor;
}

bool is_of_fabric(FaultKind kind) { return kind == FaultKind::kFabricErrors || kind == FaultKind::kCongestion; }

std::string_view cause_of(FaultKind kind) { return std::ranges::find(rows(), kind, &FaultRow::kind)->cause; }

bool is_of_node(FaultKind kind) {
  return kind == FaultKind::kSlowLink || kind == FaultKind::kPacketLoss || kind == FaultKind::kFabricErrors;
}

bool is_in_each_step(const Fault& fault) {
  const bool of_rank = fault.kind == FaultKind::kLateRank || fault.kind == FaultKind::kSlowDevice;
  return (of_rank && fault.every == 1) || fault.kind == FaultKind::kSlowLink || is_of_fabric(fault.kind);
}

std::string shape_help() {
  std::string help;
  for (const Shape& shape : kShapes) {
    help += fmt::format("  {:<17} {}\n", shape.name, shape.summary);
  }
  return help;
}

std::string fault_help() {
  std::string help;
  for (const FaultRow& row : rows()) {
    help += fmt::format("  {}: {}\n      {}\n", row.cause, key_list(row), row.summary);
  }
  return help;
}

}  // namespace stalltrace::simulation
