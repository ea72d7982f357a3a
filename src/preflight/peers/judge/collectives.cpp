// SPDX-License-Identifier: Apache-2.0
#include "preflight/peers/judge/collectives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/numbers/median.h"
#include "base/text.h"
#include "preflight/peers/collectives/operations.h"
#include "preflight/peers/judge/thresholds.h"

namespace stalltrace::preflight {
namespace {

using Kind = CollectiveFault::Kind;

constexpr size_t kMostRanksNamed = 8;
constexpr double kMbitOfGigabyte = 8000;  // in a second

std::string short_bandwidth(double gigabytes) { return fmt::format("{:.3g} GB/s", gigabytes); }

class CollectivesJudge {
 public:
  explicit CollectivesJudge(const LaunchResults& all) : all_(all), results_(*all.collectives) {}

  std::vector<HostCheck> run() {
    if (!results_.faults.empty()) {
      judge_faults();
    } else if (results_.ranks < 2) {
      add("", Outcome::kUnknown, "fewer than two ranks are there: nothing is measured",
          "start two processes or more, such as one for each GPU");
    }
    judge_wrong();
    judge_versions();
    judge_bandwidth();
    summarise();
    return std::move(checks_);
  }

 private:
  void add(std::string subject, Outcome outcome, std::string detail, std::string remedy = {}) {
    checks_.push_back({"collectives", std::move(subject), outcome, std::move(detail), std::move(remedy)});
  }
  [[nodiscard]] std::string names_of(const std::vector<int32_t>& ranks) const;
  void judge_faults();
  void judge_not_ready();
  void judge_unfinished(const std::vector<const CollectiveFault*>& unfinished);
  void judge_wrong();
  void judge_versions();
  void judge_bandwidth();
  void summarise();
  /// Of the largest AllReduce; null: there is none.
  [[nodiscard]] const CollectiveTime* largest_all_reduce() const;
  [[nodiscard]] double bus_bandwidth(const CollectiveTime& time) const {
    return busbw(time.operation, results_.ranks, time.bytes, time.average_ns);
  }

