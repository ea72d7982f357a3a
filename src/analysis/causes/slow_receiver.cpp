// SPDX-License-Identifier: Apache-2.0
// slow_receiver: the sender is limited by the receiver's window, and at the receiver data lie unread: its process does
// not read as fast as the network delivers. Of a chain of such links the last one is told: a rank that cannot send on
// stops reading, too.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analysis/causes/cause.h"
#include "analysis/causes/links.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr const char* kLimited = "limited";
constexpr const char* kUnread = "unread";

struct Limited {
  FlowIndex flow = kNoFlow;
  double share = 0;
  int64_t limited_ns = 0;
  int64_t unread = 0;
};

std::vector<Limited> limited_flows(const Scene& scene, const Stall& stall) {
  std::vector<Limited> limited;
  for (const FlowIndex index : flows_of(scene, stall)) {
    const FlowDelta delta = scene.evidence.delta(index, stall.examined());
    const double share = share_of(delta.receiver_limited_ns, delta.span_ns);
    if (share < kReceiverLimitedShare) {
      continue;
    }
    const FlowIndex reverse = scene.flows.flow(index).reverse;
    const FlowDelta other = reverse == kNoFlow ? FlowDelta{} : scene.evidence.delta(reverse, stall.examined());
    if (2 * other.unread >= other.samples) {
      limited.push_back({index, share, delta.receiver_limited_ns, other.unread});
    }
  }
  return limited;
}

void judge(const Scene& scene, const Stall& stall, std::vector<Explanation>& out) {
  if (!network_may_be_slow(stall)) {
    return;
  }
  const std::vector<Limited> limited = limited_flows(scene, stall);
  std::set<MemberIndex> held_up;  // their own sending waits for somebody
  for (const Limited& link : limited) {
    held_up.insert(scene.flows.flow(link.flow).owner);
  }
  for (const Limited& link : limited) {
    const MemberIndex receiver = scene.flows.flow(link.flow).peer;
    if (held_up.contains(receiver)) {
      continue;
    }
    Explanation opinion{.cause = Cause::kSlowReceiver, .place = link_of(scene.flows, link.flow)};
    opinion.place.culprit = receiver;
    opinion.coverage = link.share;
    opinion.applies = link.share >= kCoverage;
    opinion.why =
        fmt::format("the sender had to wait for the receiver's window for {:.0f} % of the stall", 100 * link.share);
    opinion.tallies[{kLimited, ""}] = {1, link.limited_ns, {}};
    opinion.tallies[{kUnread, ""}].count = link.unread;
    out.push_back(std::move(opinion));
  }
}

void tell(const Scene& scene, const Folded& group, Finding& finding) {
  const bool known = group.place.culprit != kNoMember;
  finding.summary = known ? fmt::format("{} does not read what it receives fast enough: {}.",
                                        capitalised(scene.cluster.describe(group.place.culprit)), cost_text(group))
                          : fmt::format("The receiver {} does not read fast enough: {}.", link_text(scene, group.place),
                                        cost_text(group));
  finding.link = link_place(scene, group.place);
  finding.evidence.push_back(
      {"tcp_sample",
       static_cast<int64_t>(group.stalls.size()),
       fmt::format(
           "the sender's window was closed by the receiver for {:.0f} % of the stalls, data lay unread there in "
           "{}",
           100 * group.coverage, count_of(tally_of(group.tallies, kUnread).count, "sample")),
       {}});
  finding.remedy =
      "see what slows the receiving process down: its network threads' cores, copies to the device (PCIe width), and "
      "socket buffers that are too small for the path (net.ipv4.tcp_rmem)";
}

}  // namespace

const CauseRule kSlowReceiverRule{Cause::kSlowReceiver, kSlowReceiverGate, judge, nullptr, tell};

}  // namespace stalltrace::analysis
