// SPDX-License-Identifier: Apache-2.0
// Packet captures as events: a file is a node, which has no calls.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/clock.h"
#include "import/byte_stream.h"
#include "import/evidence.h"
#include "import/file_node.h"
#include "import/packet_capture/flows.h"
#include "import/packet_capture/packets.h"
#include "import/packet_capture/tcp_segment.h"
#include "import/read_files.h"
#include "model/events/imported_evidence.h"

namespace stalltrace::import {
namespace {

constexpr std::string_view kFormat = "packet_capture";
constexpr uint64_t kMostEvents = 200'000;  // of a file

class Import {
 public:
  Import(EventSink& sink, const Note& note) : sink_(sink), note_(note) {}

  Status read(const std::string& path) {
    ST_ASSIGN(ByteStream bytes, ByteStream::open(path));
    PacketReader reader(std::move(bytes));
    Node node = nodes_.make(path, kFormat);
    PacketCapture capture{.node_id = node.node_id, .file = path};
    uint64_t events = 0;
    uint64_t events_left = 0;
    Flows flows(
        [&](const PacketEvent& event) {
          if (events == kMostEvents) {
            ++events_left;
            return;
          }
          ++events;
          PacketEvent row = event;
          row.node_id = node.node_id;
          sink_.accept(std::move(row));
        },
        [&](PacketFlow flow) {
          flow.node_id = node.node_id;
          sink_.accept(std::move(flow));
        });
    Packet packet;
    int64_t last_ns = 0;
    while (reader.next(packet)) {
      // Packets of several interfaces may come out of order; time does not go back.
      last_ns = std::max(last_ns, packet.timestamp_ns);
      capture.started_ns = capture.packets == 0 ? last_ns : capture.started_ns;
      ++capture.packets;
      const auto read = read_packet(packet.bytes, packet.link_type, packet.size_bytes);
      if (const auto* segment = std::get_if<TcpSegment>(&read)) {
        ++capture.tcp_packets;
        flows.add(*segment, last_ns, packet.number);
      } else if (const auto* error = std::get_if<IcmpError>(&read)) {
        take(*error, capture);
      }
    }
    if (capture.packets == 0 && !reader.problem().empty()) {
      return fail(fmt::format("{}: {}", path, reader.problem()), {}, ErrorKind::kCorrupt);
    }
    flows.finish(last_ns);
    if (!reader.problem().empty()) {
      capture.cut = true;
      note_(fmt::format("{}: {}; what was before is kept", path, reader.problem()));
    }
    capture.started_ns = capture.packets == 0 ? node.started_ns : capture.started_ns;
    capture.duration_ns = std::max<int64_t>(last_ns - capture.started_ns, 0);
    capture.flows = flows.flows();
    capture.missed = reader.missed();
    for (const auto& [source, count] :
         {std::pair("capture:packets_missed", static_cast<uint64_t>(capture.missed)),
          std::pair("capture:packets_not_followed", flows.not_kept()),
          std::pair("capture:packets_seen_twice", flows.copies()), std::pair("capture:events_not_kept", events_left),
          std::pair("capture:damaged_file", uint64_t{capture.cut ? 1U : 0U})}) {
      if (count > 0) {
        sink_.accept(Loss{node.node_id, source, count});
      }
    }
    node.missing_evidence = fmt::format("{} {}", kLacksDurations, kLacksCalls);
    node.started_ns = capture.started_ns;
    node.ended_ns = capture.started_ns + capture.duration_ns;
    sink_.accept(std::move(node));
    summary_.rows += static_cast<uint64_t>(capture.flows);
    sink_.accept(std::move(capture));
    ++summary_.files;
    ++summary_.nodes;
    return {};
  }

  void refuse(const std::string& path) {
    Node node = nodes_.make(path, kFormat);
    node.missing_evidence = fmt::format("{} {}", kLacksDurations, kLacksCalls);
    sink_.accept(Loss{node.node_id, "capture:unreadable_file", 1});
    sink_.accept(std::move(node));
  }

  [[nodiscard]] const Summary& summary() const { return summary_; }

 private:
  static void take(const IcmpError& error, PacketCapture& capture) {
    if (!error.too_big) {
      ++capture.unreachable;
      return;
    }
    if (++capture.too_big == 1) {
      capture.too_big_from = fmt::format("{} about {} to {}", format_address(error.sender),
                                         format_address(error.source), format_address(error.destination));
    }
    constexpr uint32_t kMostMtu = 1U << 20;
    if (error.mtu > 0 && error.mtu < kMostMtu) {
      const auto mtu = static_cast<int32_t>(error.mtu);
      capture.least_mtu = std::min(capture.least_mtu.value_or(mtu), mtu);
    }
  }

  EventSink& sink_;
  const Note& note_;
  Summary summary_;
  FileNodes nodes_;
};

}  // namespace

Result<Summary> import_packet_captures(std::span<const std::string> paths, EventSink& sink, const Note& note,
                                       const Options& /*options*/) {
  Import import(sink, note);
  ST_TRY(read_files(import, paths, note, "no packet capture"));
  return import.summary();
}

}  // namespace stalltrace::import
