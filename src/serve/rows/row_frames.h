// SPDX-License-Identifier: Apache-2.0
// The answer to POST /v1/rows (docs/serve.md) as a stream of frames: a letter, the length of what follows in four bytes
// (little-endian), and that. For each read that has rows: 'H' with its number and the names of its columns, then 'B'
// with a block each (store/rows/row_block.h); at the end 'E' with an object in JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace stalltrace::serve {

enum class FrameKind : char { kHeader = 'H', kBlock = 'B', kEnd = 'E' };

std::string frame_head(FrameKind kind, size_t size);
/// The content of a kHeader frame.
std::string frame_of_header(uint32_t read, std::string_view columns);

/// Cuts a stream into frames. The bytes may have any origin.
class FrameReader {
 public:
  using Take = std::function<Status(FrameKind, std::string_view)>;

  /// Calls `take` for each frame that is complete now. Errors (kCorrupt): no frames, a frame larger than 8 MiB; and
  /// those of `take`.
  Status add(std::string_view bytes, const Take& take);
  /// Whether nothing of a frame is left.
  [[nodiscard]] bool at_end() const { return rest_.empty(); }

 private:
  std::string rest_;
};

/// The number of the read, which is removed from the content; none: it has none.
std::optional<uint32_t> take_read_number(std::string_view& header);

}  // namespace stalltrace::serve
