// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/stalls.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <set>

#include "analysis/stalls/baseline.h"
#include "analysis/stalls/signature_mismatches.h"
#include "analysis/thresholds.h"

namespace stalltrace::analysis {
namespace {

class Search {
 public:
  Search(const Timeline& timeline, const Cluster& cluster, TimeRange range)
      : timeline_(timeline),
        cluster_(cluster),
        range_(range),
        hangs_(timeline, cluster),
        disagreements_(timeline, cluster, hangs_),
        late_of_(cluster.members().size()) {
    for (uint32_t i = 0; i < timeline.sequences().size(); ++i) {
      sequences_of_[timeline.sequences()[i].member].push_back(i);
    }
  }

  StallSearch run() {
    learn();
    for (uint32_t group = 0; group < timeline_.groups().size(); ++group) {
      each(group, [&](const Instance& instance) {
        ++result_.instances;
        const bool wrong_data = disagreements_.note_ended(instance);
        add_late(instance);
        add_absent(instance);
        if (long_transfer(instance) || wrong_data) {
          long_transfers_.emplace_back(group, instance.column);
        }
      });
    }
    add_disagreements();
    for (std::vector<Interval>& windows : late_of_) {
      late_sets_.emplace_back(std::move(windows));
    }
    std::set<std::pair<uint32_t, int64_t>> done;
    for (size_t i = 0; i < long_transfers_.size(); ++i) {  // grows meanwhile
      const auto [group, column] = long_transfers_[i];
      if (done.insert({group, column}).second && read_instance(timeline_, group, column, instance_)) {
        add_transfer(instance_);
      }
    }
    bound();
    std::sort(result_.stalls.begin(), result_.stalls.end(),
              [](const Stall& a, const Stall& b) { return a.window.from_ns < b.window.from_ns; });
    return std::move(result_);
  }

 private:
  template <typename Visit>
  void each(uint32_t group, Visit visit) {
    for (const ColumnRange& columns : columns_of(timeline_, timeline_.groups()[group])) {
      for (int64_t column = columns.begin; column < columns.end; ++column) {
        if (read_instance(timeline_, group, column, instance_)) {
          visit(instance_);
        }
      }
    }
  }

  [[nodiscard]] uint64_t kind_of(const Instance& instance) const {
    return (static_cast<uint64_t>(instance.group) << 16) | timeline_.signature(instance.signature).like;
  }

  bool warming_up(const Instance& instance) const {
    return instance.column < kWarmUpInstances && timeline_.groups()[instance.group].hash != 0;
  }

  void learn() {
    std::map<uint64_t, BaselineSample> transfers;
    std::map<uint32_t, BaselineSample> pair_waits;  // a Recv waits for its Send by design
    std::map<uint32_t, BaselineSample> spreads;
    for (uint32_t group = 0; group < timeline_.groups().size(); ++group) {
      const bool pair = timeline_.groups()[group].point_to_point;
      each(group, [&](const Instance& instance) {
        if (instance.completed() && !warming_up(instance)) {
          transfers[kind_of(instance)].add(instance.transfer_ns());
          spreads[group].add(instance.last_arrival_ns - instance.seen.front().arrival_ns);
        }
        if (pair) {
          pair_waits[group].add(instance.late_ns());
        }
      });
    }
    for (auto& [kind, sample] : transfers) {
      transfer_baselines_[kind] = Baseline::of(sample);
    }
    for (auto& [group, sample] : spreads) {
      spread_limits_[group] = Baseline::of(sample).limit_ns;
    }
    for (auto& [group, sample] : pair_waits) {
      pair_baselines_[group] = Baseline::of(sample);
    }
  }

  /// The end of the last collective that kept this rank busy before `time_ns`: any on the same communicator,
  /// elsewhere only those whose end the calling thread waited for.
  int64_t previous_end_ns(uint32_t sequence_index, int64_t time_ns) const {
    int64_t latest = std::numeric_limits<int64_t>::min();
    for (const uint32_t other : sequences_of_.at(timeline_.sequences()[sequence_index].member)) {
      const std::vector<Call>& calls = timeline_.sequences()[other].calls;
      auto call =
          std::partition_point(calls.begin(), calls.end(), [&](const Call& c) { return c.arrival_ns < time_ns; });
      for (int64_t n = 0; call != calls.begin() && n < kPreviousCalls; ++n) {
        --call;
        const bool waited = call->completion == Completion::kSync || call->completion == Completion::kCall;
        const int64_t end_ns = call->end_ns();
        if (call->present && end_ns <= time_ns && (waited || other == sequence_index)) {
          latest = std::max(latest, end_ns);
          break;
        }
      }
    }
    return latest;
  }

