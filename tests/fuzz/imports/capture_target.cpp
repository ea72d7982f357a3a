// SPDX-License-Identifier: Apache-2.0
// Fuzzes the import of packet captures: arbitrary bytes as a capture. Nothing crashes, numbers are within each other,
// and what is printed of them is printable.
#include "import/evidence.h"
#include "tests/fuzz/imports/evidence.h"

using namespace stalltrace;
using namespace stalltrace::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const EvidenceFile file("net.pcap");
  file.write({reinterpret_cast<const char*>(data), size});
  check_import(file.path(), [](std::span<const std::string> paths, EventSink& sink, const import::Note& note) {
    MemorySource rows;
    const auto summary = import::import_packet_captures(paths, rows, note);
    const auto captures = rows.packet_captures();
    for (const PacketCapture& row : *captures) {
      require(row.started_ns >= 0 && row.duration_ns >= 0 && row.tcp_packets <= row.packets && row.missed >= 0);
    }
    const auto flows = rows.packet_flows();
    for (const PacketFlow& row : *flows) {
      require(row.started_ns >= 0 && row.duration_ns >= 0 && row.packets > 0 && row.payload_bytes >= 0);
      require(row.spurious + row.lost_before <= row.retransmits && row.retransmits <= row.packets);
      require(row.missing_bytes >= 0 && row.unacked_bytes >= 0 && row.unacked_ns >= 0 && row.zero_window_ns >= 0);
      require(row.largest_delivered_bytes >= 0 && row.repeated_bytes >= 0 && row.retransmitted_bytes >= 0);
    }
    (void)rows.packet_events({}, [](const PacketEvent& row) {
      require(row.timestamp_ns >= 0 && row.packet > 0 && row.flow > 0 && row.len >= 0);
    });
    return import::import_packet_captures(paths, sink, note);
  });
  return 0;
}
