// SPDX-License-Identifier: Apache-2.0
#include "capture/host/port_counters.h"

#include <array>

namespace stalltrace::capture {

std::span<const std::string_view> recorded_port_counters() {
  static constexpr std::array<std::string_view, 32> kReported = {
      // errors of the link
      "symbol_error",
      "link_error_recovery",
      "link_downed",
      "port_rcv_errors",
      "port_rcv_remote_physical_errors",
      "port_rcv_switch_relay_errors",
      "port_rcv_constraint_errors",
      "port_xmit_constraint_errors",
      "local_link_integrity_errors",
      "excessive_buffer_overrun_errors",
      "rx_icrc_encapsulated",
      // packets that did not arrive
      "port_xmit_discards",
      "VL15_dropped",
      "out_of_buffer",
      "out_of_sequence",
      "packet_seq_err",
      "duplicate_request",
      "implied_nak_seq_err",
      "local_ack_timeout_err",
      "rnr_nak_retry_err",
      "req_transport_retries_exceeded",
      "req_rnr_retries_exceeded",
      "req_cqe_error",
      "resp_cqe_error",
      "roce_adp_retrans",
      "roce_slow_restart",
      // congestion
      "port_xmit_wait",
      "np_cnp_sent",
      "np_ecn_marked_roce_packets",
      "rp_cnp_handled",
      // data
      "port_xmit_data",
      "port_rcv_data",
  };
  return kReported;
}

}  // namespace stalltrace::capture