  Stall begin_stall(const Instance& instance, StallPart part) const {
    Stall stall{.group = instance.group, .column = instance.column, .signature = instance.signature, .part = part};
    stall.hung = instance.hung;
    for (const Arrival& seen : instance.seen) {
      stall.members.push_back(timeline_.sequences()[seen.sequence].member);
    }
    return stall;
  }

  void keep(Stall stall) {
    if (stall.ended_job || stall.wrong_data > 0) {  // told though it need not have cost any time
      stall.window.to_ns = std::max(stall.window.to_ns, stall.window.from_ns + kNsPerUs);
      stall.lost_ns = std::clamp(stall.lost_ns, kNsPerUs, stall.window.length());
    }
    if (range_.from_ns > stall.window.to_ns || range_.to_ns <= stall.window.from_ns) {
      return;
    }
    if (stall.part != StallPart::kTransfer) {
      for (const MemberIndex member : stall.members) {
        late_of_[member].push_back(stall.window);
      }
    }
    result_.stalls.push_back(std::move(stall));
    if (static_cast<int64_t>(result_.stalls.size()) >= 2 * kMaxStalls) {
      bound();
    }
  }

  /// Who arrived last is known only where the clocks of all who took part are.
  [[nodiscard]] bool comparable(const Instance& instance) const {
    const auto node_of_sequence = [&](const Arrival& seen) {
      return cluster_.member(timeline_.sequences()[seen.sequence].member).node_id;
    };
    const NodeId last = node_of_sequence(instance.seen.back());
    return std::all_of(instance.seen.begin(), instance.seen.end(),
                       [&](const Arrival& seen) { return cluster_.clock().comparable(node_of_sequence(seen), last); });
  }

  /// From when on the last rank alone keeps the job waiting: the others scatter, too, and waited for each other first.
  /// Where a second rank is late by itself, its time counts from the middle arrival on.
  static int64_t others_here_ns(const Instance& instance) {
    const size_t n = instance.seen.size();
    const int64_t others_ns = n < 2 ? instance.waits_from_ns : instance.seen[n - 2].arrival_ns;
    return others_ns - instance.waits_from_ns <= kStallFloorNs ? others_ns : instance.waits_from_ns;
  }

  void add_late(const Instance& instance) {
    int64_t usual_ns = 0;
    int64_t limit_ns = kStallFloorNs;
    if (const auto pair = pair_baselines_.find(instance.group); pair != pair_baselines_.end()) {
      usual_ns = pair->second.usual_ns;
      limit_ns = pair->second.limit_ns;
    }
    if (instance.late_ns() <= limit_ns || (warming_up(instance) && instance.late_ns() < kWarmUpFloorNs) ||
        !comparable(instance)) {
      return;
    }
    const uint32_t sequence = instance.seen.back().sequence;
    Stall stall = begin_stall(instance, StallPart::kLate);
    stall.window.from_ns =
        std::max(instance.waits_from_ns + usual_ns, previous_end_ns(sequence, instance.last_arrival_ns));
    stall.window.to_ns = instance.last_arrival_ns;
    if (stall.window.length() <= kStallFloorNs) {
      return;
    }
    stall.window.from_ns = std::max(stall.window.from_ns, others_here_ns(instance));
    stall.lost_ns = stall.window.length();
    stall.has_baseline = true;
    stall.hung = false;
    stall.suspects = {timeline_.sequences()[sequence].member};
    stall.calling_tid = timeline_.sequences()[sequence].tid;
    keep(std::move(stall));
  }

