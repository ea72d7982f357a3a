// SPDX-License-Identifier: Apache-2.0
#include "analysis/findings/python_locations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "analysis/causes/cause.h"
#include "analysis/evidence/reads/row_budget.h"
#include "analysis/thresholds/bounds.h"
#include "analysis/thresholds/hangs.h"
#include "base/python_frames.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kRanksNamed = 3;  // more at one location are counted
constexpr size_t kLocationsReported = 6;

/// A row on the common clock.
struct Sample {
  MemberIndex member = kNoMember;
  Interval time;
  const PythonStack* row = nullptr;
};

using Frames = std::map<int64_t, std::vector<PythonFrame>>;  // by id of the stack

/// Counts occurrences.
template <typename Key>
class Votes {
 public:
  void add(Key key) { ++votes_[std::move(key)]; }
  /// The most frequent key; among equals the greatest.
  [[nodiscard]] const std::pair<const Key, size_t>& most() const {
    return *std::ranges::max_element(votes_, {}, [](const auto& vote) { return std::pair(vote.second, vote.first); });
  }
  [[nodiscard]] bool empty() const { return votes_.empty(); }

 private:
  std::map<Key, size_t> votes_;
};

/// The frames of a process that a worker pool forked, without the parent's frames at their beginning.
std::span<const PythonFrame> own_of_worker(std::span<const PythonFrame> frames) {
  const auto entry = std::ranges::find_if(
      frames, [](const PythonFrame& frame) { return frame.file.ends_with("/multiprocessing/process.py"); });
  return frames.first(static_cast<size_t>(entry - frames.begin()));
}

/// The process's state other than running: blocked, stopped, or collecting garbage.
std::string doing_in(const PythonStack& row) {
  if (row.collecting) {
    return "collecting garbage";
  }
  return row.activity == "running" ? "" : row.activity;
}

/// Where one rank was in its samples, as text.
struct Seen {
  size_t samples = 0;    // samples with frames; of native code all: only a thread that waits has native frames
  size_t agreed = 0;     // of these, samples at the location
  std::string location;  // "load_batch (data.py:212), reading FIFO /data/in"; empty: not known
  std::string problem;
};

class Locations {
 public:
  Locations(const Cluster& cluster, const Frames& frames) : cluster_(cluster), frames_(frames) {}

  /// `samples`: samples of this rank and its descendants, in time order. `awaited`: the others wait for it.
  [[nodiscard]] Seen seen_of(const std::vector<const Sample*>& samples, bool awaited) const {
    Seen seen;
    using Key = std::tuple<std::string, std::string>;
    Votes<Key> locations;
    std::map<Key, Votes<std::string>> lines;
    std::map<Key, Votes<std::string>> doings;
    const bool has_python =
        std::ranges::any_of(samples, [&](const Sample* sample) { return has_frames(*sample->row, false); });
    const bool native = !has_python && std::ranges::any_of(samples, [&](const Sample* sample) {
      return has_frames(*sample->row, true);
    });
    for (size_t i = 0; i < samples.size(); ++i) {
      const PythonStack& row = *samples[i]->row;
      if (row.pid != row.rank_pid) {
        continue;
      }
      const auto frames = frames_.find(row.stack_id);
      if (frames == frames_.end() || frames->second.empty()) {
        seen.problem = row.problem.empty() ? seen.problem : row.problem;
        seen.samples += native ? 1 : 0;
        continue;
      }
      const PythonLocation location = location_in(frames->second);
      if (location.own->native && !native) {
        continue;  // of a Python rank whose frames could not be read that time
      }
      ++seen.samples;
      const std::string native_text = native ? native_location_text(frames->second) : "";
      if (native && native_text.empty()) {
        continue;
      }
      const PythonFrame& named = awaited ? *location.own : *location.called;
      const Key key{named.function, location.own->file};
      locations.add(key);
      lines[key].add(native ? native_text : awaited ? awaited_text(location) : waiting_text(location));
      const bool by_workers = awaited && waits_for_workers(frames->second);
      const std::string workers = by_workers ? workers_text(std::span(samples).subspan(i + 1)) : "";
      doings[key].add(workers.empty() ? doing_in(row) : workers);
    }
    if (locations.empty()) {
      return seen;
    }
    const auto& [key, count] = locations.most();
    seen.agreed = count;
    seen.location = lines.at(key).most().first;
    const auto& [doing, times] = doings.at(key).most();
    if (awaited && !doing.empty() && 2 * times > count) {
      seen.location += ", " + doing;
    }
    return seen;
  }

  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  [[nodiscard]] const Frames& frames() const { return frames_; }

