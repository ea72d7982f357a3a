// SPDX-License-Identifier: Apache-2.0
#include "report/capture_text.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/text.h"

namespace stalltrace::report {
namespace {

constexpr size_t kCapturesListed = 64;

std::string end_text(const Endpoint& endpoint, const std::optional<int32_t>& rank) {
  return rank ? fmt::format("{} (rank {})", format_endpoint(endpoint), *rank) : format_endpoint(endpoint);
}

void write_flow(Page& page, const FlowSummary& one) {
  const PacketFlow& flow = one.flow;
  page.field("flow", printable(fmt::format("{} to {}: {}, {}", end_text(flow.source, one.src_rank),
                                           end_text(flow.destination, one.dst_rank), count_of(flow.packets, "packet"),
                                           format_size(flow.payload_bytes))));
  for (const std::string& remark : one.remarks) {
    page.field("", printable(remark));
  }
}

void write_capture(Page& page, const CaptureSummary& one) {
  const PacketCapture& capture = one.capture;
  page.line();
  page.line(page.paint(printable(capture.file), kBold));
  page.field("packets", fmt::format("{}, {} of TCP in {}, {} from {}", capture.packets, capture.tcp_packets,
                                    count_of(capture.flows, "flow"), format_duration(capture.duration_ns),
                                    format_utc(capture.started_ns)));
  bool first = true;
  for (const std::string& remark : one.remarks) {
    page.field(first ? "shows" : "", printable(remark));
    first = false;
  }
  if (one.flows.empty()) {
    page.field("flows", "none with loss, a closed window or a reset");
  }
  for (const FlowSummary& flow : one.flows) {
    write_flow(page, flow);
  }
  if (one.more_flows > 0) {
    page.field("", fmt::format("... and {} more flows with trouble; the table packet_flow has all", one.more_flows));
  }
}

}  // namespace

std::string captures_text(const Report& report) {
  return report.captures.empty() ? "" : count_of(std::ssize(report.captures), "packet capture");
}

void write_captures(Page& page, const Report& report) {
  for (size_t i = 0; i < report.captures.size() && i < kCapturesListed; ++i) {
    write_capture(page, report.captures[i]);
  }
  if (report.captures.size() > kCapturesListed) {
    page.line();
    page.line(fmt::format("... and {} more captures; --json has all", report.captures.size() - kCapturesListed));
  }
}

}  // namespace stalltrace::report
