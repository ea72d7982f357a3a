// SPDX-License-Identifier: Apache-2.0
// A missing collective: one rank's workload skips a step's collectives while alive, like a training script whose input
// is exhausted or whose branch depends on the rank. Or ranks make calls in orders that don't match.
#include <fmt/format.h>

#include <array>
#include <string>

#include "lab/cluster/faults/faults.h"

namespace stalltrace::lab {
namespace {

constexpr std::array<std::string_view, 6> kDoing = {"input", "compute", "recv", "stage", "send", "order"};
constexpr std::array kParameters = {
    FaultParameter{
        "doing", "input", 0, 0, kDoing,
        "instead: wait for input, compute, receive what no rank sends; stage: away from its stage of a "
        "pipeline, with `-- --stages 1`; send: it and its neighbour both send first, with `-- --exchange 1`; "
        "order: two communicators in the other order, with `-- --mix 1`"},
};

/// Pairs of ranks (0 and 1, 2 and 3, ...) exchange data; both send first.
Result<AppliedFault> both_send(const FaultSpec& spec, const FaultContext& context) {
  const auto neighbour = static_cast<size_t>(context.rank ^ 1);
  if (neighbour >= context.nodes.size()) {
    return fail(fmt::format("fault '{}': rank {} has no neighbour to exchange with", spec.text, context.rank),
                "name another rank", ErrorKind::kUsage);
  }
  ST_ASSIGN(AppliedFault applied, apply_bug(context.node(), "exchange", "send"));
  auto other = apply_bug(context.nodes[neighbour], "exchange", "send");
  if (!other) {
    (void)undo_all(applied.undo);
    return other;
  }
  applied.commands.insert(applied.commands.end(), other->commands.begin(), other->commands.end());
  applied.undo.insert(applied.undo.end(), other->undo.begin(), other->undo.end());
  applied.details = {{"neighbour", std::to_string(neighbour)}};
  return applied;
}

Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) {
  const std::string_view doing = spec.choice("doing");
  if (doing == "send") {
    return both_send(spec, context);
  }
  if (doing == "order") {
    return apply_bug(context.node(), "order", "swapped");
  }
  return doing == "stage" ? apply_bug(context.node(), "stage", "input") : apply_bug(context.node(), "skip", doing);
}

}  // namespace

FaultRow missing_collective_row() {
  return {"missing_collective",
          "a rank stays away from the others' collectives, alive",
          "missing_collective:rank=0,doing=input",
          kParameters,
          "",
          apply};
}

}  // namespace stalltrace::lab
