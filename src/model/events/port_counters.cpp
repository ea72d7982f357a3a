// SPDX-License-Identifier: Apache-2.0
#include "model/events/port_counters.h"

#include <algorithm>
#include <array>

namespace stalltrace {

std::span<const PortCounterName> port_counter_names() {
  using enum PortCounterKind;
  static constexpr auto kNames = std::to_array<PortCounterName>({
      {"symbol_error", kError, "bit errors of the physical link",
       "clean or replace the cable or transceiver, then try another switch port"},
      {"link_error_recovery", kError, "the link was trained again after errors, and came back",
       "clean or replace the cable or transceiver, then try another switch port"},
      {"link_downed", kError, "the link was trained again, failed, and went down",
       "a restart at either end counts too; else replace the cable or transceiver, then try another switch port"},
      {"port_rcv_errors", kError, "packets arrived with physical errors, malformed, or without a buffer for them",
       "with symbol_error look at this port's cable; without it, at the counters of the switch ports on the way "
       "(ibqueryerrors)"},
      {"port_rcv_remote_physical_errors", kError, "packets arrived that a switch on the way had marked as bad",
       "the bad link is farther away: look at the counters of the switch ports on the way (ibqueryerrors)"},
      {"port_rcv_switch_relay_errors", kAmbiguous,
       "packets that a switch could not forward, such as those of a multicast group without members",
       "none, unless it grows with a job's errors: then the subnet manager's routes"},
      {"port_rcv_constraint_errors", kError, "packets were refused on arrival: wrong partition key, or raw",
       "compare the partition keys of the nodes with the subnet manager's (smpquery pkeys)"},
      {"port_xmit_constraint_errors", kError, "packets were not sent: wrong partition key, or raw",
       "compare the partition keys of the nodes with the subnet manager's (smpquery pkeys)"},
      {"local_link_integrity_errors", kError, "physical errors on the link came more often than the port allows",
       "clean or replace the cable or transceiver, then try another switch port"},
      {"excessive_buffer_overrun_errors", kError,
       "the neighbour sent more than this port had buffers for, several times in a row",
       "update the firmware of the card and its switch; if it goes on, replace the cable"},
      {"rx_icrc_encapsulated", kError, "RoCE packets arrived with a wrong checksum (ICRC)",
       "a cable, transceiver or switch on the way damages packets: look at the counters of its ports"},
      {"port_xmit_discards", kError, "packets to be sent were dropped: the port was down or congested",
       "look whether the link went down; else at congestion: ECN, PFC or credits, and the speed of the neighbour"},
      {"VL15_dropped", kAmbiguous, "management packets that found no buffer",
       "none, unless ports lose their state: then the load of the subnet manager"},
      {"out_of_buffer", kError, "packets were dropped since no receive request was posted for them",
       "the receiving program is late: its CPU time and binding; other programs that use the card"},
      {"out_of_sequence", kAmbiguous, "packets arrived out of order",
       "none with adaptive routing; else look for loss on the way: drops of the switch ports, PFC"},
      {"packet_seq_err", kError, "the peer reported missing packets (NAK), which were sent again",
       "look for loss on the way: drops of the switch ports; with RoCE PFC and ECN on every hop"},
      {"duplicate_request", kAmbiguous, "requests arrived again that were done already",
       "look for loss on the way if local_ack_timeout_err of the peer grows too"},
      {"implied_nak_seq_err", kError, "an answer to a read was missing, as a later acknowledgement showed",
       "look for loss on the way: drops of the switch ports; with RoCE PFC and ECN on every hop"},
      {"local_ack_timeout_err", kError, "no acknowledgement came in time, and packets were sent again",
       "look for loss on the way and at the peer: a link that was down, drops of the switch ports, PFC"},
      {"rnr_nak_retry_err", kError, "the peer had no receive request posted (RNR NAK), and packets were sent again",
       "the peer's program is late: its CPU time and binding"},
      {"req_transport_retries_exceeded", kError,
       "packets were sent again as often as allowed, in vain: a connection failed",
       "find the link or peer that was down: switch ports, the peer's log; NCCL logs status 12"},
      {"req_rnr_retries_exceeded", kError, "the peer had no receive request posted for too long: a connection failed",
       "the peer's program hung or ended: its log and CPU time; NCCL logs status 13"},
      {"req_cqe_error", kError, "requests that this port sent ended with an error",
       "a job that was killed counts too; else look for the status in the log of NCCL"},
      {"resp_cqe_error", kError, "requests that this port received ended with an error",
       "a job that was killed counts too; else look for the status in the log of NCCL"},
      {"roce_adp_retrans", kError,
       "RoCE packets were sent again before the time for it was over (adaptive retransmission)",
       "look for loss on the way: drops of the switch ports, PFC and ECN on every hop"},
      {"roce_slow_restart", kAmbiguous, "connections began slowly again after a pause", "none"},
      {"port_xmit_wait", kNoCredit, "ticks in which there was data to send, and the neighbour had no room",
       "look for the receiver that is slow, and for other jobs on the same switches"},
      {"np_cnp_sent", kMarked, "notifications of congestion that this port sent for marked packets",
       "look which senders share the way to this port"},
      {"np_ecn_marked_roce_packets", kMarked, "packets that a switch had marked for congestion",
       "look which senders share the way to this port"},
      {"rp_cnp_handled", kThrottled, "notifications that made this port send more slowly",
       "look for the receiver whose port is full"},
      // The names of Broadcom's driver, bnxt_re.
      {"tx_cnp_pkts", kMarked, "notifications of congestion that this port sent for marked packets",
       "look which senders share the way to this port"},
      {"rx_ecn_marked_pkts", kMarked, "packets that a switch had marked for congestion",
       "look which senders share the way to this port"},
      {"rx_cnp_pkts", kThrottled, "notifications that made this port send more slowly",
       "look for the receiver whose port is full"},
      {"port_xmit_data", kData, "data sent, in units of 4 bytes", "none"},
      {"port_rcv_data", kData, "data received, in units of 4 bytes", "none"},
  });
  return kNames;
}

std::optional<PortCounterKind> kind_of_port_counter(std::string_view name) {
  const std::span<const PortCounterName> names = port_counter_names();
  const auto found = std::ranges::find(names, name, &PortCounterName::name);
  return found == names.end() ? std::nullopt : std::optional(found->kind);
}

}  // namespace stalltrace
