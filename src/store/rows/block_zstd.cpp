// SPDX-License-Identifier: Apache-2.0
#include "store/rows/block_zstd.h"

namespace stalltrace::store {
namespace {

constexpr int kLevel = 3;

/// One for all that this thread reads: it takes 100 KB.
ZSTD_DCtx* decompressor() {
  thread_local const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  return context.get();
}

}  // namespace

Result<std::string> BlockCompressor::compress(std::string_view raw) {
  std::string bytes(ZSTD_compressBound(raw.size()), '\0');
  const size_t size = ZSTD_compressCCtx(context_.get(), bytes.data(), bytes.size(), raw.data(), raw.size(), kLevel);
  if (ZSTD_isError(size) != 0U) {
    return fail("compress rows");
  }
  bytes.resize(size);
  return bytes;
}

bool decompress_block(std::string_view bytes, size_t most_bytes, std::string& raw) {
  const uint64_t size = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR || size > most_bytes) {
    return false;
  }
  raw.resize(size);
  const size_t got = ZSTD_decompressDCtx(decompressor(), raw.data(), raw.size(), bytes.data(), bytes.size());
  return ZSTD_isError(got) == 0U && got == size;
}

}  // namespace stalltrace::store