  const LaunchResults& all_;
  const CollectiveResults& results_;
  std::vector<HostCheck> checks_;
};

std::string CollectivesJudge::names_of(const std::vector<int32_t>& ranks) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(ranks.size(), kMostRanksNamed); ++i) {
    const auto found = std::ranges::find(all_.ranks, ranks[i], &TestedRank::rank);
    names.push_back(found == all_.ranks.end()
                        ? std::to_string(ranks[i])
                        : fmt::format("{} on {}", ranks[i], all_.nodes[static_cast<size_t>(found->node)].name));
  }
  const std::string more = ranks.size() > names.size() ? fmt::format(" and {} more", ranks.size() - names.size()) : "";
  return fmt::format("{} {}{}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(names, ", "), more);
}

void CollectivesJudge::judge_not_ready() {
  std::map<std::string, std::vector<int32_t>> by_reason;
  size_t count = 0;
  for (const CollectiveFault& fault : results_.faults) {
    if (fault.kind == Kind::kNotReady) {
      by_reason[fault.detail].push_back(fault.rank);
      ++count;
    }
  }
  const bool on_all = count == static_cast<size_t>(results_.ranks);
  for (const auto& [reason, ranks] : by_reason) {
    add(on_all && by_reason.size() == 1 ? "" : names_of(ranks), on_all ? Outcome::kUnknown : Outcome::kFailed,
        fmt::format("{}{}: {}", on_all ? "no collective was made" : "can make no collective, while other ranks can",
                    on_all && by_reason.size() == 1 ? ", on any rank" : "", reason),
        "give the job's library, the same on all ranks, with --library (of PyTorch: nvidia/nccl/lib/libnccl.so.2 in "
        "its "
        "site-packages) or LD_LIBRARY_PATH; is there a GPU (nvidia-smi), and was each rank started with "
        "--collectives?");
  }
}

void CollectivesJudge::judge_unfinished(const std::vector<const CollectiveFault*>& unfinished) {
  std::vector<int32_t> late;
  std::vector<int32_t> not_launched;
  for (const CollectiveFault* fault : unfinished) {
    late.push_back(fault->rank);
    if (!fault->launched) {
      not_launched.push_back(fault->rank);
    }
  }
  const CollectiveFault& first = *unfinished.front();
  const std::string remedy =
      "look at these nodes' GPUs (nvidia-smi, dmesg) and processes, and at the links above; NCCL_DEBUG=INFO shows "
      "between which ranks it set up what";
  const auto all = static_cast<size_t>(results_.ranks);
  if (late.size() < all) {
    add(names_of(late), Outcome::kFailed,
        fmt::format("{}: {}; {} did", first.step, first.detail,
                    count_of(static_cast<int64_t>(all - late.size()), "other rank")),
        remedy);
  } else if (!not_launched.empty() && not_launched.size() < all) {
    add(names_of(not_launched), Outcome::kFailed,
        fmt::format("{}: {}, and is not even launched there; the other ranks wait in it", first.step, first.detail),
        remedy);
  } else {
    add("all ranks", Outcome::kFailed, fmt::format("{}: {}", first.step, first.detail), remedy);
  }
}

void CollectivesJudge::judge_faults() {
  // Where a rank's program ended, the errors of the others are of that.
  const bool one_ended =
      std::ranges::find(results_.faults, Kind::kEnded, &CollectiveFault::kind) != results_.faults.end();
  std::map<std::string, std::vector<int32_t>> errors;
  std::vector<const CollectiveFault*> unfinished;
  size_t followers = 0;
  for (const CollectiveFault& fault : results_.faults) {
    if (fault.kind == (one_ended ? Kind::kEnded : Kind::kError)) {
      errors[fault.detail].push_back(fault.rank);
    } else if (fault.kind == Kind::kError) {
      ++followers;
    } else if (fault.kind == Kind::kUnfinished) {
      unfinished.push_back(&fault);
    }
  }
  judge_not_ready();
  const std::string& step = results_.faults.front().step;
  const size_t waiting = followers + unfinished.size();
  const std::string others =
      waiting == 0 ? ""
                   : fmt::format("; {} did not end it then", count_of(static_cast<int64_t>(waiting), "other rank"));
  for (const auto& [detail, ranks] : errors) {
    add(names_of(ranks), Outcome::kFailed, fmt::format("{}: {}{}", step, detail, others),
        one_ended ? "a broken driver or library, or a lack of memory: dmesg on that node; NCCL_DEBUG=WARN"
                  : "NCCL_DEBUG=WARN has NCCL print the reason, on standard error; the settings and links above");
  }
  if (errors.empty() && !unfinished.empty()) {
    judge_unfinished(unfinished);
  }
}

void CollectivesJudge::judge_wrong() {
  std::map<int32_t, std::vector<const WrongResults*>> by_rank;
  for (const WrongResults& one : results_.wrong) {
    by_rank[one.rank].push_back(&one);
  }
  size_t named = 0;
  for (const auto& [rank, wrong] : by_rank) {
    if (named++ == kMostRanksNamed) {
      add("", Outcome::kFailed,
          fmt::format("{} more have wrong results", count_of(static_cast<int64_t>(by_rank.size() - named + 1), "rank")),
          "--json has all");
      break;
    }
    const WrongResults& first = *wrong.front();
    add(names_of({rank}), Outcome::kFailed,
        fmt::format("wrong results: {} of {}{}", count_of(first.elements, "element"),
                    name_of_call(first.operation, first.bytes),
                    wrong.size() == 1
                        ? ""
                        : fmt::format(", and of {}", count_of(static_cast<int64_t>(wrong.size() - 1), "more call"))),
        "a GPU or a link that changes data (dmesg for Xid, nvidia-smi -q for ECC), or a broken library: test again "
        "without this node, and with another version");
  }
}

void CollectivesJudge::judge_versions() {
  if (results_.versions.size() < 2) {
    return;
  }
  std::vector<std::string> parts;
  for (const auto& [version, ranks] : results_.versions) {
    parts.push_back(fmt::format("{} on {}", nccl_version_text(version), names_of(ranks)));
  }
  add("", Outcome::kWarning, fmt::format("NCCL's version differs: {}", fmt::join(parts, "; ")),
      "give all ranks the same library (--library)");
}

const CollectiveTime* CollectivesJudge::largest_all_reduce() const {
  const CollectiveTime* largest = nullptr;
  for (const CollectiveTime& time : results_.times) {
    if (time.operation == kAllReduce && (largest == nullptr || time.bytes > largest->bytes)) {
      largest = &time;
    }
  }
  return largest;
}

void CollectivesJudge::judge_bandwidth() {
  const CollectiveTime* time = largest_all_reduce();
  std::vector<double> speeds;
  const PairResult* slowest = nullptr;
  for (const PairResult& pair : all_.pairs) {
    if (pair.alone && !pair.stuck()) {
      speeds.push_back(pair.alone->mbit());
      slowest = slowest == nullptr || pair.alone->mbit() < slowest->alone->mbit() ? &pair : slowest;
    }
  }
  if (time == nullptr || time->bytes < kBusBytes || slowest == nullptr) {
    return;
  }
  const double bus = bus_bandwidth(*time);
  const double usual = median(std::move(speeds)) / kMbitOfGigabyte;
  const double least = slowest->alone->mbit() / kMbitOfGigabyte;
  const auto name = [&](int32_t node) { return all_.nodes[static_cast<size_t>(node)].name; };
  const std::string what =
      fmt::format("{} has a bus bandwidth of {}", name_of_call(kAllReduce, time->bytes), short_bandwidth(bus));
  // The flow of a virtual interface is that of the CPUs, which the library needs for more than that.
  const bool hardware = std::ranges::all_of(all_.nodes, [](const TestedNode& one) { return one.line_mbit > 0; });
  if (least < kSlowPair * usual && bus < kLowBusShare * usual) {
    add("", Outcome::kWarning,
        fmt::format("{}, TCP alone one of {} between most nodes: every collective waits for its slowest link, {} -> {} "
                    "with {}",
                    what, short_bandwidth(usual), name(slowest->from), name(slowest->to), short_bandwidth(least)),
        "mend that link, or leave the node out: the lines of `bandwidth` above");
  } else if (hardware && bus < kLowBusShare * least) {
    add("", Outcome::kWarning,
        fmt::format("{}, TCP alone one of {} and more between all nodes", what, short_bandwidth(least)),
        "does NCCL take the interface that was tested (NCCL_DEBUG=INFO)? With sockets NCCL_SOCKET_NTHREADS and "
        "NCCL_NSOCKS_PERTHREAD; is the GPU close to the card (topology)?");
  }
}

void CollectivesJudge::summarise() {
  const CollectiveTime* largest = largest_all_reduce();
  if (largest == nullptr) {
    return;
  }
  const auto smallest = std::ranges::find(results_.times, kAllReduce, &CollectiveTime::operation);
  const bool right = results_.wrong.empty() && results_.faults.empty();
  add("", Outcome::kOk,
      fmt::format("{}: algorithm bandwidth {}, bus bandwidth {}; {}: {}{}", name_of_call(kAllReduce, largest->bytes),
                  short_bandwidth(algbw(largest->bytes, largest->average_ns)), short_bandwidth(bus_bandwidth(*largest)),
                  name_of_call(kAllReduce, smallest->bytes), format_duration(smallest->average_ns),
                  right ? results_.cut_short ? "; all results are right; the rest was not made, its time was over"
                                             : "; all results are right"
                        : ""));
}

}  // namespace

std::vector<HostCheck> judge_collectives(const LaunchResults& results) {
  return results.collectives ? CollectivesJudge(results).run() : std::vector<HostCheck>();
}

}  // namespace stalltrace::preflight
