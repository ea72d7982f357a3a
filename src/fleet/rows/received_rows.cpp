// SPDX-License-Identifier: Apache-2.0
#include "fleet/rows/received_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "serve/json/json.h"

namespace stalltrace::fleet {
namespace {

constexpr size_t kMostNotes = 16;
constexpr size_t kLongestNote = 2000;
constexpr int64_t kMostLeftOut = int64_t{1} << 40;  // those of all nodes can be added

std::unexpected<Error> not_rows(std::string_view why) {
  return fail(fmt::format("the rows that it sends are {}", why),
              "use the same version of stalltrace on both sides, and ask again", ErrorKind::kCorrupt);
}

}  // namespace

ReceivedRows::ReceivedRows(const serve::RowsRequest& request, Limits limits) : limits_(limits) {
  for (const serve::RowsRequest::Read& read : request.reads) {
    tables_.push_back(std::make_unique<store::TableBlocks>(read.table));
  }
}

Status ReceivedRows::add(std::string_view bytes) {
  bytes_ += static_cast<int64_t>(bytes.size());
  if (bytes_ > limits_.bytes) {
    return fail(fmt::format("its rows take more than {}", format_size(limits_.bytes)),
                "look at it on that node: stalltrace explain FILE");
  }
  return frames_.add(bytes, [this](serve::FrameKind kind, std::string_view content) { return take(kind, content); });
}

Status ReceivedRows::take(serve::FrameKind kind, std::string_view content) {
  if (ended_) {
    return not_rows("followed by others");
  }
  switch (kind) {
    case serve::FrameKind::kHeader: {
      const auto number = serve::take_read_number(content);
      if (!number || *number >= tables_.size()) {
        return not_rows("of no table that was asked for");
      }
      current_ = tables_[*number].get();
      return current_->add_header(content);
    }
    case serve::FrameKind::kBlock: {
      if (current_ == nullptr) {
        return not_rows("without their columns");
      }
      const int64_t raw_before = current_->raw_bytes();
      const int64_t rows_before = current_->rows() + current_->left_out();
      ST_TRY(current_->add_block(std::string(content)));
      limits_.raw_bytes -= current_->raw_bytes() - raw_before;
      limits_.rows -= current_->rows() + current_->left_out() - rows_before;
      return limits_.raw_bytes >= 0 && limits_.rows >= 0 ? Status() : Status(not_rows("more than are taken of a node"));
    }
    case serve::FrameKind::kEnd:
      return take_end(content);
  }
  return {};
}

Status ReceivedRows::take_end(std::string_view content) {
  ended_ = true;
  const auto json = serve::parse_json(content, {.depth = 3, .values = 256, .members = 16});
  if (!json) {
    return not_rows("damaged");
  }
  if (const serve::Json* notes = json->find("notes"); notes != nullptr && notes->is_array()) {
    for (const serve::Json& note : *notes->values()) {
      if (note.text() != nullptr && notes_.size() < kMostNotes) {
        notes_.push_back(printable(note.text()->substr(0, kLongestNote)));
      }
    }
  }
  const serve::Json* left_out = json->find("rows_left_out");
  if (left_out != nullptr && left_out->integer() != nullptr) {
    rows_left_out_ = std::clamp<int64_t>(*left_out->integer(), 0, kMostLeftOut);
  }
  for (const auto& table : tables_) {
    rows_left_out_ += table->left_out();
  }
  return {};
}

Status ReceivedRows::finish() const { return ended_ && frames_.at_end() ? Status() : Status(not_rows("cut short")); }

}  // namespace stalltrace::fleet