 private:
  /// Frames of the rank itself, native ones or Python's.
  [[nodiscard]] bool has_frames(const PythonStack& row, bool native) const {
    const auto frames = frames_.find(row.stack_id);
    return row.pid == row.rank_pid && frames != frames_.end() && !frames->second.empty() &&
           frames->second.front().native == native;
  }

  /// What the program called, at the program's own line.
  static std::string waiting_text(const PythonLocation& location) {
    return brief_text({location.called->function, location.own->file, location.own->line});
  }

  static std::string awaited_text(const PythonLocation& location) {
    return location.innermost == location.own
               ? brief_text(*location.own)
               : fmt::format("{}, which called {}", brief_text(*location.own), brief_text(*location.innermost));
  }

  /// The workers that were seen in the program's own code: "waiting for its worker pid 77 in __getitem__ (data.py:14),
  /// sleeping (nanosleep)". `after` begins with the rows that follow the rank's own in one sample.
  [[nodiscard]] std::string workers_text(std::span<const Sample* const> after) const {
    std::vector<int32_t> pids;
    std::string first;
    for (const Sample* sample : after) {
      const PythonStack& row = *sample->row;
      if (row.pid == row.rank_pid) {
        break;  // the next sample begins
      }
      const auto frames = frames_.find(row.stack_id);
      if (frames == frames_.end()) {
        continue;
      }
      const auto own = own_of_worker(frames->second);
      const PythonLocation location = location_in(own);
      if (location.own == nullptr || location.own->native || is_installed(*location.own)) {
        continue;
      }
      if (pids.empty()) {
        const std::string doing = doing_in(row);
        first = awaited_text(location) + (doing.empty() ? "" : ", " + doing);
      }
      pids.push_back(row.pid);
    }
    return pids.empty() ? ""
           : pids.size() == 1
               ? fmt::format("waiting for its worker pid {} in {}", pids[0], first)
               : fmt::format("waiting for its {} workers, of which pid {} is in {}", pids.size(), pids[0], first);
  }

  const Cluster& cluster_;
  const Frames& frames_;
};

bool is_awaited(const StallFinding& found, MemberIndex member) {
  return std::ranges::any_of(found.stalls, [&](const Stall* stall) {
    return !std::holds_alternative<SlowTransfer>(stall->kind) &&
           std::ranges::find(stall->suspects, member) != stall->suspects.end();
  });
}

/// The stalls of one finding, to be asked which samples lie in them.
class StallTimes {
 public:
  explicit StallTimes(const std::vector<const Stall*>& stalls) : stalls_(stalls) {
    std::ranges::stable_sort(stalls_, {}, [](const Stall* stall) { return stall->window.from_ns; });
    for (const Stall* stall : stalls_) {
      latest_end_ns_.push_back(std::max(latest_end_ns_.empty() ? 0 : latest_end_ns_.back(), stall->window.to_ns));
    }
  }

  /// A stall of the sample's rank contains it. Of the stalls that contain it the kMostAsked last begun ones are asked:
  /// stalls of one finding overlap only where a rank has several communicators.
  [[nodiscard]] bool contain(const Sample& sample) const {
    const auto after = std::ranges::upper_bound(stalls_, sample.time.from_ns, {},
                                                [](const Stall* stall) { return stall->window.from_ns; });
    int asked = 0;
    for (auto i = static_cast<size_t>(after - stalls_.begin()); i-- > 0 && asked < kMostAsked;) {
      if (latest_end_ns_[i] < sample.time.to_ns) {
        return false;  // nor does one that began before
      }
      const Stall& stall = *stalls_[i];
      if (stall.window.to_ns < sample.time.to_ns) {
        continue;
      }
      if (std::ranges::find(stall.members, sample.member) != stall.members.end() ||
          std::ranges::find(stall.suspects, sample.member) != stall.suspects.end()) {
        return true;
      }
      ++asked;
    }
    return false;
  }

