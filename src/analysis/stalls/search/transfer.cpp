// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/search/transfer.h"

#include <algorithm>
#include <utility>

#include "analysis/thresholds/hangs.h"
#include "analysis/thresholds/stalls.h"

namespace stalltrace::analysis {
namespace {

/// True if all ranks are inside and it has not ended.
bool hangs(const SearchState& search, const Instance& instance) {
  return instance.absent.empty() && (outlasts_hang_limit(search, instance) || broke_off(search, instance));
}

/// The last time at which a rank was observed inside, even if others ended it.
int64_t open_to_ns(const SearchState& search, const Instance& instance) {
  int64_t to_ns = instance.last_arrival_ns;
  for (const Arrival& seen : instance.seen) {
    if (seen.open) {
      const int64_t observed_ns = search.timeline.sequences()[seen.sequence].observed_to_ns();
      to_ns = std::max(to_ns, std::min(observed_ns, search.timeline.span().to_ns));
    }
  }
  return to_ns;
}

Verdict verdict_on(const SearchState& search, const Instance& instance) {
  Verdict verdict{.part = StallPart::kTransfer};
  const bool ended = instance.completed();
  verdict.window = {instance.last_arrival_ns, ended ? instance.completion_ns : open_to_ns(search, instance)};
  verdict.value_ns = verdict.window.length();
  verdict.limit_ns = ended ? transfer_limit_ns(search, instance) : kHangNs;
  return verdict;
}

/// Why an instance that has not ended is no hang of its own.
VerdictReason reason_open(const SearchState& search, const Instance& instance) {
  if (instance.hung) {
    return short_of_hang(search, instance);
  }
  const bool open = std::any_of(instance.seen.begin(), instance.seen.end(), [](const Arrival& a) { return a.open; });
  return open ? VerdictReason::kOthersWentOn : VerdictReason::kEndUnknown;
}

/// The origin of a hang. `vote` is set if ranks entered different calls. `elsewhere` is set if this instance is only
/// held up by an older call that hangs as well: then `hang.root` leads to that call.
struct Blame {
  Hang hang;
  std::optional<SignatureVote> vote;
  bool elsewhere = false;
  bool by_stopped = false;  // it waits for a rank that has stopped in the middle of its step, and lacks a later call
};

Blame blame_hang(SearchState& search, const Instance& instance, Interval window) {
  Blame blame;
  blame.vote = search.mismatches.hanging_in(instance.group);
  if (blame.vote) {
    blame.hang.root = {HangKind::kMismatch, blame.vote->odd_one(), {}};
    return blame;
  }
  const MemberIndex dead = search.graph.dead_in(instance.group, window);
  if (dead != kNoMember) {
    blame.hang.root = {HangKind::kDead, dead, {}};
    blame.vote = search.mismatches.blame_end(instance, blame.hang.root);
    return blame;
  }
  blame.hang.root = search.graph.order_cycle(instance);
  if (blame.hang.root.kind == HangKind::kCycle) {
    return blame;
  }
  blame.hang.root = search.graph.behind(instance, window);
  blame.elsewhere = blame.hang.root.kind == HangKind::kTransfer;
  blame.hang.root.kind = std::max(blame.hang.root.kind, HangKind::kTransfer);
  blame.vote = search.mismatches.hanging_at(blame.hang.root);
  blame.by_stopped = blame.hang.root.kind == HangKind::kTransfer && !blame.vote &&
                     search.graph.stopped_in_step(instance.group, window).kind == HangKind::kOutside;
  return blame;
}

/// Of a batch's last instance: it cost no more than its step took longer, without the time in which its ranks waited
/// for a late one. What made it slow may have happened since the batch began. kTooLong where it did cost that.
VerdictReason bound_by_step(const SearchState& search, const Instance& instance, Stall& stall) {
  const std::optional<StepLoss> loss = search.baselines.step_loss(search.timeline, instance);
  if (!loss) {
    return VerdictReason::kStepUnknown;
  }
  const Interval step{instance.completion_ns - loss->step.period_ns, instance.completion_ns};
  const int64_t lost_ns = loss->lost_ns - waited_in(search, stall, step).total_ns();
  const int64_t floor_ns = loss->few ? kNoStepBaselineFloorNs : kStallFloorNs;
  if (loss->lost_ns > 0 && lost_ns <= floor_ns) {
    return VerdictReason::kWaitedForLateRank;
  }
  stall.lost_ns = std::min(stall.lost_ns, lost_ns);
  if (stall.lost_ns <= floor_ns) {
    return loss->few ? VerdictReason::kStepUnknown : VerdictReason::kStepAsUsual;
  }
  stall.window.from_ns = std::min(stall.window.from_ns, loss->step.begin_ns);
  stall.step = BatchLoss{loss->step.calls, loss->step.period_ns, loss->usual_ns};
  stall.by_reference = loss->by_reference;
  return VerdictReason::kTooLong;
}

/// True if the open instance is not judged: what holds it up is. Adds that to the list of those to judge.
bool is_held_up_elsewhere(SearchState& search, const Blame& blame) {
  if (blame.by_stopped || !blame.elsewhere) {
    return blame.by_stopped;
  }
  const HangStep& step = blame.hang.root.path.back();
  search.transfers.push_back({search.timeline.sequences()[step.sequence].group, step.number});
  return true;
}

bool hang_ended_job(const SearchState& search, const Instance& instance, const HangRoot& root, Interval window) {
  return (!outlasts_hang_limit(search, instance) && ends_jobs(root.kind)) || ended_job(search, root, window);
}

/// True if nothing shows that what the hang waits for is not on its way: the transfer itself, or launches in an order
/// that a full queue may explain. Of processes that have ended nothing comes any more.
bool may_still_end(const SearchState& search, const Instance& instance, const Blame& blame) {
  const auto sequence_of = [&](const Arrival& seen) -> const CallSequence& {
    return search.timeline.sequences()[seen.sequence];
  };
  const bool alive = std::ranges::any_of(
      instance.seen, [&](const Arrival& seen) { return !search.cluster.member(sequence_of(seen).member).exit_ns; });
  const bool by_launches =
      blame.hang.root.kind == HangKind::kCycle &&
      std::ranges::any_of(instance.seen, [&](const Arrival& seen) { return sequence_of(seen).held_in_newest; });
  return alive && !blame.vote && (blame.hang.root.kind == HangKind::kTransfer || by_launches);
}

/// Why what would be a hang, and did not end the job, has not lasted for long enough; none: it has. The verdict gets
/// the limit that it was compared with.
std::optional<VerdictReason> why_no_hang(const SearchState& search, const Instance& instance, const Blame& blame,
                                         Verdict& verdict) {
  if (!outlasts_hang_limit(search, instance)) {
    return short_of_hang(search, instance);
  }
  const int64_t patience_ns = kHangNs + kLongestCallsToHang * search.baselines.longest_queue_ns(instance.group);
  if (verdict.value_ns >= patience_ns || !may_still_end(search, instance, blame)) {
    return std::nullopt;
  }
  verdict.limit_ns = patience_ns;
  return VerdictReason::kMayStillCome;
}

/// The transfer as a stall, without its kind. If one synchronisation completes a batch, waiting for a late rank looks
/// like a long transfer: the time in which its ranks waited for one does not count.
Stall begin_transfer(const SearchState& search, const Instance& instance, const Verdict& verdict) {
  const Baseline& baseline = search.baselines.transfer(search.timeline, instance);
  Stall stall = begin_stall(search, instance, verdict);
  if (instance.completed()) {
    stall.window.from_ns = stall.window.to_ns - certain_transfer_ns(search, instance);
  }
  const int64_t own_ns = stall.window.length() - waited_in(search, stall, stall.window).total_ns();
  stall.usual_ns = baseline.known ? std::optional(baseline.usual_ns) : std::nullopt;
  stall.lost_ns = own_ns - baseline.usual_ns;
  stall.suspects = stall.members;
  return stall;
}

/// Why the transfer's own time is no stall; none: it is. The verdict gets that time and its limit.
std::optional<VerdictReason> why_no_cost(const SearchState& search, const Instance& instance, const Stall& stall,
                                         Verdict& verdict) {
  const Baseline& baseline = search.baselines.transfer(search.timeline, instance);
  const int64_t own_ns = stall.lost_ns + baseline.usual_ns;
  if (own_ns > baseline.limit_ns) {
    return std::nullopt;
  }
  verdict.value_ns = own_ns;
  verdict.limit_ns = baseline.limit_ns;
  return stall.window.length() > baseline.limit_ns ? VerdictReason::kWaitedForLateRank : VerdictReason::kBelowLimit;
}

/// `hang`: it is one, or the end of the job, and not a call that other ranks have left.
void set_open_kind(const SearchState& search, const Instance& instance, bool hang, Blame blame, Stall& stall) {
  stall.verdict.reason = blame.hang.ended_job ? VerdictReason::kEndedJob : VerdictReason::kHang;
  stall.verdict.limit_ns = hang ? kHangNs : search.baselines.transfer(search.timeline, instance).limit_ns;
  if (blame.vote) {
    stall.kind = Mismatch{.vote = std::move(*blame.vote), .hang = std::move(blame.hang)};
  } else {
    stall.kind = SlowTransfer{std::move(blame.hang)};
  }
}

void set_wrong_data(const SignatureMismatches::Ended& wrong, Stall& stall) {
  stall.verdict.reason = VerdictReason::kWrongData;
  Mismatch mismatch{.vote = wrong.vote, .wrong_data = wrong.instances};
  mismatch.hang.root = {HangKind::kMismatch, wrong.vote.odd_one(), {}};
  stall.kind = std::move(mismatch);
}

}  // namespace

int64_t transfer_limit_ns(const SearchState& search, const Instance& instance) {
  return std::max(search.baselines.transfer(search.timeline, instance).limit_ns, warm_up_floor_ns(search, instance));
}

bool may_be_long_transfer(SearchState& search, const Instance& instance) {
  if (!instance.completed()) {
    const bool hang = hangs(search, instance);
    if (!hang && instance.absent.empty()) {  // otherwise the verdict is about the absent ranks
      Verdict verdict = verdict_on(search, instance);
      verdict.reason = reason_open(search, instance);
      decline(search, instance, verdict);
    }
    return hang;
  }
  const int64_t limit_ns = search.baselines.transfer(search.timeline, instance).limit_ns;
  const bool too_long = instance.transfer_ns() > limit_ns && certain_transfer_ns(search, instance) > limit_ns;
  if (instance.batch == BatchPart::kInside) {
    Verdict verdict{.part = StallPart::kTransfer, .reason = VerdictReason::kInBatch};
    verdict.value_ns = instance.transfer_ns();
    verdict.limit_ns = limit_ns;
    verdict.window = {instance.last_arrival_ns, instance.completion_ns};
    decline(search, instance, verdict);
    return false;
  }
  if (too_long && instance.transfer_ns() >= warm_up_floor_ns(search, instance)) {
    return true;
  }
  Verdict verdict{.part = StallPart::kTransfer, .value_ns = instance.transfer_ns(), .limit_ns = limit_ns};
  verdict.reason = too_long ? VerdictReason::kWarmingUp : VerdictReason::kBelowLimit;
  verdict.window = {instance.last_arrival_ns, instance.completion_ns};
  verdict.limit_ns = too_long ? transfer_limit_ns(search, instance) : limit_ns;
  decline(search, instance, verdict);
  return false;
}

void judge_transfer(SearchState& search, const Instance& instance) {
  const bool hang = hangs(search, instance);
  const bool open = !instance.completed();  // also if other ranks ended it, went on, and wait for the rank inside
  Verdict verdict = verdict_on(search, instance);
  const auto declined = [&](VerdictReason reason) {
    verdict.reason = reason;
    decline(search, instance, verdict);
  };
  Blame blame;
  if (open) {
    blame = blame_hang(search, instance, verdict.window);
    if (is_held_up_elsewhere(search, blame)) {
      return declined(VerdictReason::kHeldUpElsewhere);
    }
  }
  blame.hang.ended_job = hang && hang_ended_job(search, instance, blame.hang.root, verdict.window);
  if (hang && !blame.hang.ended_job) {
    if (const std::optional<VerdictReason> reason = why_no_hang(search, instance, blame, verdict)) {
      return declined(*reason);
    }
  }
  Stall stall = begin_transfer(search, instance, verdict);
  const SignatureMismatches::Ended* wrong = search.mismatches.ended_in(instance);
  // A hang by its age but not by its cost counts as the job's end, so that it is reported as one of the two.
  const HangKind kind = blame.hang.root.kind;
  const bool costs_little = hang && stall.lost_ns < kHangNs;
  blame.hang.ended_job |= costs_little && kind != HangKind::kTransfer && ends_jobs(kind);
  if (!blame.hang.ended_job && wrong == nullptr) {
    if (const std::optional<VerdictReason> reason = why_no_cost(search, instance, stall, verdict)) {
      return declined(*reason);
    }
  }
  if (instance.batch == BatchPart::kLast && !open && wrong == nullptr) {
    if (const VerdictReason reason = bound_by_step(search, instance, stall); reason != VerdictReason::kTooLong) {
      verdict.limit_ns = reason == VerdictReason::kStepUnknown ? kNoStepBaselineFloorNs : verdict.limit_ns;
      return declined(reason);
    }
  }
  if (wrong != nullptr) {
    set_wrong_data(*wrong, stall);
  } else if (open) {
    set_open_kind(search, instance, hang, std::move(blame), stall);
  } else {
    stall.verdict.reason = VerdictReason::kTooLong;
    stall.by_reference =
        stall.step ? stall.by_reference : search.baselines.transfer(search.timeline, instance).by_reference;
    stall.kind = SlowTransfer{};
  }
  keep(search, std::move(stall));
}

}  // namespace stalltrace::analysis
