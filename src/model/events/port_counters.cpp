// SPDX-License-Identifier: Apache-2.0
#include "model/events/port_counters.h"

#include <algorithm>
#include <array>

namespace stalltrace {
namespace {

constexpr std::array kNames = {
    PortCounterName{"symbol_error", PortCounterKind::kError},
    PortCounterName{"link_error_recovery", PortCounterKind::kError},
    PortCounterName{"link_downed", PortCounterKind::kError},
    PortCounterName{"port_rcv_errors", PortCounterKind::kError},
    PortCounterName{"port_rcv_remote_physical_errors", PortCounterKind::kError},
    PortCounterName{"port_rcv_switch_relay_errors", PortCounterKind::kAmbiguous},
    PortCounterName{"port_rcv_constraint_errors", PortCounterKind::kError},
    PortCounterName{"port_xmit_constraint_errors", PortCounterKind::kError},
    PortCounterName{"local_link_integrity_errors", PortCounterKind::kError},
    PortCounterName{"excessive_buffer_overrun_errors", PortCounterKind::kError},
    PortCounterName{"rx_icrc_encapsulated", PortCounterKind::kError},
    PortCounterName{"port_xmit_discards", PortCounterKind::kError},
    PortCounterName{"VL15_dropped", PortCounterKind::kAmbiguous},
    PortCounterName{"out_of_buffer", PortCounterKind::kError},
    PortCounterName{"out_of_sequence", PortCounterKind::kAmbiguous},
    PortCounterName{"packet_seq_err", PortCounterKind::kError},
    PortCounterName{"duplicate_request", PortCounterKind::kAmbiguous},
    PortCounterName{"implied_nak_seq_err", PortCounterKind::kError},
    PortCounterName{"local_ack_timeout_err", PortCounterKind::kError},
    PortCounterName{"rnr_nak_retry_err", PortCounterKind::kError},
    PortCounterName{"req_transport_retries_exceeded", PortCounterKind::kError},
    PortCounterName{"req_rnr_retries_exceeded", PortCounterKind::kError},
    PortCounterName{"req_cqe_error", PortCounterKind::kError},
    PortCounterName{"resp_cqe_error", PortCounterKind::kError},
    PortCounterName{"roce_adp_retrans", PortCounterKind::kError},
    PortCounterName{"roce_slow_restart", PortCounterKind::kAmbiguous},
    PortCounterName{"port_xmit_wait", PortCounterKind::kNoCredit},
    PortCounterName{"np_cnp_sent", PortCounterKind::kMarked},
    PortCounterName{"np_ecn_marked_roce_packets", PortCounterKind::kMarked},
    PortCounterName{"rp_cnp_handled", PortCounterKind::kThrottled},
    PortCounterName{"tx_cnp_pkts", PortCounterKind::kMarked},  // the names of Broadcom's driver, bnxt_re
    PortCounterName{"rx_ecn_marked_pkts", PortCounterKind::kMarked},
    PortCounterName{"rx_cnp_pkts", PortCounterKind::kThrottled},
    PortCounterName{"port_xmit_data", PortCounterKind::kData},
    PortCounterName{"port_rcv_data", PortCounterKind::kData},
};

}  // namespace

std::span<const PortCounterName> port_counter_names() { return kNames; }

std::optional<PortCounterKind> kind_of_port_counter(std::string_view name) {
  const auto* const found = std::ranges::find(kNames, name, &PortCounterName::name);
  return found == kNames.end() ? std::nullopt : std::optional(found->kind);
}

}  // namespace stalltrace