 private:
  static constexpr int kMostAsked = 64;
  std::vector<const Stall*> stalls_;
  std::vector<int64_t> latest_end_ns_;  // of the stalls up to and with each one
};

std::string who(const Cluster& cluster, const std::vector<MemberIndex>& members) {
  if (members.size() > kRanksNamed) {
    return fmt::format("{} ranks", members.size());
  }
  std::vector<std::string> names;
  bool ranks = true;
  for (const MemberIndex member : members) {
    names.push_back(short_name(cluster, member));
    ranks = ranks && cluster.member(member).rank;
  }
  if (!ranks || members.size() == 1) {
    return fmt::format("{}", fmt::join(names, ", "));
  }
  std::vector<int32_t> numbers;
  for (const MemberIndex member : members) {
    numbers.push_back(*cluster.member(member).rank);
  }
  return fmt::format("ranks {}", fmt::join(numbers, ", "));
}

/// " (in 3 of 4 samples)" if not all agree.
std::string agreement(const Seen& seen) {
  return seen.agreed == seen.samples ? "" : fmt::format(" (in {} of {} samples)", seen.agreed, seen.samples);
}

void add_to_summary(const Cluster& cluster, const StallFinding& found, MemberIndex member, const Seen& seen,
                    Finding& finding) {
  if (!rule_of(finding.cause).python_location_in_summary || seen.location.empty() || 2 * seen.agreed < seen.samples) {
    return;
  }
  const bool still = !cluster.member(member).exit_ns && !finding.ended_job &&
                     std::ranges::any_of(found.stalls, [](const Stall* stall) { return stall->hung(); });
  finding.summary += fmt::format(" {} {} in {}{}.", capitalised(short_name(cluster, member)), still ? "is" : "was",
                                 seen.location, agreement(seen));
}

/// A rank whose main thread is at one line in all samples over a long wait does not go on: the finding is no longer
/// `waiting`. Another thread may only have nothing to do.
void prove_by_line(const std::vector<const Sample*>& samples, const Frames& frames, StallFinding& found) {
  const PythonFrame* line = nullptr;
  int64_t count = 0;
  Interval seen{kForever, 0};
  for (const Sample* sample : samples) {
    if (sample->row->pid != sample->row->rank_pid || sample->row->tid != sample->row->pid) {
      continue;
    }
    const auto stack = frames.find(sample->row->stack_id);
    if (stack == frames.end() || stack->second.empty()) {
      continue;
    }
    const PythonFrame& innermost = stack->second.front();
    if (innermost.native) {
      continue;  // a function without a line proves nothing: it may be in a loop
    }
    if (line != nullptr &&
        (innermost.line != line->line || innermost.file != line->file || innermost.function != line->function)) {
      return;
    }
    line = &innermost;
    ++count;
    seen = {std::min(seen.from_ns, sample->time.from_ns), std::max(seen.to_ns, sample->time.to_ns)};
  }
  if (count < kFewestSamplesAtALine || seen.length() < kBlockedWaitNs) {
    return;
  }
  found.finding.severity = Severity::kCritical;
  found.finding.evidence.push_back({"python_stack",
                                    count,
                                    fmt::format("at one line in all {} samples over {}: {}", count,
                                                format_duration(seen.length()), brief_text(*line)),
                                    {}});
}

