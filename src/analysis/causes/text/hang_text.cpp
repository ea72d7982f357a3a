// SPDX-License-Identifier: Apache-2.0
// Text helpers for hangs: which call, which ranks wait in it, and for which ranks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analysis/causes/cause.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kMostNames = 8;

std::string where_text(const AnalysisContext& context, uint32_t group, int64_t number) {
  const CommHash hash = context.timeline.groups()[group].hash;
  return hash == 0 ? "on a communicator made before tracing"
                   : fmt::format("number {} on communicator {}", number, format_hash(hash));
}

/// "AllReduce", "Send"
std::string operation_text(const AnalysisContext& context, const HangStep& call) {
  const CallSequence& sequence = context.timeline.sequences()[call.sequence];
  if (sequence.point_to_point) {
    return sequence.receives ? "Recv" : "Send";
  }
  return std::string(display_name(context.timeline.signature(sequence.call_at(call.number)->signature).op));
}

}  // namespace

namespace {

std::string signature_text_with(const CallSignature& signature, const std::string& size) {
  std::string text = fmt::format("{} of {}", display_name(signature.op), size);
  if (signature.datatype != CallSignature::kNoArgument) {
    text += fmt::format(" {}", nccl_datatype_name(signature.datatype));
  }
  if (signature.reduce_op != CallSignature::kNoArgument) {
    text += fmt::format(" {}", nccl_reduce_op_name(signature.reduce_op));
  }
  return signature.root == CallSignature::kNoArgument ? text : fmt::format("{} root {}", text, signature.root);
}

}  // namespace

std::pair<std::string, std::string> differing_signature_texts(const AnalysisContext& context,
                                                              const SignatureVote& vote) {
  const bool same_size = context.timeline.signature(vote.usual).sized_as(context.timeline.signature(vote.odd));
  const auto size = [&](int64_t bytes) { return same_size ? format_size(bytes) : fmt::format("{} bytes", bytes); };
  const auto text = [&](uint16_t index) {
    const CallSignature& signature = context.timeline.signature(index);
    const std::optional<int64_t> payload = context.timeline.payload(vote.group, index);
    return signature_text_with(signature, payload ? size(*payload)
                                          : signature.bytes == CallSignature::kUnknownBytes
                                              ? "unknown size"
                                              : size(signature.bytes) + " a rank");
  };
  return {text(vote.usual), text(vote.odd)};
}

std::string names_of(const AnalysisContext& context, const std::vector<MemberIndex>& members) {
  std::vector<std::string> names;
  for (size_t i = 0; i < members.size() && i < kMostNames; ++i) {
    names.push_back(members.size() == 1 ? context.cluster.describe(members[i])
                                        : short_name(context.cluster, members[i]));
  }
  return fmt::format("{}{}", fmt::join(names, ", "), members.size() > kMostNames ? ", ..." : "");
}

std::string call_text(const AnalysisContext& context, const Stall& stall) {
  if (stall.single_node) {  // the calls of the other ranks are unknown
    return fmt::format("a collective {}", where_text(context, stall.group, stall.number));
  }
  return fmt::format("{} {}", display_name(context.timeline.signature(stall.signature).op),
                     where_text(context, stall.group, stall.number));
}

std::string call_text(const AnalysisContext& context, const HangStep& call) {
  const CallSequence& sequence = context.timeline.sequences()[call.sequence];
  return fmt::format("{} {}", operation_text(context, call), where_text(context, sequence.group, call.number));
}

std::string short_call_text(const AnalysisContext& context, const HangStep& call) {
  const uint32_t group = context.timeline.sequences()[call.sequence].group;
  return context.timeline.groups()[group].hash == 0
             ? operation_text(context, call)
             : fmt::format("{} number {}", operation_text(context, call), call.number);
}

std::string step_text(const AnalysisContext& context, const HangStep& step) {
  const CallSequence& sequence = context.timeline.sequences()[step.sequence];
  const Group& group = context.timeline.groups()[sequence.group];
  std::vector<MemberIndex> missing;
  for (const uint32_t index : group.sequences) {
    const CallSequence& other = context.timeline.sequences()[index];
    if (other.call_at(step.number) == nullptr) {
      missing.push_back(other.member);
    }
  }
  const Call* call = sequence.call_at(step.number);
  const bool launched = sequence.ends_unseen() && call != nullptr && call->launched;
  return fmt::format("{} {} {}{}", context.cluster.describe(step.member), launched ? "first launched" : "is inside",
                     call_text(context, step),
                     missing.empty() ? std::string() : ", waiting for " + names_of(context, missing));
}

Evidence waiting_evidence(const AnalysisContext& context, const Stall& stall) {
  std::vector<MemberIndex> inside;
  std::vector<MemberIndex> absent;
  for (const uint32_t index : context.timeline.groups()[stall.group].sequences) {
    const CallSequence& sequence = context.timeline.sequences()[index];
    if (sequence.call_at(stall.number) != nullptr) {
      inside.push_back(sequence.member);
    } else if (!sequence.continued) {
      absent.push_back(sequence.member);
    }
  }
  const auto by_rank = [&](MemberIndex a, MemberIndex b) {
    return context.cluster.member(a).rank.value_or(-1) < context.cluster.member(b).rank.value_or(-1);
  };
  std::sort(inside.begin(), inside.end(), by_rank);
  std::sort(absent.begin(), absent.end(), by_rank);
  if (inside.empty()) {
    return {"collective", 0, fmt::format("not in {}: {}", call_text(context, stall), names_of(context, absent)), {}};
  }
  return {"collective",
          static_cast<int64_t>(inside.size()),
          fmt::format("in {}: {}{}", call_text(context, stall), names_of(context, inside),
                      absent.empty() ? std::string() : "; not in it: " + names_of(context, absent)),
          {}};
}

}  // namespace stalltrace::analysis