  [[nodiscard]] int64_t hung_to_ns(const Instance& instance) const {
    return std::min(instance.hung_to_ns, timeline_.span().to_ns);
  }
  [[nodiscard]] bool outlasts_hang_limit(const Instance& instance) const {
    return instance.hung && hung_to_ns(instance) - instance.last_arrival_ns >= kHangNs;
  }
  /// The job ended in it: a rank failed, and the others, told by the launcher or their own calls, soon followed. A job
  /// whose ranks were all killed was killed as a whole. Profiler files do not tell how a process ended, only that
  /// others outlived it.
  [[nodiscard]] bool broke_off(const Instance& instance) const {
    const std::vector<uint32_t>& sequences = timeline_.groups()[instance.group].sequences;
    const auto member = [&](uint32_t sequence) -> const Member& {
      return cluster_.member(timeline_.sequences()[sequence].member);
    };
    const auto failed = [](const Member& one) {
      return one.ended_badly() || (one.exit_ns && !one.exit_code && !one.exit_signal);
    };
    return instance.hung &&
           std::any_of(sequences.begin(), sequences.end(),
                       [&](uint32_t sequence) { return failed(member(sequence)); }) &&
           !std::all_of(sequences.begin(), sequences.end(),
                        [&](uint32_t sequence) { return member(sequence).exit_signal == SIGKILL; });
  }
  /// Of a job that ended too soon for a hang, only what ended it is told.
  void note_end(const Instance& instance, Stall& stall) const {
    stall.ended_job = !outlasts_hang_limit(instance) && ends_jobs(stall.hang.kind);
  }
  /// kTransfer: a connection may have broken.
  static bool ends_jobs(HangKind kind) {
    return kind == HangKind::kDead || kind == HangKind::kMismatch || kind == HangKind::kTransfer;
  }

  /// Where the absent ranks are: the root that explains most. With more ranks absent than inside, those inside are odd.
  void blame_absent(const Instance& instance, Stall& stall) const {
    std::vector<MemberIndex> outside;
    for (const uint32_t sequence : instance.absent) {
      HangRoot root = hangs_.root_of(sequence, instance.group, instance.column, stall.window);
      if (root.kind == HangKind::kOutside && root.path.empty()) {
        outside.push_back(root.member);
      }
      if (root.kind > stall.hang.kind) {
        stall.hang = std::move(root);
      }
    }
    const bool pair = timeline_.groups()[instance.group].point_to_point;
    if (stall.hang.kind == HangKind::kOutside && !pair && outside.size() > instance.seen.size()) {
      stall.majority_absent = true;
      stall.hang.path.clear();
      stall.hang.member =
          instance.seen.size() == 1 ? timeline_.sequences()[instance.seen[0].sequence].member : kNoMember;
    }
  }

  /// A rank that is usually as late as this may still come.
  [[nodiscard]] bool may_still_come(const Stall& stall) const {
    const auto limit = spread_limits_.find(stall.group);
    return stall.hang.kind == HangKind::kOutside && limit != spread_limits_.end() &&
           stall.window.length() < kSpreadsToHang * limit->second;
  }

  /// Ranks that wait at the end of their observation for one that is recorded but never came.
  void add_absent(const Instance& instance) {
    if (instance.absent.empty() || (!outlasts_hang_limit(instance) && !broke_off(instance))) {
      return;
    }
    Stall stall = begin_stall(instance, StallPart::kAbsent);
    stall.window = {instance.last_arrival_ns, hung_to_ns(instance)};
    stall.lost_ns = stall.window.length();
    if (const auto& vote = disagreements_.hanging_in(instance.group)) {
      SignatureMismatches::blame(stall, *vote);
    } else {
      blame_absent(instance, stall);
      disagreements_.blame_end(instance, stall);
    }
    if (stall.hang.kind == HangKind::kMismatch && !stall.vote) {
      stall.vote = disagreements_.hanging_in(timeline_.sequences()[stall.hang.path.back().sequence].group);
    }
    if (stall.hang.kind == HangKind::kTransfer) {  // the absent ranks are held up elsewhere, where all have come
      judge_step(stall.hang.path.back());
      return;
    }
    for (const uint32_t sequence : instance.absent) {
      stall.members.push_back(timeline_.sequences()[sequence].member);
    }
    for (const HangStep& step : stall.hang.path) {
      stall.suspects.push_back(step.member);
    }
    if (stall.hang.member != kNoMember) {
      stall.suspects = {stall.hang.member};
    }
    if (stall.suspects.size() == 1) {
      stall.calling_tid = calling_tid(stall.suspects[0]);
    }
    note_end(instance, stall);
    if (stall.ended_job || (outlasts_hang_limit(instance) && !may_still_come(stall))) {
      keep(std::move(stall));
    }
  }

