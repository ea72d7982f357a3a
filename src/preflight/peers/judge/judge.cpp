// SPDX-License-Identifier: Apache-2.0
#include "preflight/peers/judge/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "base/numbers/median.h"
#include "base/text.h"
#include "preflight/peers/endpoint.h"
#include "preflight/peers/judge/collectives.h"
#include "preflight/peers/judge/links_at_fault.h"
#include "preflight/peers/judge/thresholds.h"
#include "preflight/preflight.h"

namespace stalltrace::preflight {
namespace {

std::string percent(double share) { return fmt::format("{:.3g} %", share * 100); }

double loss_of(const Flow& flow) {
  return flow.segments > 0 ? static_cast<double>(flow.retransmits) / static_cast<double>(flow.segments) : 0;
}

/// Sorted numbers, and the median of all but one of them.
class Others {
 public:
  explicit Others(std::vector<double> values) : sorted_(std::move(values)) { std::ranges::sort(sorted_); }
  [[nodiscard]] bool any() const { return sorted_.size() > 1; }
  [[nodiscard]] double median() const { return sorted_.empty() ? 0 : sorted_[sorted_.size() / 2]; }
  [[nodiscard]] double median_without(double value) const {
    const auto own = static_cast<size_t>(std::ranges::lower_bound(sorted_, value) - sorted_.begin());
    const size_t middle = (sorted_.size() - 1) / 2;
    return sorted_[middle >= own ? middle + 1 : middle];
  }
  [[nodiscard]] double most() const { return sorted_.empty() ? 0 : sorted_.back(); }

 private:
  std::vector<double> sorted_;
};

class Judge {
 public:
  explicit Judge(const LaunchResults& results) : results_(results), links_(results) {}

  Judgement run() {
    made_.checks = compare_hosts(results_.reports);
    std::ranges::copy(results_.launch_checks, std::back_inserter(made_.checks));
    check_starts();
    check_names();
    check_reach();
    check_path_mtu();
    check_flows();
    check_together();
    check_barrier();
    std::ranges::move(judge_collectives(results_), std::back_inserter(made_.checks));
    made_.pairs = links_.worst();
    return std::move(made_);
  }

 private:
  [[nodiscard]] const TestedNode& node(int32_t index) const { return results_.nodes[static_cast<size_t>(index)]; }
  [[nodiscard]] std::string rank_name(const TestedRank& rank) const {
    return fmt::format("rank {} on {}", rank.rank, node(rank.node).name);
  }
  void add(std::string_view check, std::string subject, Outcome outcome, std::string detail, std::string remedy = {}) {
    made_.checks.push_back({std::string(check), std::move(subject), outcome, std::move(detail), std::move(remedy)});
  }
  void flush(std::string_view check) { std::ranges::move(links_.take(check), std::back_inserter(made_.checks)); }
  /// Of the flows of which anything arrived.
  [[nodiscard]] Others speeds_alone() const {
    return over([](const PairResult& pair) {
      return pair.alone && !pair.stuck() ? std::optional(pair.alone->mbit()) : std::nullopt;
    });
  }
  [[nodiscard]] Others over(const std::function<std::optional<double>(const PairResult&)>& number) const {
    std::vector<double> values;
    for (const PairResult& pair : results_.pairs) {
      if (const auto value = number(pair)) {
        values.push_back(*value);
      }
    }
    return Others(std::move(values));
  }

  void check_starts();
  void check_names();
  void check_reach();
  void check_path_mtu();
  void check_flows();
  bool check_loss(const PairResult& pair);
  void check_line(const PairResult& pair, const Flow& flow);
  void add_stuck(const PairResult& pair);
  void add_unopened(const PairResult& pair);
  void check_together();
  void check_barrier();

