// SPDX-License-Identifier: Apache-2.0
// Connections whose data are not acknowledged, or not read.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "autopsy/judge/job.h"
#include "autopsy/judge/thresholds.h"
#include "base/clock.h"
#include "base/text.h"

namespace stalltrace::autopsy {
namespace {

/// A connection that repeats one segment in vain. Ends without a rank are on another host.
struct SilentLink {
  size_t sender = 0;
  std::optional<size_t> receiver;
  bool acknowledgements = false;  // the data arrive; what is lost are the acknowledgements
  bool direction_known = true;    // false: the ends were seen at different times, and their counters do not compare
  const TcpSocket* socket = nullptr;

  /// The direction in which packets are lost, by rank; nullopt for an end on another host.
  [[nodiscard]] std::optional<size_t> lost_from() const { return acknowledgements ? receiver : sender; }
  [[nodiscard]] std::optional<size_t> lost_to() const { return acknowledgements ? sender : receiver; }
};

bool repeats_in_vain(const Job& job, size_t rank, const TcpSocket& socket) {
  const TcpSocket* before = job.before(rank, socket);
  return socket.state != TcpState::kSynSent && socket.timer == Timer::kRetransmit && socket.tries >= kTriesOfSilence &&
         before != nullptr && before->acked == socket.acked;
}

std::vector<SilentLink> silent_links(const Job& job) {
  std::vector<SilentLink> links;
  for (const RankConnection& connection : job.connections()) {
    if (repeats_in_vain(job, connection.from, *connection.socket)) {
      const bool together = job.together(std::array{connection.from, connection.to});
      // The SYN counts as one byte that was acknowledged.
      const bool arrived = together && connection.other->received > connection.socket->acked;
      links.push_back({connection.from, connection.to, arrived, together, connection.socket});
    }
  }
  for (const OutsideConnection& connection : job.outside()) {
    if (repeats_in_vain(job, connection.from, *connection.socket)) {
      links.push_back({connection.from, std::nullopt, false, true, connection.socket});
    }
  }
  return links;
}

/// The rank that all links have in common, if they lead to several others.
std::optional<size_t> common_rank(const std::vector<SilentLink>& links) {
  for (const std::optional<size_t>& candidate : {links.front().lost_to(), links.front().lost_from()}) {
    std::set<std::optional<size_t>> others;
    const bool all = candidate && std::ranges::all_of(links, [&](const SilentLink& link) {
                       others.insert(link.lost_from() == candidate ? link.lost_to() : link.lost_from());
                       return link.lost_from() == candidate || link.lost_to() == candidate;
                     });
    if (all && others.size() > 1) {
      return candidate;
    }
  }
  return std::nullopt;
}

LinkEndpoints endpoints(const Job& job, const SilentLink& link) {
  const auto rank = [&](std::optional<size_t> end) { return end ? job.ranks()[*end].rank : std::nullopt; };
  const bool turned = link.acknowledgements;
  return {rank(link.lost_from()), rank(link.lost_to()), turned ? link.socket->remote : link.socket->local,
          turned ? link.socket->local : link.socket->remote};
}

std::string end_text(const Job& job, std::optional<size_t> rank, const Endpoint& end) {
  return rank ? fmt::format("{} ({})", job.short_name(*rank), end.address) : end.address;
}

Evidence evidence_of(const Job& job, const SilentLink& link) {
  const TcpSocket& socket = *link.socket;
  return {"sock_diag",
          static_cast<int64_t>(socket.tries),
          fmt::format(
              "{} has {} unacknowledged to {} and has repeated them {} times in vain; its time-out has grown to "
              "{}{}",
              end_text(job, link.sender, socket.local),
              format_size(socket.send_queue - std::min(socket.not_sent, socket.send_queue)),
              end_text(job, link.receiver, socket.remote), socket.tries, format_duration(socket.time_out_ms * kNsPerMs),
              link.acknowledgements ? "; the data have arrived there: the acknowledgements are lost" : ""),
          {}};
}

/// A connection that could not be made.
void find_unanswered(const Job& job, std::vector<Finding>& findings) {
  for (size_t i = 0; i < job.ranks().size(); ++i) {
    for (const TcpSocket& socket : job.ranks()[i].sockets) {
      if (socket.state != TcpState::kSynSent || socket.tries < kTriesOfSilence || job.before(i, socket) == nullptr) {
        continue;
      }
      Finding finding = job.finding(Cause::kInitFailure, Severity::kCritical, 0.85);
      finding.op = Operation::kCommInitRank;
      finding.link = LinkEndpoints{job.ranks()[i].rank, std::nullopt, socket.local, socket.remote};
      finding.summary = fmt::format("{} can't connect to {}: nothing answers.", capitalised(job.name(i)),
                                    format_endpoint(socket.remote));
      finding.evidence.push_back(
          {"sock_diag",
           static_cast<int64_t>(socket.tries),
           fmt::format("its request for a connection (SYN_SENT) was repeated {} times", socket.tries),
           {}});
      finding.remedy = fmt::format(
          "check that {} is the address that the job means (MASTER_ADDR, NCCL_SOCKET_IFNAME), "
          "that its host is up, and that no firewall drops the port",
          format_endpoint(socket.remote));
      findings.push_back(std::move(finding));
      break;  // one for each rank
    }
  }
}

}  // namespace

void find_silent_links(const Job& job, std::vector<Finding>& findings) {
  find_unanswered(job, findings);
  std::vector<SilentLink> links = silent_links(job);
  while (!links.empty()) {
    const std::optional<size_t> node = common_rank(links);
    std::vector<SilentLink> together = links;
    if (!node) {  // the links between one pair of ranks belong together
      std::erase_if(together, [&](const SilentLink& link) {
        return link.lost_from() != links.front().lost_from() || link.lost_to() != links.front().lost_to();
      });
    }
    std::erase_if(links, [&](const SilentLink& link) {
      return std::ranges::any_of(together, [&](const SilentLink& taken) { return taken.socket == link.socket; });
    });
    const SilentLink& first = together.front();
    Finding finding = job.finding(Cause::kPartition, Severity::kCritical, 0.9);
    finding.link = endpoints(job, first);
    const std::string from = end_text(job, first.lost_from(), *finding.link->src);
    const std::string to = end_text(job, first.lost_to(), *finding.link->dst);
    const std::string path =
        first.direction_known ? fmt::format("from {} to {}", from, to) : fmt::format("between {} and {}", from, to);
    if (node) {
      finding.culprit = job.culprit(*node);
    }
    finding.summary = fmt::format("Nothing gets through {}: the job has hung {}.",
                                  node ? fmt::format("from or to {}", job.name(*node)) : path, waited_text(job));
    const auto apart = std::ranges::find(together, false, &SilentLink::direction_known);
    if (apart != together.end()) {
      job.limit_confidence(finding, std::array{apart->sender, apart->receiver.value_or(apart->sender)});
    }
    constexpr size_t kListed = 4;
    for (size_t i = 0; i < std::min(together.size(), kListed); ++i) {
      finding.evidence.push_back(evidence_of(job, together[i]));
    }
    add_waiting(job, finding);
    finding.remedy = fmt::format(
        "check the way {} (ping between exactly these addresses, then ping -M do -s 1472 for full-size packets): link "
        "state, cable, switch, firewall, MTU",
        path);
    findings.push_back(std::move(finding));
  }
}

void find_unread(const Job& job, std::vector<Finding>& findings) {
  std::map<size_t, std::vector<const RankConnection*>> by_receiver;
  for (const RankConnection& connection : job.connections()) {
    const TcpSocket* before = job.before(connection.to, *connection.other);
    const bool together = job.together(std::array{connection.from, connection.to});
    const bool unread = together && connection.other->receive_queue >= kUnreadBytes && before != nullptr &&
                        before->receive_queue == connection.other->receive_queue &&
                        before->received == connection.other->received;
    if (unread && connection.socket->timer == Timer::kWindowProbe && !job.stopped(connection.to)) {
      by_receiver[connection.to].push_back(&connection);
    }
  }
  for (const auto& [receiver, connections] : by_receiver) {
    const RankConnection& one = *connections.front();
    Evidence evidence{
        "sock_diag",
        static_cast<int64_t>(connections.size()),
        fmt::format("{} has {} in its socket that it does not read; {} has {} left to send to it and only "
                    "probes its closed window",
                    job.short_name(receiver), format_size(one.other->receive_queue), job.short_name(one.from),
                    format_size(one.socket->send_queue)),
        {}};
    const auto blamed = std::ranges::find_if(findings, [&, rank = receiver](const Finding& finding) {
      return finding.culprit && finding.culprit->pid == job.ranks()[rank].pid &&
             finding.culprit->node == job.ranks()[rank].node;
    });
    if (blamed != findings.end()) {
      blamed->evidence.push_back(std::move(evidence));
      continue;
    }
    Finding finding = job.finding(Cause::kSlowReceiver, Severity::kCritical, 0.8);
    finding.culprit = job.culprit(receiver);
    finding.link =
        LinkEndpoints{job.ranks()[one.from].rank, job.ranks()[receiver].rank, one.socket->local, one.socket->remote};
    finding.summary = fmt::format("{} does not read what other ranks send to it; it is {}: the job has hung {}.",
                                  capitalised(job.name(receiver)), job.doing(receiver), waited_text(job));
    finding.evidence.push_back(std::move(evidence));
    add_waiting(job, finding);
    finding.remedy = fmt::format("see what the network thread of pid {} on {} does (gdb, stalltrace stacks --pid {})",
                                 job.ranks()[receiver].pid, job.ranks()[receiver].node, job.ranks()[receiver].pid);
    findings.push_back(std::move(finding));
  }
}

}  // namespace stalltrace::autopsy