  /// The thread that made the rank's newest call.
  [[nodiscard]] int32_t calling_tid(MemberIndex member) const {
    int32_t tid = 0;
    int64_t newest_ns = std::numeric_limits<int64_t>::min();
    for (const uint32_t index : sequences_of_.at(member)) {
      const CallSequence& sequence = timeline_.sequences()[index];
      if (sequence.last_arrival_ns > newest_ns) {
        newest_ns = sequence.last_arrival_ns;
        tid = sequence.tid;
      }
    }
    return tid;
  }

  /// Ranks entered different things, and some of them never left: also where others ended their part and went on.
  void add_disagreements() {
    for (uint32_t group = 0; group < timeline_.groups().size(); ++group) {
      const std::optional<SignatureVote>& vote = disagreements_.hanging_in(group);
      if (!vote || !read_instance(timeline_, group, vote->column, instance_)) {
        continue;
      }
      int64_t to_ns = std::numeric_limits<int64_t>::min();
      for (const Arrival& seen : instance_.seen) {
        const CallSequence& sequence = timeline_.sequences()[seen.sequence];
        if (!sequence.calls.empty() && sequence.calls.back().is_open()) {
          to_ns = std::max(to_ns, std::min(sequence.observed_to_ns(), timeline_.span().to_ns));
        }
      }
      Stall stall = begin_stall(instance_, StallPart::kTransfer);
      stall.hung = true;
      stall.window = {instance_.last_arrival_ns, to_ns};
      stall.lost_ns = stall.window.length();
      stall.suspects = vote->odd_ones;
      SignatureMismatches::blame(stall, *vote);
      stall.ended_job = stall.lost_ns < kHangNs && broke_off(instance_);
      if (stall.lost_ns >= kHangNs || stall.ended_job) {
        keep(std::move(stall));
      }
    }
  }

  [[nodiscard]] bool hangs(const Instance& instance) const {
    return instance.absent.empty() && (outlasts_hang_limit(instance) || broke_off(instance));
  }

  /// Open at some rank while others ended it, went on, and wait for that rank.
  [[nodiscard]] static bool held_up(const Instance& instance) { return !instance.completed() && !instance.hung; }

  /// Until when a rank was observed inside, whatever others ended.
  [[nodiscard]] int64_t open_to_ns(const Instance& instance) const {
    int64_t to_ns = instance.last_arrival_ns;
    for (const Arrival& seen : instance.seen) {
      if (seen.open) {
        to_ns =
            std::max(to_ns, std::min(timeline_.sequences()[seen.sequence].observed_to_ns(), timeline_.span().to_ns));
      }
    }
    return to_ns;
  }

  void judge_step(const HangStep& step) {
    long_transfers_.emplace_back(timeline_.sequences()[step.sequence].group, step.column);
  }

  /// False when this one is only held up by an older call that hangs, too.
  bool blame_transfer(const Instance& instance, Stall& stall) {
    const MemberIndex dead = hangs_.dead_in(stall.group, stall.window);
    if (const auto& vote = disagreements_.hanging_in(stall.group)) {
      SignatureMismatches::blame(stall, *vote);
    } else if (dead != kNoMember) {
      stall.hang = {HangKind::kDead, dead, {}};
      disagreements_.blame_end(instance, stall);
    } else {
      stall.hang = hangs_.order_cycle(instance);
      if (stall.hang.kind == HangKind::kCycle) {
        return true;
      }
      stall.hang = hangs_.behind(instance, stall.window);
      if (stall.hang.kind == HangKind::kTransfer) {
        judge_step(stall.hang.path.back());
        return false;
      }
      stall.hang.kind = std::max(stall.hang.kind, HangKind::kTransfer);
    }
    if (stall.hang.kind == HangKind::kMismatch && !stall.vote) {
      stall.vote = disagreements_.hanging_in(timeline_.sequences()[stall.hang.path.back().sequence].group);
    }
    return true;
  }

