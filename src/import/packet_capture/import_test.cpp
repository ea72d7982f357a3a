// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "import/packet_capture/tcp_segment.h"
#include "import/testing/capture_files.h"
#include "import/testing/evidence_files.h"
#include "model/events/imported_evidence.h"
#include "tests/support/golden_text.h"

namespace stalltrace::import {
namespace {

struct Read {
  MemorySource source;
  std::vector<std::string> notes;
  Status status;
  PacketCapture capture;
  std::vector<PacketFlow> flows;
  std::vector<PacketEvent> events;

  [[nodiscard]] PacketFlow flow(int host) const {
    const auto found = std::ranges::find_if(
        flows, [&](const PacketFlow& one) { return one.source.address == fmt::format("10.0.0.{}", host); });
    EXPECT_NE(found, flows.end());
    return found == flows.end() ? PacketFlow() : *found;
  }
};

std::unique_ptr<Read> read(const std::string& text) {
  EvidenceFolder folder;
  auto out = std::make_unique<Read>();
  const std::vector<std::string> paths{folder.write("net.pcap", text)};
  const auto summary =
      import_packet_captures(paths, out->source, [&](std::string note) { out->notes.push_back(std::move(note)); });
  out->status = summary ? Status() : Status(std::unexpected(summary.error()));
  const auto captures = out->source.packet_captures().value();
  out->capture = captures.empty() ? PacketCapture() : captures[0];
  out->flows = out->source.packet_flows().value();
  EXPECT_TRUE(out->source.packet_events({}, [&](const PacketEvent& row) { out->events.push_back(row); }));
  return out;
}

/// 10.0.0.1 connects to 10.0.0.2 and sends `segments` of 1448 bytes, each acknowledged.
PcapFile healthy(int segments, bool nanoseconds = false) {
  PcapFile file(nanoseconds);
  file.add(0, {.seq = 99, .flags = "S"})
      .add(0.001, {.source = 2, .destination = 1, .seq = 499, .ack = 100, .flags = "SA"})
      .add(0.002, {.seq = 100, .ack = 500});
  for (int i = 0; i < segments; ++i) {
    const uint32_t seq = 100U + 1448U * static_cast<uint32_t>(i);
    file.add(0.01 * (i + 1), {.seq = seq, .ack = 500, .payload = 1448})
        .add(0.01 * (i + 1) + 0.001, {.source = 2, .destination = 1, .seq = 500, .ack = seq + 1448});
  }
  return file;
}

TEST(PacketCapture, AHealthyConnection) {
  for (const bool nanoseconds : {false, true}) {
    const auto got = read(healthy(10, nanoseconds).text);
    ASSERT_TRUE(got->status);
    EXPECT_EQ(got->capture.packets, 23);
    EXPECT_EQ(got->capture.tcp_packets, 23);
    EXPECT_EQ(got->capture.started_ns, 1'777'975'200'000'000'000);
    EXPECT_EQ(got->capture.duration_ns, 101'000'000);
    ASSERT_EQ(got->flows.size(), 2U);
    const PacketFlow flow = got->flow(1);
    EXPECT_EQ(format_endpoint(flow.destination), "10.0.0.2:5002");
    EXPECT_EQ(flow.payload_bytes, 14'480);
    EXPECT_EQ(flow.largest_delivered_bytes, 1448);
    EXPECT_EQ(flow.mss, 1460);
    EXPECT_TRUE(flow.opened);
    EXPECT_EQ(flow.retransmits + flow.reordered + flow.duplicate_acks + flow.missing_bytes + flow.unacked_bytes, 0);
    EXPECT_TRUE(got->events.empty());
    const Node node = got->source.nodes().value().at(0);
    EXPECT_TRUE(lacks(node, kLacksDurations) && lacks(node, kLacksCalls));
  }
}

/// Lost behind the capture: its bytes are there twice. Lost before it: a hole, three duplicate acknowledgements, and
/// then the missing segment. Overtaken: a hole that is filled at once.
TEST(PacketCapture, RetransmissionsByWhereTheyWereLost) {
  PcapFile file = healthy(1);
  file.add(0.02, {.seq = 1548, .ack = 500, .payload = 100}).add(0.25, {.seq = 1548, .ack = 500, .payload = 100});
  file.add(0.251, {.source = 2, .destination = 1, .seq = 500, .ack = 1648});
  file.add(0.3, {.seq = 1748, .ack = 500, .payload = 100});
  for (int i = 0; i < 4; ++i) {
    file.add(0.3001 + 0.0001 * i, {.source = 2, .destination = 1, .seq = 500, .ack = 1648});
  }
  file.add(0.301, {.seq = 1648, .ack = 500, .payload = 100});
  file.add(0.302, {.source = 2, .destination = 1, .seq = 500, .ack = 1848});
  file.add(0.4, {.seq = 1948, .ack = 500, .payload = 100}).add(0.4001, {.seq = 1848, .ack = 500, .payload = 100});
  file.add(0.401, {.source = 2, .destination = 1, .seq = 500, .ack = 2048});
  file.add(0.5, {.seq = 1848, .ack = 500, .payload = 100});
  const auto got = read(file.text);
  const PacketFlow flow = got->flow(1);
  EXPECT_EQ(flow.retransmits, 3);
  EXPECT_EQ(flow.retransmitted_bytes, 300);
  EXPECT_EQ(flow.lost_before, 1);
  EXPECT_EQ(flow.spurious, 1);
  EXPECT_EQ(flow.reordered, 1);
  EXPECT_EQ(flow.missing_bytes, 0);
  EXPECT_EQ(got->flow(2).duplicate_acks, 4);
  std::string kinds;
  for (const PacketEvent& event : got->events) {
    kinds += std::string(to_text(event.kind)) + " ";
  }
  EXPECT_EQ(kinds, "retransmit retransmit_unseen reordered spurious_retransmit ");
  EXPECT_EQ(got->events[0].packet, 7);
  EXPECT_EQ(got->events[0].seq, 1548);
}

/// `tcpdump -i any` on a host with a bridge has each packet twice; what is sent again has another identification.
TEST(PacketCapture, WhatTwoInterfacesShowCountsOnce) {
  PcapFile file;
  const auto twice = [&](double seconds, TcpPacket packet, uint16_t identification) {
    packet.identification = identification;
    file.add(seconds, packet).add(seconds + 0.000'01, packet);
  };
  for (uint16_t i = 0; i < 20; ++i) {
    const uint32_t seq = 100U + 1448U * i;
    twice(0.01 * (i + 1), {.seq = seq, .ack = 500, .payload = 1448}, static_cast<uint16_t>(1000 + i));
    twice(0.01 * (i + 1) + 0.001, {.source = 2, .destination = 1, .seq = 500, .ack = seq + 1448},
          static_cast<uint16_t>(7000 + i));
  }
  twice(0.3, {.seq = 100 + 1448 * 19, .ack = 500, .payload = 1448}, 1020);
  const auto got = read(file.text);
  EXPECT_EQ(got->flow(1).retransmits, 1);
  EXPECT_EQ(got->flow(1).payload_bytes, 1448 * 21);
  EXPECT_EQ(got->flow(2).duplicate_acks, 0);
  const Loss loss = got->source.losses().value().at(0);
  EXPECT_EQ(loss.source, "capture:packets_seen_twice");
  EXPECT_EQ(loss.count, 41U);
}

TEST(PacketCapture, WhatIsNeverAcknowledged) {
  PcapFile file = healthy(1);
  file.add(1, {.seq = 1548, .ack = 500, .payload = 14'480});  // the network card splits it
  for (int i = 0; i < 5; ++i) {
    file.add(1.2 + 0.2 * (1 << i), {.seq = 1548, .ack = 500, .payload = 1448});
  }
  const PacketFlow flow = read(file.text)->flow(1);
  EXPECT_EQ(flow.unacked_bytes, 14'480);
  EXPECT_EQ(flow.unacked_ns, 3'400'000'000);
  EXPECT_EQ(flow.repeats, 5);
  EXPECT_EQ(flow.repeated_bytes, 1448);
  EXPECT_EQ(flow.retransmits, 5);
  // Progress ends the count.
  file.add(4.5, {.source = 2, .destination = 1, .seq = 500, .ack = 1548 + 1448});
  const PacketFlow later = read(file.text)->flow(1);
  EXPECT_EQ(later.unacked_bytes, 14'480 - 1448);
  EXPECT_EQ(later.repeats, 0);
}

TEST(PacketCapture, AClosedWindowAndAReset) {
  PcapFile file = healthy(1);
  file.add(1, {.source = 2, .destination = 1, .seq = 500, .ack = 1548, .window = 0})
      .add(1.5, {.seq = 1547, .ack = 500, .payload = 1})
      .add(1.5, {.source = 2, .destination = 1, .seq = 500, .ack = 1548, .window = 0})
      .add(3, {.source = 2, .destination = 1, .seq = 500, .ack = 1548})
      .add(3.5, {.source = 2, .destination = 1, .seq = 500, .ack = 1548, .flags = "RA", .window = 0});
  const auto got = read(file.text);
  const PacketFlow reader = got->flow(2);
  EXPECT_EQ(reader.zero_windows, 1);
  EXPECT_EQ(reader.zero_window_ns, 2'000'000'000);
  EXPECT_EQ(reader.resets, 1);
  EXPECT_TRUE(reader.closed);
  EXPECT_EQ(got->flow(1).retransmits, 0);  // a probe is none
}

TEST(PacketCapture, AConnectionThatDoesNotComeAboutAndPortsThatAreUsedAgain) {
  PcapFile file;
  for (int i = 0; i < 4; ++i) {
    file.add(1 << i, {.seq = 77, .flags = "S"});
  }
  file.add(100, {.seq = 5'000'000, .flags = "S"});
  const auto got = read(file.text);
  ASSERT_EQ(got->flows.size(), 2U);
  EXPECT_EQ(got->flows[0].syn_retransmits, 3);
  EXPECT_EQ(got->flows[1].syn_retransmits, 0);
  EXPECT_EQ(got->flows[0].unacked_bytes, 0);
}

/// Sequence numbers begin again at 2^32; a capture begins in the middle; the capturing program lost packets.
TEST(PacketCapture, NumbersWrapAndPacketsAreMissing) {
  PcapFile file;
  uint32_t seq = 0xffff'f000;
  for (int i = 0; i < 10; ++i, seq += 1000) {
    if (i != 5) {
      file.add(i, {.seq = seq, .ack = 1, .payload = 1000});
    }
    file.add(i + 0.01, {.source = 2, .destination = 1, .seq = 1, .ack = seq + 1000});
  }
  const PacketFlow flow = read(file.text)->flow(1);
  EXPECT_EQ(flow.retransmits, 0);
  EXPECT_EQ(flow.missing_bytes, 1000);
  EXPECT_EQ(flow.unacked_bytes, 0);
  EXPECT_EQ(flow.largest_delivered_bytes, 1000);
}

TEST(PacketCapture, MessagesOfRouters) {
  const std::string about = ip4(1, 2, 6, std::string(8, '\0'));
  PcapFile file = healthy(1);
  file.add_ip(1, ip4(9, 1, 1, std::string("\x03\x04\0\0\0\0", 6) + be16(1400) + about))
      .add_ip(2, ip4(9, 1, 1, std::string("\x03\x04\0\0\0\0", 6) + be16(1300) + about))
      .add_ip(3, ip4(9, 1, 1, std::string("\x03\x01\0\0\0\0\0\0", 8) + about));
  const PacketCapture capture = read(file.text)->capture;
  EXPECT_EQ(capture.too_big, 2);
  EXPECT_EQ(capture.least_mtu, 1300);
  EXPECT_EQ(capture.too_big_from, "10.0.0.9 about 10.0.0.1 to 10.0.0.2");
  EXPECT_EQ(capture.unreachable, 1);
}

TEST(PacketCapture, TheNextGenerationIsTheSame) {
  const int64_t start_ns = 1'777'975'200'000'000'000;
  std::string text = pcapng_begin();
  for (int i = 0; i < 2; ++i) {
    text += pcapng_packet(start_ns + i * 1'000'000, tcp({.seq = 100, .ack = 1, .payload = 500}), 500) + block(99, "?");
  }
  text += block(5, le32(0) + le32(0) + le32(0) + le16(5) + le16(8) + le32(17) + le32(0) + le16(0) + le16(0));
  const auto got = read(text);
  ASSERT_TRUE(got->status) << got->status.error().what;
  EXPECT_EQ(got->capture.started_ns, start_ns);
  EXPECT_EQ(got->capture.duration_ns, 1'000'000);
  EXPECT_EQ(got->capture.missed, 17);
  EXPECT_EQ(got->flow(1).retransmits, 1);
  EXPECT_EQ(got->source.losses().value().at(0).source, "capture:packets_missed");
  const auto twice = read(text + text);  // files may be put behind each other
  EXPECT_EQ(twice->capture.packets, 4);
}

TEST(PacketCapture, LinkLayersAndVersion6) {
  const std::string ip = tcp({.seq = 7, .payload = 10});
  const auto seen = [](const std::string& bytes, uint32_t link) {
    const auto packet = read_packet(bytes, link, bytes.size());
    const auto* segment = std::get_if<TcpSegment>(&packet);
    return segment != nullptr && segment->seq == 7 && format_address(segment->source) == "10.0.0.1";
  };
  EXPECT_TRUE(seen(ip, 101));
  EXPECT_TRUE(seen(std::string(4, '\2') + ip, 0));
  EXPECT_TRUE(seen(std::string(14, '\0') + be16(0x0800) + ip, 113));
  EXPECT_TRUE(seen(be16(0x0800) + std::string(18, '\0') + ip, 276));
  EXPECT_TRUE(seen(std::string(12, '\1') + be16(0x8100) + be16(5) + be16(0x0800) + ip, 1));
  EXPECT_FALSE(seen(std::string(12, '\1') + be16(0x86dd) + ip.substr(0, 30), 1));
  EXPECT_FALSE(seen(ip, 147));
  const std::string header = std::string("\x60\0\0\0", 4) + be16(28) + std::string("\x3c\x40", 2) +
                             std::string("\xfe\x80") + std::string(13, '\0') + "\x01" + std::string("\xfe\x80") +
                             std::string(13, '\0') + "\x02" + std::string("\x06\0\0\0\0\0\0\0", 8);
  const auto packet = read_packet(header + ip.substr(20, 20), 101, 68);
  const auto* segment = std::get_if<TcpSegment>(&packet);
  ASSERT_NE(segment, nullptr);
  EXPECT_EQ(format_address(segment->source), "fe80::1");
  EXPECT_EQ(segment->payload_bytes, 0U);
}

TEST(PacketCapture, DamageIsReportedAndWhatWasBeforeIsKept) {
  const std::string whole = healthy(3).text;
  const auto cut = read(whole.substr(0, whole.size() - 5));
  ASSERT_TRUE(cut->status);
  EXPECT_EQ(cut->capture.packets, 8);
  EXPECT_TRUE(cut->capture.cut);
  ASSERT_EQ(cut->notes.size(), 1U);
  golden::expect_text(cut->notes[0].substr(cut->notes[0].find("net.pcap")));
  EXPECT_EQ(cut->source.losses().value().at(0).source, "capture:damaged_file");
  EXPECT_EQ(read(whole + le32(1) + le32(2) + le32(0x7fffffff) + le32(3))->capture.packets, 9);
  EXPECT_FALSE(read(whole.substr(0, 20))->status);
  EXPECT_TRUE(read(whole.substr(0, 24))->status);  // without a packet
  EXPECT_FALSE(read(pcapng_begin() + le32(6) + le32(2))->status);
  EXPECT_FALSE(read(pcapng_begin() + block(6, le32(5) + std::string(16, '\0')))->status);
  EvidenceFolder folder;
  EXPECT_EQ(detect(folder.write("a", whole)).value(), std::vector{Format::kPacketCapture});
  EXPECT_EQ(detect(folder.write("a", pcapng_begin())).value(), std::vector{Format::kPacketCapture});
}

}  // namespace
}  // namespace stalltrace::import
