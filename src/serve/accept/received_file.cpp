// SPDX-License-Identifier: Apache-2.0
#include "serve/accept/received_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <zstd.h>

#include <cerrno>

#include "base/io/write_all.h"
#include "base/text.h"

namespace stalltrace::serve {
namespace {

constexpr int64_t kBytesAtOnce = 1 << 20;
constexpr int kLargestWindowLog = 23;  // 8 MiB: what level 1 to 19 use. A sender can't choose how much memory we take

std::unexpected<Error> not_a_recording(std::string_view why) {
  return fail(fmt::format("the recording that it sends is {}", why), "ask again", ErrorKind::kCorrupt);
}

void free_stream(ZSTD_DCtx* stream) { ZSTD_freeDCtx(stream); }

}  // namespace

ReceivedFile::ReceivedFile(UniqueFd file, int64_t most_bytes)
    : file_(std::move(file)), most_bytes_(most_bytes), stream_(ZSTD_createDCtx(), free_stream) {
  ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kLargestWindowLog);
}

ReceivedFile::~ReceivedFile() = default;

Result<std::unique_ptr<ReceivedFile>> ReceivedFile::create(const std::string& path, int64_t most_bytes) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) {
    return fail_errno("write " + path, errno, "set TMPDIR to a folder that can be written");
  }
  return into(std::move(file), most_bytes);
}

std::unique_ptr<ReceivedFile> ReceivedFile::into(UniqueFd file, int64_t most_bytes) {
  return std::unique_ptr<ReceivedFile>(new ReceivedFile(std::move(file), most_bytes));
}

Status ReceivedFile::announce(int64_t bytes) {
  if (bytes < 0 || bytes > most_bytes_) {
    return not_a_recording(fmt::format("larger than the {} that are taken", format_size(most_bytes_)));
  }
  most_bytes_ = bytes;
  announced_ = bytes;
  return {};
}

Result<bool> ReceivedFile::add(std::string_view compressed) {
  waiting_ += compressed;
  std::string output(ZSTD_DStreamOutSize(), '\0');
  ZSTD_inBuffer from{waiting_.data(), waiting_.size(), 0};
  bool full = false;
  const int64_t end_bytes = size_bytes_ + kBytesAtOnce;
  while ((from.pos < from.size || full) && size_bytes_ < end_bytes) {
    if (ended_) {
      return not_a_recording("followed by other bytes");
    }
    ZSTD_outBuffer to{output.data(), output.size(), 0};
    const size_t left = ZSTD_decompressStream(stream_.get(), &to, &from);
    if (ZSTD_isError(left) != 0U) {
      return not_a_recording(fmt::format("damaged ({})", ZSTD_getErrorName(left)));
    }
    size_bytes_ += static_cast<int64_t>(to.pos);
    if (size_bytes_ > most_bytes_) {
      return not_a_recording(
          fmt::format("larger than the {} that it announced or that are taken", format_size(most_bytes_)));
    }
    if (!write_all(file_.get(), std::string_view(output).substr(0, to.pos))) {
      return fail_errno("write a recording", errno, "set TMPDIR to a folder with more room");
    }
    ended_ = left == 0;
    full = !ended_ && to.pos == to.size;
  }
  const bool more = full || from.pos < from.size;
  waiting_.erase(0, from.pos);
  return more;
}

Status ReceivedFile::finish() const {
  const bool whole = ended_ && (!announced_ || size_bytes_ == *announced_);
  return whole ? Status() : Status(not_a_recording("cut short"));
}

}  // namespace stalltrace::serve