  const Baseline& baseline_of(const Instance& instance) {
    const uint64_t kind = kind_of(instance);
    if (kind != last_kind_) {
      last_kind_ = kind;
      last_baseline_ = transfer_baselines_[kind];
    }
    return last_baseline_;
  }

  bool long_transfer(const Instance& instance) {
    if (!instance.completed()) {
      return hangs(instance);
    }
    return instance.transfer_ns() > baseline_of(instance).limit_ns &&
           (!warming_up(instance) || instance.transfer_ns() >= kWarmUpFloorNs);
  }

  void add_transfer(const Instance& instance) {
    const bool hang = hangs(instance) || held_up(instance);
    const Baseline& baseline = baseline_of(instance);
    Stall stall = begin_stall(instance, StallPart::kTransfer);
    stall.window = {instance.last_arrival_ns, hang ? open_to_ns(instance) : instance.completion_ns};
    stall.hung = hang;
    if (hang && !blame_transfer(instance, stall)) {
      return;
    }
    if (hangs(instance)) {
      note_end(instance, stall);
      if (!stall.ended_job && !outlasts_hang_limit(instance)) {
        return;
      }
    }
    // Within a batch that one synchronisation completes, waiting for a late rank looks like a long transfer.
    std::vector<Interval> elsewhere;
    for (const MemberIndex member : stall.members) {
      late_sets_[member].clip(stall.window, elsewhere);
    }
    const int64_t late_ns = IntervalSet(std::move(elsewhere)).total_ns();
    stall.baseline_ns = baseline.usual_ns;
    stall.has_baseline = baseline.known;
    stall.lost_ns = stall.window.length() - late_ns - baseline.usual_ns;
    stall.suspects = stall.members;
    disagreements_.blame_ended(instance, stall);
    // A hang by its age, but not by what it cost: nobody is to fall between the two.
    stall.ended_job = stall.ended_job || (hangs(instance) && stall.lost_ns < kHangNs &&
                                          stall.hang.kind != HangKind::kTransfer && ends_jobs(stall.hang.kind));
    if (stall.ended_job || stall.wrong_data > 0 || stall.window.length() - late_ns > baseline.limit_ns) {
      keep(std::move(stall));
    }
  }

  /// Keeps the dearest stalls when there are too many to examine.
  void bound() {
    std::vector<Stall>& stalls = result_.stalls;
    if (static_cast<int64_t>(stalls.size()) <= kMaxStalls) {
      return;
    }
    result_.dropped += static_cast<int64_t>(stalls.size()) - kMaxStalls;
    std::nth_element(stalls.begin(), stalls.begin() + kMaxStalls, stalls.end(), [](const Stall& a, const Stall& b) {
      return std::pair(a.wrong_data, a.lost_ns) > std::pair(b.wrong_data, b.lost_ns);
    });
    stalls.resize(kMaxStalls);
  }

  const Timeline& timeline_;
  const Cluster& cluster_;
  TimeRange range_;
  OpenCallGraph hangs_;
  SignatureMismatches disagreements_;
  std::map<uint32_t, int64_t> spread_limits_;  // by group: arrivals further apart than this are unusual
  std::map<MemberIndex, std::vector<uint32_t>> sequences_of_;
  std::map<uint64_t, Baseline> transfer_baselines_;
  std::map<uint32_t, Baseline> pair_baselines_;
  std::vector<std::vector<Interval>> late_of_;                // per member: when it waited for (or was) a late rank
  std::vector<IntervalSet> late_sets_;                        // the same, once all are known
  std::vector<std::pair<uint32_t, int64_t>> long_transfers_;  // group and column
  uint64_t last_kind_ = std::numeric_limits<uint64_t>::max();
  Baseline last_baseline_;
  Instance instance_;
  StallSearch result_;
};

}  // namespace

StallSearch find_stalls(const Timeline& timeline, const Cluster& cluster, TimeRange range) {
  return Search(timeline, cluster, range).run();
}

}  // namespace stalltrace::analysis
