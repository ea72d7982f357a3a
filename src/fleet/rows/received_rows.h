// SPDX-License-Identifier: Apache-2.0
// One answer to POST /v1/rows, from a host that may send anything.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/rows/row_frames.h"
#include "serve/rows/rows_request.h"
#include "store/rows/row_block.h"

namespace stalltrace::fleet {

class ReceivedRows {
 public:
  struct Limits {
    int64_t bytes = int64_t{256} << 20;     // as they come
    int64_t raw_bytes = int64_t{16} << 30;  // that they stand for
    int64_t rows = 64'000'000;
  };

  ReceivedRows(const serve::RowsRequest& request, Limits limits);

  /// Errors (kCorrupt): not such an answer, or more than the limits.
  Status add(std::string_view bytes);
  /// An error if the answer has not come to its end.
  [[nodiscard]] Status finish() const;

  /// One for each read of the request, in its order; with finish() only.
  std::vector<std::unique_ptr<store::TableBlocks>> take_tables() { return std::move(tables_); }
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  /// What the server says of its reading, and the number of rows that it, or this side, left out.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
  [[nodiscard]] int64_t rows_left_out() const { return rows_left_out_; }

 private:
  Status take(serve::FrameKind kind, std::string_view content);
  Status take_end(std::string_view content);

  Limits limits_;
  serve::FrameReader frames_;
  std::vector<std::unique_ptr<store::TableBlocks>> tables_;
  store::TableBlocks* current_ = nullptr;
  bool ended_ = false;
  int64_t bytes_ = 0;
  std::vector<std::string> notes_;
  int64_t rows_left_out_ = 0;
};

}  // namespace stalltrace::fleet
