// SPDX-License-Identifier: Apache-2.0
#include "serve/http/compressed_file.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "base/read_at.h"

namespace stalltrace::serve {
namespace {

constexpr size_t kReadBytes = 1 << 20;
constexpr size_t kPieceBytes = 64 << 10;  // at least, but for the last one
constexpr int kLevel = 1;                 // a recording shrinks to about a third at some 400 MB/s

}  // namespace

CompressedFile::CompressedFile(UniqueFd file, int64_t size_bytes)
    : file_(std::move(file)), size_bytes_(size_bytes), stream_(ZSTD_createCCtx()) {
  if (stream_ == nullptr) {
    throw std::bad_alloc();
  }
  ZSTD_CCtx_setParameter(stream_, ZSTD_c_compressionLevel, kLevel);
  ZSTD_CCtx_setParameter(stream_, ZSTD_c_checksumFlag, 1);
}

CompressedFile::~CompressedFile() { ZSTD_freeCCtx(stream_); }

Result<std::shared_ptr<CompressedFile>> CompressedFile::open(UniqueFd file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    return fail_errno("read a recording", errno);
  }
  return std::shared_ptr<CompressedFile>(new CompressedFile(std::move(file), status.st_size));
}

Result<std::string> CompressedFile::next() {
  std::string piece;
  std::string input;
  std::string output(ZSTD_CStreamOutSize(), '\0');
  while (!ended_ && piece.size() < kPieceBytes) {
    input.resize(std::min<size_t>(kReadBytes, static_cast<size_t>(size_bytes_ - read_bytes_)));
    const ssize_t got = input.empty() ? 0 : read_at(file_.get(), input.data(), input.size(), read_bytes_);
    if (got < 0 || (got == 0 && read_bytes_ < size_bytes_)) {
      return got < 0 ? Result<std::string>(fail_errno("read a recording", errno)) : fail("a recording became shorter");
    }
    read_bytes_ += got;
    const bool last = read_bytes_ == size_bytes_;
    ZSTD_inBuffer from{input.data(), static_cast<size_t>(got), 0};
    for (size_t left = 1; last ? left != 0 : from.pos < from.size;) {
      ZSTD_outBuffer to{output.data(), output.size(), 0};
      left = ZSTD_compressStream2(stream_, &to, &from, last ? ZSTD_e_end : ZSTD_e_continue);
      if (ZSTD_isError(left) != 0U) {
        return fail("compress a recording");
      }
      piece.append(output, 0, to.pos);
    }
    ended_ = last;
  }
  return piece;
}

}  // namespace stalltrace::serve
