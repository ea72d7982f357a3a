// SPDX-License-Identifier: Apache-2.0
// Fuzzes what a server and its client read of each other to explain recordings of other nodes, by the first byte: which
// rows are asked for, what a node says of itself, the rows as they come, and rows below their compression. Numbers are
// within limits, and it does not matter in which pieces an answer comes.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "fleet/client.h"
#include "fleet/node_info.h"
#include "fleet/rows/received_rows.h"
#include "model/events.h"
#include "serve/rows/row_frames.h"
#include "serve/rows/rows_request.h"
#include "store/rows/block_zstd.h"
#include "store/rows/row_block.h"
#include "store/rows/unified_nodes.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/rows.h"

using namespace stalltrace;
using fuzz::Input;
using fuzz::require;

/// Of the client; nothing is asked here. Weak: a fuzzer is linked without client.cpp, which needs Asio and OpenSSL.
[[gnu::weak]] std::vector<Status> stalltrace::fleet::converse(std::span<const NodeAddress> /*nodes*/,
                                                              std::span<Conversation* const> /*conversations*/,
                                                              const ClientOptions& /*options*/) {
  return {};
}

namespace {

constexpr int64_t kStart = 1'769'827'620 * kNsPerSecond;

void read_request(std::string_view text) {
  const auto request = serve::parse_rows_request(text);
  if (!request) {
    require(!request.error().what.empty());
    return;
  }
  require(!request->reads.empty());
  for (const serve::RowsRequest::Read& read : request->reads) {
    require(store::is_table(read.table));
  }
  const std::vector<TimeRange> joined = serve::joined_windows(request->windows);
  require(joined.size() <= serve::kMostWindows && joined.empty() == request->windows.empty());
  for (size_t i = 0; i < joined.size(); ++i) {
    require(joined[i].from_ns < joined[i].to_ns && (i == 0 || joined[i - 1].to_ns < joined[i].from_ns));
  }
  const std::string again = serve::to_json(*request);
  const auto second = serve::parse_rows_request(again);
  require(second && serve::to_json(*second) == again);
}

fleet::Reply reply_of(std::string_view body) {
  return {.body = std::string(body), .headers = {}, .sent_ns = kStart, .received_ns = kStart + kNsPerMs};
}

void read_node(Input input) {
  const auto described = input.sized_piece();
  fleet::Reply node = reply_of({reinterpret_cast<const char*>(described.data()), described.size()});
  fleet::Reply clocks = reply_of(input.text());
  fleet::InfoConversation conversation;
  require(conversation.next(nullptr).value_or(std::nullopt).has_value());
  if (!conversation.next(&node)) {
    return;
  }
  constexpr int64_t kMostOfOne = int64_t{1} << 50;
  for (const fleet::RecordingInfo& recording : conversation.info.recordings) {
    for (const int64_t amount : {recording.size_bytes, recording.collectives, recording.lost_events}) {
      require(amount >= 0 && amount <= kMostOfOne);
    }
  }
  if (!conversation.next(&clocks)) {
    return;
  }
  require(conversation.clock && conversation.clock->error_ns > 0);
  Node run;
  run.boot_id = conversation.clock->boot_id;
  run.started_ns = kStart;
  run.clock_offset_ns = kStart / 2;
  if (const auto measured = fleet::measured_clock(run, *conversation.clock, kStart + kNsPerSecond)) {
    require(!run.boot_id.empty() && measured->error_ns > 0);
  }
}

serve::RowsRequest request_of(std::span<const std::string_view> tables) {
  serve::RowsRequest request;
  for (const std::string_view table : tables) {
    request.reads.push_back({.table = std::string(table)});
  }
  return request;
}

constexpr std::array<std::string_view, 6> kTables{"node",  "collective",   "process",
                                                  "stack", "communicator", "python_stack"};
constexpr fleet::ReceivedRows::Limits kLimits{.bytes = 1 << 20, .raw_bytes = 32 << 20, .rows = 100'000};

/// False: refused.
bool take(fleet::ReceivedRows& rows, std::string_view bytes, size_t piece) {
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    if (!rows.add(bytes.substr(0, piece))) {
      return false;
    }
  }
  return rows.finish().has_value();
}

/// Rows as they are read for a report.
void read_tables(std::span<const std::unique_ptr<store::TableBlocks>> tables) {
  int64_t rows = 0;
  for (const auto& table : tables) {
    require(table->rows() >= 0 && table->left_out() >= 0);
    rows += table->rows() + table->left_out();
  }
  require(rows <= kLimits.rows);
  const auto nodes = store::nodes_of(*tables[0]);
  require(nodes && std::ssize(*nodes) == tables[0]->rows());
  store::UnifiedNodes unified;
  unified.add(0, *nodes, tables[1]->rows_of_nodes());
  if (!unified.decide()) {
    return;
  }
  int64_t last_ns = 0;
  int64_t visited = 0;
  const EventSource::Visitor<Collective> visit = [&](const Collective& row) {
    require(row.timestamp_ns >= last_ns && row.duration_ns.value_or(0) >= 0);
    last_ns = row.timestamp_ns;
    ++visited;
  };
  const std::array<const store::TableBlocks*, 1> collectives{tables[1].get()};
  require(store::visit_row_blocks(collectives, unified, {}, &visit).has_value());
  require(visited <= tables[1]->rows());
}

void read_rows(std::string_view bytes) {
  const serve::RowsRequest request = request_of(kTables);
  fleet::ReceivedRows whole(request, kLimits);
  fleet::ReceivedRows in_pieces(request, kLimits);
  const bool taken = take(whole, bytes, bytes.size());
  require(take(in_pieces, bytes, 7) == taken);
  if (!taken) {
    return;
  }
  require(whole.rows_left_out() >= 0 && whole.rows_left_out() == in_pieces.rows_left_out());
  require(whole.notes() == in_pieces.notes());
  const auto tables = whole.take_tables();
  const auto same = in_pieces.take_tables();
  for (size_t i = 0; i < tables.size(); ++i) {
    require(tables[i]->rows() == same[i]->rows() && tables[i]->raw_bytes() == same[i]->raw_bytes());
  }
  read_tables(tables);
}

std::string frame(serve::FrameKind kind, std::string_view content) {
  return serve::frame_head(kind, content.size()) + std::string(content);
}

/// Frames that a server would send, with any columns and rows in them.
void read_blocks(Input input) {
  const auto text_of = [](std::span<const uint8_t> bytes) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  store::BlockCompressor compressor;
  std::string bytes;
  while (!input.empty()) {
    const auto read = static_cast<uint32_t>(input.number(1) % kTables.size());
    bytes += frame(serve::FrameKind::kHeader, serve::frame_of_header(read, text_of(input.sized_piece())));
    for (uint64_t blocks = input.number(1) % 4; blocks > 0; --blocks) {
      const auto block = compressor.compress(text_of(input.sized_piece()));
      require(block.has_value());
      bytes += frame(serve::FrameKind::kBlock, *block);
    }
  }
  read_rows(bytes + frame(serve::FrameKind::kEnd, R"({"notes":[],"rows_left_out":0})"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  switch (input.number(1) % 4) {
    case 0:
      read_request(input.text());
      break;
    case 1:
      read_node(input);
      break;
    case 2:
      read_rows(input.text());
      break;
    default:
      read_blocks(input);
  }
  return 0;
}