  const LaunchResults& results_;
  LinksAtFault links_;
  Judgement made_;
  std::set<Pair> black_holes_;
};

void Judge::check_starts() {
  for (const TestedRank& rank : results_.ranks) {
    if (rank.joined_ns > kLateStartNs) {
      add("launch", rank_name(rank), Outcome::kWarning,
          fmt::format("came {} after the first", format_duration(rank.joined_ns)),
          "what does it do before: a slow file system, an image that is fetched, a queue for nodes?");
    }
  }
}

void Judge::check_names() {
  for (const TestedNode& one : results_.nodes) {
    for (const WrongName& wrong : one.wrong_names) {
      const bool loopback = wrong.address.has_value();
      add("name", one.name, loopback ? Outcome::kFailed : Outcome::kWarning,
          fmt::format("by its hosts file and name servers {} is {}", wrong.name,
                      loopback ? *wrong.address + ", its own loopback" : "not found"),
          loopback ? "remove that line of its /etc/hosts"
                   : "add it to /etc/hosts or the name servers, or give launchers addresses instead of names");
    }
  }
}

void Judge::check_reach() {
  int64_t reached = 0;
  for (const PairResult& pair : results_.pairs) {
    const auto bad = [&](std::string detail, std::string remedy) {
      links_.add(pair, Outcome::kFailed, std::move(detail), std::move(remedy));
    };
    switch (pair.reach) {
      case Reach::kReached:
        ++reached;
        break;
      case Reach::kRefused:
        bad(fmt::format("{}: refused ({})", node(pair.to).address, pair.reach_detail),
            "a firewall rejects ports that the kernel chose, as NCCL's are: open net.ipv4.ip_local_port_range between "
            "the nodes");
        break;
      case Reach::kTimedOut:
        bad(fmt::format("{}: {}", node(pair.to).address, pair.reach_detail),
            "a firewall drops it, or the answer takes another way back: nft list ruleset, ip route get, on both");
        break;
      case Reach::kUnreachable:
        bad(fmt::format("{}: {}", node(pair.to).address, pair.reach_detail),
            "ip route get: is it in the subnet of the interface that NCCL takes (NCCL_SOCKET_IFNAME)?");
        break;
      case Reach::kBroken:
        bad(fmt::format("{}: {}", node(pair.to).address, pair.reach_detail),
            "a proxy or a firewall that answers for the node, or heavy loss: ip route get, nft list ruleset");
        break;
      case Reach::kNotTested:
        break;  // its rank is among the launch's checks
    }
  }
  flush("reach");
  const Others medians = over([](const PairResult& pair) {
    return pair.latency ? std::optional(static_cast<double>(pair.latency->median_ns)) : std::nullopt;
  });
  for (const PairResult& pair : results_.pairs) {
    if (!pair.latency || !medians.any()) {
      continue;
    }
    const double others = medians.median_without(static_cast<double>(pair.latency->median_ns));
    const double more = static_cast<double>(pair.latency->median_ns) - others;
    if (static_cast<double>(pair.latency->median_ns) > static_cast<double>(kLatencyFactor) * others &&
        more > static_cast<double>(kLatencyNs)) {
      links_.add(pair, Outcome::kWarning,
                 fmt::format("round trip {}, of other pairs {}", format_duration(pair.latency->median_ns),
                             format_duration(static_cast<int64_t>(others))),
                 "another way through the network, or a busy node: traceroute both ways, CPU load, interrupts");
    }
  }
  flush("latency");
  if (reached > 0) {
    add("reach", "", Outcome::kOk,
        fmt::format("{} of {}, median round trip {}, slowest pair {}", reached,
                    count_of(static_cast<int64_t>(results_.pairs.size()), "direction"),
                    format_duration(static_cast<int64_t>(medians.median())),
                    format_duration(static_cast<int64_t>(medians.most()))));
  }
}

void Judge::check_path_mtu() {
  std::set<int64_t> whole;
  for (const PairResult& pair : results_.pairs) {
    if (!pair.mtu) {
      continue;
    }
    const PathMtu& mtu = *pair.mtu;
    const int64_t far = node(pair.to).mtu;
    const bool small_only = pair.stuck() && pair.small && pair.small->bytes >= kSmallSegment;
    const bool far_limit = far > 0 && far < mtu.own && mtu.largest >= far;
    const bool udp_vanishes = mtu.largest > 0 && mtu.largest < mtu.own && !far_limit && mtu.reported == 0;
    if (small_only && !udp_vanishes) {
      black_holes_.insert({pair.from, pair.to});
      links_.add(
          pair, Outcome::kFailed,
          fmt::format("black hole: TCP segments of {} bytes pass, full-size ones vanish, {}; large messages hang",
                      kSmallSegment,
                      mtu.largest > 0 ? fmt::format("although UDP packets of {} bytes pass", mtu.largest)
                                      : "and no UDP packet arrives, which would show the limit"),
          mtu.largest > 0 ? "a firewall or tunnel that treats TCP differently: nft list ruleset, the device between "
                            "the nodes; until then sysctl net.ipv4.tcp_mtu_probing=1"
                          : "a switch or tunnel with a smaller MTU, or a firewall that drops ICMP: raise the MTU on "
                            "the way, or set that of the interfaces to what passes (let UDP pass for this test, and "
                            "it is measured); until then sysctl net.ipv4.tcp_mtu_probing=1");
    } else if (mtu.largest == mtu.own) {
      whole.insert(mtu.own);
    } else if (mtu.largest == 0) {
      links_.add(pair, Outcome::kUnknown, "no UDP packet arrives: the path MTU can't be tested",
                 "let UDP pass between the nodes for this test");
    } else if (far_limit) {
      links_.add(pair, Outcome::kWarning,
                 fmt::format("the MTU is {} here and {} there: TCP adapts, RoCE and UDP do not", mtu.own, far),
                 "give both interfaces the same MTU");
    } else if (mtu.reported > 0) {
      links_.add(pair, Outcome::kWarning,
                 fmt::format("a router's limit is {}, and it reports that: TCP adapts, after a loss", mtu.reported),
                 "a tunnel (VPN, VXLAN) on the way: set this MTU on the interfaces, or raise it on the way");
    } else {
      black_holes_.insert({pair.from, pair.to});
      links_.add(
          pair, Outcome::kFailed,
          fmt::format("black hole: packets above {} bytes vanish, the MTU is {}; large messages hang", mtu.largest,
                      mtu.own),
          "a switch or tunnel with a smaller MTU, or a firewall that drops ICMP: raise the MTU on the way, or set "
          "that of the interfaces to what passes; until then sysctl net.ipv4.tcp_mtu_probing=1");
    }
  }
  flush("path_mtu");
  if (!whole.empty()) {
    add("path_mtu", "", Outcome::kOk, fmt::format("packets of {} bytes arrive whole", fmt::join(whole, ", ")));
  }
}

/// Whether loss explains why the pair is slow.
bool Judge::check_loss(const PairResult& pair) {
  const Flow& flow = pair.half_rate ? *pair.half_rate : *pair.alone;
  const double loss = loss_of(flow);
  if (flow.retransmits < kFewSegments || loss < kSomeLoss) {
    return false;
  }
  if (!pair.half_rate) {
    links_.add(pair, Outcome::kUnknown,
               fmt::format("{} of {} segments were sent again ({}) at full speed, which fills queues until they drop; "
                           "no flow at half the rate could be sent",
                           flow.retransmits, flow.segments, percent(loss)),
               "start it again, with --max-mbit below the speed of the way");
    return false;
  }
  links_.add(pair, loss >= kLoss ? Outcome::kFailed : Outcome::kWarning,
             fmt::format("{} of {} segments were sent again ({}), at {:.0f} Mbit/s", flow.retransmits, flow.segments,
                         percent(loss), flow.mbit()),
             "cable, transceiver, switch port: ethtool -S on both ends, the switch's counters");
  return loss >= kLoss;
}

void Judge::check_line(const PairResult& pair, const Flow& flow) {
  const int64_t from_mbit = node(pair.from).line_mbit;
  const int64_t to_mbit = node(pair.to).line_mbit;
  const auto line_mbit = static_cast<double>(from_mbit == 0 ? to_mbit
                                             : to_mbit == 0 ? from_mbit
                                                            : std::min(from_mbit, to_mbit));
  const bool network_is_limit = flow.waited > kNetworkIsLimit && flow.receiver < kReceiverIsLimit;
  if (line_mbit > 0 && network_is_limit && flow.mbit() < kLowLineShare * line_mbit) {
    links_.add(pair, flow.mbit() < kBrokenLineShare * line_mbit ? Outcome::kFailed : Outcome::kWarning,
               fmt::format("{:.0f} Mbit/s over interfaces of {:.0f}", flow.mbit(), line_mbit),
               "who else uses the way, and is any part of it slower? In a cloud: the limit of the instance type");
  }
}

/// Nothing of a flow arrived. Whether other pairs fare better says nothing here: all may be like that.
void Judge::add_stuck(const PairResult& pair) {
  const int64_t round_trip_ns = pair.latency ? pair.latency->median_ns : 0;
  if (pair.alone->duration_ns < kFewRoundTrips * round_trip_ns) {
    links_.add(pair, Outcome::kUnknown,
               fmt::format("nothing of a flow was acknowledged in {}, a round trip takes {}",
                           format_duration(pair.alone->duration_ns), format_duration(round_trip_ns)),
               "a longer --test-time");
    return;
  }
  links_.add(pair, Outcome::kFailed,
             fmt::format("nothing of a flow arrives{}, although 64 bytes come back at once",
                         pair.small ? fmt::format(", with segments of {} bytes neither", kSmallSegment) : ""),
             "a firewall, policer or proxy that lets only short connections pass, or heavy loss: nft list ruleset, "
             "tc qdisc, ethtool -S, on both ends and between them");
}

/// The peer was reached, and a connection of the flow was not opened.
void Judge::add_unopened(const PairResult& pair) {
  if (pair.flow_reach == Reach::kNotTested) {
    links_.add(pair, Outcome::kUnknown, fmt::format("no flow could be sent: {}", pair.flow_detail),
               "on the node that sends: ulimit -n, sysctl net.ipv4.ip_local_port_range, its memory");
  } else {
    links_.add(
        pair, Outcome::kFailed,
        fmt::format("{} was reached, and then a connection of the flow was not opened, or was closed at once: {}",
                    node(pair.to).address, pair.flow_detail),
        "a firewall or proxy that limits how many connections a host opens, or how fast; heavy loss: nft list "
        "ruleset on both ends and between them");
  }
}

void Judge::check_flows() {
  const Others speeds = speeds_alone();
  std::vector<const PairResult*> tested;
  std::vector<const PairResult*> stuck;
  for (const PairResult& pair : results_.pairs) {
    if (!pair.alone || black_holes_.contains({pair.from, pair.to})) {
      continue;
    }
    if (pair.stuck()) {
      stuck.push_back(&pair);
    } else if (!check_loss(pair)) {
      tested.push_back(&pair);  // loss explains why a flow is slow
    }
  }
  flush("retransmits");
  for (const PairResult* pair : stuck) {
    add_stuck(*pair);
  }
  for (const PairResult& pair : results_.pairs) {
    if (pair.reach == Reach::kReached && pair.flow_reach != Reach::kReached) {
      add_unopened(pair);
    }
  }
  for (const PairResult* pair : tested) {
    const double mbit = pair->alone->mbit();
    const double others = speeds.any() ? speeds.median_without(mbit) : 0;
    if (mbit < kSlowPair * others) {
      links_.add(*pair, mbit < kVerySlowPair * others ? Outcome::kFailed : Outcome::kWarning,
                 fmt::format("{:.0f} Mbit/s, of other pairs {:.0f}", mbit, others),
                 "speed and duplex of the interface and its switch port (ethtool), a rate limit (tc qdisc), CPU load");
    } else {
      check_line(*pair, *pair->alone);
    }
  }
  flush("bandwidth");
  if (speeds.most() > 0) {
    add("bandwidth", "", Outcome::kOk,
        fmt::format("median {:.0f} Mbit/s, each node in one pair at a time", speeds.median()));
  }
}

void Judge::check_together() {
  const Others speeds =
      over([](const PairResult& pair) { return pair.together ? std::optional(pair.together->mbit()) : std::nullopt; });
  const Others alone = speeds_alone();
  if (speeds.most() <= 0) {
    return;
  }
  const bool real = std::ranges::any_of(results_.nodes, [](const TestedNode& one) { return one.line_mbit > 0; });
  const bool shared = real && speeds.median() < kSlowPair * alone.median();
  add("all_at_once", "", shared ? Outcome::kWarning : Outcome::kOk,
      fmt::format("each node sends to the next: median {:.0f} Mbit/s, alone {:.0f}", speeds.median(), alone.median()),
      shared ? "the nodes share a link that is too small for all (oversubscription), or their CPUs: order the ranks so "
               "that neighbours are close"
             : "");
}

void Judge::check_barrier() {
  std::vector<double> medians;
  for (const TestedRank& rank : results_.ranks) {
    if (!rank.arrivals_ns.empty()) {
      medians.push_back(static_cast<double>(median_arrival_ns(rank)));
    }
  }
  const Others ranks(medians);
  if (medians.empty()) {
    return;
  }
  for (const TestedRank& rank : results_.ranks) {
    if (rank.arrivals_ns.empty() || !ranks.any()) {
      continue;
    }
    const auto own = static_cast<double>(median_arrival_ns(rank));
    const double others = ranks.median_without(own);
    const int64_t longest_ns = *std::ranges::max_element(rank.arrivals_ns);
    const bool bad =
        own > static_cast<double>(kBadStragglerFactor) * others && own - others > static_cast<double>(kBadStragglerNs);
    const bool late =
        own > static_cast<double>(kStragglerFactor) * others && own - others > static_cast<double>(kStragglerNs);
    if (bad || late) {
      add("barrier", rank_name(rank), bad ? Outcome::kFailed : Outcome::kWarning,
          fmt::format("arrives after {}, {:.1f} times as long as other ranks ({})",
                      format_duration(static_cast<int64_t>(own)), own / std::max(others, 1.0),
                      format_duration(static_cast<int64_t>(others))),
          "what runs on its CPUs (top), its cgroup's CPU quota, its clock speed; the latency of its links above");
    } else if (longest_ns > kPauseNs) {
      const auto pauses =
          std::ranges::count_if(rank.arrivals_ns, [](int64_t arrival_ns) { return arrival_ns > kPauseNs; });
      add("barrier", rank_name(rank), Outcome::kWarning,
          fmt::format("paused in {} of {}, the longest time for {}", pauses,
                      count_of(static_cast<int64_t>(rank.arrivals_ns.size()), "round"), format_duration(longest_ns)),
          "a stopped or starved process, or a packet that was lost: what else runs there (top), retransmits above");
    }
  }
  add("barrier", "", Outcome::kOk,
      fmt::format("median arrival {}, of the slowest rank {}", format_duration(static_cast<int64_t>(ranks.median())),
                  format_duration(static_cast<int64_t>(ranks.most()))));
}

}  // namespace

bool Judgement::failed() const {
  return std::ranges::any_of(checks, [](const HostCheck& one) { return one.outcome == Outcome::kFailed; });
}

int64_t median_arrival_ns(const TestedRank& rank) { return median(rank.arrivals_ns); }

Judgement judge(const LaunchResults& results) { return Judge(results).run(); }

}  // namespace stalltrace::preflight
