// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/search/transfer.h"

#include <algorithm>

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
VerdictReason reason_open(const Instance& instance) {
  if (instance.hung) {
    return VerdictReason::kBelowLimit;
  }
  const bool open = std::any_of(instance.seen.begin(), instance.seen.end(), [](const Arrival& a) { return a.open; });
  return open ? VerdictReason::kOthersWentOn : VerdictReason::kEndUnknown;
}

/// The origin of a hang. `vote` is set if ranks entered different calls. `elsewhere` is set if this instance is only
/// held up by an older call that hangs as well: then `root` leads to that call.
struct Blame {
  HangRoot root;
  std::optional<SignatureVote> vote;
  bool elsewhere = false;
  bool by_stopped = false;  // it waits for a rank that has stopped in the middle of its step, and lacks a later call
};

Blame blame_hang(SearchState& search, const Instance& instance, Interval window) {
  Blame blame;
  blame.vote = search.mismatches.hanging_in(instance.group);
  if (blame.vote) {
    blame.root = {HangKind::kMismatch, blame.vote->odd_one(), {}};
    return blame;
  }
  const MemberIndex dead = search.graph.dead_in(instance.group, window);
  if (dead != kNoMember) {
    blame.root = {HangKind::kDead, dead, {}};
    blame.vote = search.mismatches.blame_end(instance, blame.root);
    return blame;
  }
  blame.root = search.graph.order_cycle(instance);
  if (blame.root.kind == HangKind::kCycle) {
    return blame;
  }
  blame.root = search.graph.behind(instance, window);
  blame.elsewhere = blame.root.kind == HangKind::kTransfer;
  blame.root.kind = std::max(blame.root.kind, HangKind::kTransfer);
  blame.vote = search.mismatches.hanging_at(blame.root);
  blame.by_stopped = blame.root.kind == HangKind::kTransfer && !blame.vote &&
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
  return VerdictReason::kTooLong;
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
      verdict.reason = reason_open(instance);
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
  const Baseline& baseline = search.baselines.transfer(search.timeline, instance);
  Verdict verdict = verdict_on(search, instance);
  const auto declined = [&](VerdictReason reason) {
    verdict.reason = reason;
    decline(search, instance, verdict);
  };
  Hang blamed;
  std::optional<SignatureVote> vote;
  if (open) {
    Blame blame = blame_hang(search, instance, verdict.window);
    if (blame.by_stopped) {
      return declined(VerdictReason::kHeldUpElsewhere);
    }
    if (blame.elsewhere) {
      const HangStep& step = blame.root.path.back();
      search.transfers.push_back({search.timeline.sequences()[step.sequence].group, step.number});
      return declined(VerdictReason::kHeldUpElsewhere);
    }
    blamed.root = std::move(blame.root);
    vote = std::move(blame.vote);
  }
  const bool long_enough = outlasts_hang_limit(search, instance);
  blamed.ended_job =
      hang && ((!long_enough && ends_jobs(blamed.root.kind)) || ended_job(search, blamed.root, verdict.window));
  if (hang && !blamed.ended_job && !long_enough) {
    return declined(VerdictReason::kBelowLimit);
  }
  const int64_t patience_ns = kHangNs + kLongestCallsToHang * search.baselines.longest_queue_ns(instance.group);
  // Of processes that have ended nothing comes any more.
  const bool alive = std::ranges::any_of(instance.seen, [&](const Arrival& seen) {
    return !search.cluster.member(search.timeline.sequences()[seen.sequence].member).exit_ns;
  });
  const bool by_launches =
      blamed.root.kind == HangKind::kCycle && std::ranges::any_of(instance.seen, [&](const Arrival& seen) {
        return search.timeline.sequences()[seen.sequence].held_in_newest;
      });
  const bool may_come = blamed.root.kind == HangKind::kTransfer || by_launches;
  if (hang && alive && !blamed.ended_job && may_come && !vote && verdict.value_ns < patience_ns) {
    verdict.limit_ns = patience_ns;
    return declined(VerdictReason::kMayStillCome);
  }
  Stall stall = begin_stall(search, instance, verdict);
  if (!open) {
    stall.window.from_ns = stall.window.to_ns - certain_transfer_ns(search, instance);
  }
  // If one synchronisation completes a batch, waiting for a late rank looks like a long transfer.
  const int64_t own_ns = stall.window.length() - waited_in(search, stall, stall.window).total_ns();
  stall.usual_ns = baseline.known ? std::optional(baseline.usual_ns) : std::nullopt;
  stall.lost_ns = own_ns - baseline.usual_ns;
  stall.suspects = stall.members;
  const SignatureMismatches::Ended* wrong = search.mismatches.ended_in(instance);
  // A hang by its age but not by its cost counts as the job's end, so that it is reported as one of the two.
  blamed.ended_job = blamed.ended_job || (hang && stall.lost_ns < kHangNs && blamed.root.kind != HangKind::kTransfer &&
                                          ends_jobs(blamed.root.kind));
  if (!blamed.ended_job && wrong == nullptr && own_ns <= baseline.limit_ns) {
    verdict.value_ns = own_ns;
    verdict.limit_ns = baseline.limit_ns;
    return declined(stall.window.length() > baseline.limit_ns ? VerdictReason::kWaitedForLateRank
                                                              : VerdictReason::kBelowLimit);
  }
  if (instance.batch == BatchPart::kLast && !open && wrong == nullptr) {
    if (const VerdictReason reason = bound_by_step(search, instance, stall); reason != VerdictReason::kTooLong) {
      verdict.limit_ns = reason == VerdictReason::kStepUnknown ? kNoStepBaselineFloorNs : verdict.limit_ns;
      return declined(reason);
    }
  }
  if (wrong != nullptr) {
    stall.verdict.reason = VerdictReason::kWrongData;
    stall.kind = Mismatch{.vote = wrong->vote, .wrong_data = wrong->instances};
    std::get<Mismatch>(stall.kind).hang.root = {HangKind::kMismatch, wrong->vote.odd_one(), {}};
  } else if (!open) {
    stall.verdict.reason = VerdictReason::kTooLong;
    stall.kind = SlowTransfer{};
  } else {
    stall.verdict.reason = blamed.ended_job ? VerdictReason::kEndedJob : VerdictReason::kHang;
    stall.verdict.limit_ns = hang ? kHangNs : baseline.limit_ns;
    if (vote) {
      stall.kind = Mismatch{.vote = std::move(*vote), .hang = std::move(blamed)};
    } else {
      stall.kind = SlowTransfer{std::move(blamed)};
    }
  }
  keep(search, std::move(stall));
}

}  // namespace stalltrace::analysis