void add_locations(const Locations& locations, const std::vector<Sample>& samples, StallFinding& found) {
  const Cluster& cluster = locations.cluster();
  std::map<MemberIndex, std::vector<const Sample*>> by_member;
  const StallTimes stalls(found.stalls);
  for (const Sample& sample : samples) {
    if (stalls.contain(sample)) {
      by_member[sample.member].push_back(&sample);
    }
  }
  if (by_member.empty()) {
    return;
  }
  Finding& finding = found.finding;
  std::map<std::string, std::vector<MemberIndex>> folded;
  int64_t count = 0;
  for (const auto& [member, of_member] : by_member) {
    const Seen seen = locations.seen_of(of_member, is_awaited(found, member));
    count += static_cast<int64_t>(of_member.size());
    if (!seen.location.empty()) {
      folded["in " + seen.location + agreement(seen)].push_back(member);
    } else if (!seen.problem.empty()) {
      folded["not known: " + seen.problem].push_back(member);
    }
    const Member& known = cluster.member(member);
    if (finding.culprit && finding.culprit->pid == known.pid && finding.culprit->node == known.node) {
      add_to_summary(cluster, found, member, seen, finding);
      if (found.unproven) {
        prove_by_line(of_member, locations.frames(), found);
      }
    }
  }
  std::vector<std::pair<std::string, std::vector<MemberIndex>>> ordered(folded.begin(), folded.end());
  for (auto& [location, members] : ordered) {
    std::ranges::sort(members, {}, [&](MemberIndex member) { return cluster.member(member).rank.value_or(-1); });
  }
  std::ranges::stable_sort(ordered, [&](const auto& a, const auto& b) {
    const auto first = [&](const auto& one) { return cluster.member(one.second.front()).rank.value_or(-1); };
    return a.second.size() != b.second.size() ? a.second.size() > b.second.size() : first(a) < first(b);
  });
  std::vector<std::string> parts;
  for (const auto& [location, members] : ordered) {
    if (parts.size() < kLocationsReported) {
      parts.push_back(who(cluster, members) + " " + location);
    }
  }
  if (!parts.empty()) {
    finding.evidence.push_back({"python_stack", count, fmt::format("{}", fmt::join(parts, "; ")), {}});
  }
}

}  // namespace

Status add_python_locations(EventSource& source, const Cluster& cluster, std::vector<StallFinding>& findings,
                            std::vector<std::string>& notes) {
  std::vector<Interval> windows;
  for (const StallFinding& found : findings) {
    std::ranges::transform(found.stalls, std::back_inserter(windows), &Stall::window);
  }
  const IntervalSet times(std::move(windows));
  if (times.empty()) {
    return {};
  }
  const int64_t slack_ns = cluster.clock().largest_shift_ns();
  const TimeRange range{times.intervals().front().from_ns - slack_ns, times.intervals().back().to_ns + slack_ns};
  std::vector<PythonStack> rows;
  RowBudget budget(times, kMostPythonStacks);
  const auto read = [&] {
    return source.python_stacks(range, [&](const PythonStack& row) {
      const int64_t begin_ns = cluster.clock().to_common(row.node_id, row.timestamp_ns);
      if (times.covered_ns({begin_ns, begin_ns + std::max<int64_t>(row.duration_ns, 1)}) > 0 &&
          budget.room(row.node_id, begin_ns)) {
        rows.push_back(row);
      }
    });
  };
  ST_TRY(read_fairly(budget, read, [&] { rows.clear(); }));
  if (budget.dropped() > 0) {
    notes.push_back(
        fmt::format("{} samples of Python stacks were left out, of all stalls alike: findings may lack the line of "
                    "code; a shorter time range shows it",
                    budget.dropped()));
  }
  if (rows.empty()) {
    return {};
  }
  std::vector<Sample> samples;
  std::set<int64_t> wanted;
  for (const PythonStack& row : rows) {
    const MemberIndex member = cluster.find(row.node_id, row.rank_pid);
    const int64_t begin_ns = cluster.clock().to_common(row.node_id, row.timestamp_ns);
    if (member != kNoMember) {
      samples.push_back({member, {begin_ns, begin_ns + row.duration_ns}, &row});
      wanted.insert(row.stack_id);
    }
  }
  ST_ASSIGN(const std::vector<Stack> stacks, source.stacks());
  Frames frames;
  for (const Stack& stack : stacks) {
    if (wanted.contains(stack.stack_id)) {
      frames[stack.stack_id] = frames_from_text(stack.frames);
    }
  }
  const Locations locations(cluster, frames);
  for (StallFinding& found : findings) {
    add_locations(locations, samples, found);
  }
  return {};
}

}  // namespace stalltrace::analysis
