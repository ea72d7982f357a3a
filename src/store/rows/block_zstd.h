// SPDX-License-Identifier: Apache-2.0
// Bytes of a block, compressed. Internal to store/rows.
#pragma once

#include <zstd.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace stalltrace::store {

class BlockCompressor {
 public:
  BlockCompressor() : context_(ZSTD_createCCtx(), ZSTD_freeCCtx) {}
  Result<std::string> compress(std::string_view raw);

 private:
  std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> context_;
};

/// Replaces `raw`. False: the bytes are damaged, or stand for more than `most_bytes`.
bool decompress_block(std::string_view bytes, size_t most_bytes, std::string& raw);

}  // namespace stalltrace::store
