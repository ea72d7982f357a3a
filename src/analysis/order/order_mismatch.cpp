// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/order_mismatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analysis/advice.h"
#include "analysis/rank_numbers.h"
#include "analysis/thresholds/order.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

bool differ(int64_t a, int64_t b) { return a >= 0 && b >= 0 && a != b; }
bool differ(const LoggedSignature& a, const LoggedSignature& b) {
  return a.op != b.op || differ(a.count, b.count) || differ(a.datatype, b.datatype) || differ(a.root, b.root);
}

std::string signature_text(const LoggedSignature& signature) {
  std::string text(display_name(signature.op));
  if (signature.count >= 0) {
    text += fmt::format(" of {} elements", signature.count);
  }
  if (signature.datatype >= 0 && !nccl_datatype_name(signature.datatype).empty()) {
    text += fmt::format(" ({})", nccl_datatype_name(signature.datatype));
  }
  if (signature.root >= 0) {
    text += fmt::format(", root {}", signature.root);
  }
  return text;
}

using Voters = std::vector<const CallOrder*>;

struct Vote {
  int64_t number = 0;
  std::vector<std::pair<LoggedSignature, Voters>> sides;  // most ranks first
};

/// The calls of one number, by signature.
Vote vote_on(const OrderMembers& members, int64_t number) {
  Vote vote{.number = number, .sides = {}};
  for (const CallOrder* member : members) {
    const LoggedCall* call = member->call_at(number);
    if (call == nullptr) {
      continue;
    }
    const auto side =
        std::ranges::find_if(vote.sides, [&](const auto& one) { return !differ(one.first, call->signature); });
    if (side == vote.sides.end()) {
      vote.sides.push_back({call->signature, {member}});
    } else {
      side->second.push_back(member);
    }
  }
  std::ranges::stable_sort(vote.sides, std::greater<>(), [](const auto& side) { return side.second.size(); });
  return vote;
}

std::string names_of_voters(const OrderEvidence& evidence, const Voters& members) {
  std::string text;
  for (const CallOrder* member : members) {
    if (text.size() > 200) {
      return text + ", ...";
    }
    text += (text.empty() ? "" : ", ") + evidence.short_name(*member);
  }
  return text;
}

/// "rank 0: AllReduce of 1024 elements; rank 2: AllGather of 64 elements"
std::string sides_text(const OrderEvidence& evidence, const Vote& vote) {
  constexpr size_t kMostSides = 3;
  std::string text;
  for (size_t i = 0; i < std::min(vote.sides.size(), kMostSides); ++i) {
    text += fmt::format("{}{}: {}", i == 0 ? "" : "; ", names_of_voters(evidence, vote.sides[i].second),
                        signature_text(vote.sides[i].first));
  }
  return text + (vote.sides.size() > kMostSides ? "; ..." : "");
}

Finding finding_of(const OrderEvidence& evidence, const CommOrder& comm, const Vote& vote, int64_t agreed) {
  Finding finding{.cause = Cause::kMismatchedCollective, .severity = Severity::kCritical};
  finding.confidence = !comm.named || agreed == 0 ? kOrderAloneConfidence : kLeftConfidence;
  const bool majority = vote.sides[0].second.size() > vote.sides[1].second.size();
  const CallOrder* odd =
      majority && vote.sides.size() == 2 && vote.sides[1].second.size() == 1 ? vote.sides[1].second.front() : nullptr;
  if (odd != nullptr) {
    finding.culprit = evidence.culprit(*odd);
  }
  finding.comm_id_hash = comm.named ? comm.hash : 0;
  finding.op = vote.sides[0].first.op;
  finding.collectives_affected = 1;
  std::vector<std::string> parts;
  int64_t time_ns = 0;
  for (const auto& [signature, voters] : vote.sides) {
    const LoggedCall& call = *voters.front()->call_at(vote.number);
    time_ns = std::max(time_ns, call.time_ns);
    const std::string part = fmt::format("{}: {}", names_of_voters(evidence, voters), signature_text(signature));
    parts.push_back(part);
    if (parts.size() <= 4) {
      finding.evidence.push_back({"collective", std::ssize(voters), part, {call.event}});
    }
  }
  finding.window = {time_ns, time_ns};
  finding.evidence.push_back({"collective", agreed, fmt::format("{} before it agree", count_of(agreed, "call")), {}});
  const std::string number = fmt::format("call 0x{:x} of one communicator", static_cast<uint64_t>(vote.number));
  finding.summary = odd != nullptr
                        ? fmt::format("{} entered another {} than the others: {}, they {}.", evidence.describe(*odd),
                                      number, signature_text(vote.sides[1].first), signature_text(vote.sides[0].first))
                        : fmt::format("Ranks entered different calls as {}: {}; {}.", number, parts[0], parts[1]);
  char& first = finding.summary[0];
  first = static_cast<char>(first >= 'a' && first <= 'z' ? first - 'a' + 'A' : first);
  finding.remedy = kCompareCode;
  return finding;
}

}  // namespace

Mismatched find_mismatch(const OrderEvidence& evidence, const CommOrder& comm, const OrderMembers& members) {
  std::map<int64_t, int> numbers;
  for (const CallOrder* member : members) {
    for (const LoggedCall& call : member->calls) {
      ++numbers[call.number];
    }
  }
  Mismatched result;
  std::optional<Vote> first;
  int64_t agreed = 0;
  int64_t differing = 0;
  for (const auto& [number, count] : numbers) {
    if (count < 2) {
      continue;
    }
    Vote vote = vote_on(members, number);
    if (vote.sides.size() < 2) {
      agreed += first ? 0 : 1;
      continue;
    }
    ++differing;
    if (!first) {
      first = std::move(vote);
    }
  }
  if (!first) {
    return result;
  }
  // Numbers that mean different things make everything differ from the first one on, however many calls there are; so
  // does a difference at the very beginning, which can be distinguished only at the first call of all. PyTorch's own
  // numbers, of dumps, count alike on all ranks.
  if (agreed == 0 && first->number != 0 && (!evidence.ends_known || differing > 1)) {
    result.misaligned = fmt::format("0x{:x}: {}", static_cast<uint64_t>(first->number), sides_text(evidence, *first));
  } else {
    result.finding = finding_of(evidence, comm, *first, agreed);
  }
  return result;
}

}  // namespace stalltrace::analysis
