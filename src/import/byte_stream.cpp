// SPDX-License-Identifier: Apache-2.0
#include "import/byte_stream.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "base/text.h"

namespace stalltrace::import {
namespace {

constexpr std::string_view kGzip = "\x1f\x8b";
constexpr size_t kInputBytes = size_t{64} << 10;
constexpr int kGzipWindow = 15 + 16;  // inflateInit2: the largest window, a gzip header

}  // namespace

struct ByteStream::Inflater {
  z_stream stream{};
  std::string input = std::string(kInputBytes, '\0');
  bool ended = false;  // between two members, or at the end

  Inflater() { ended = ::inflateInit2(&stream, kGzipWindow) != Z_OK; }
  ~Inflater() { ::inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
};

ByteStream::ByteStream(UniqueFd fd) : fd_(std::move(fd)) {}
ByteStream::ByteStream(ByteStream&&) noexcept = default;
ByteStream& ByteStream::operator=(ByteStream&&) noexcept = default;
ByteStream::~ByteStream() = default;

Result<ByteStream> ByteStream::open(const std::string& path) {
  ST_ASSIGN(UniqueFd fd, open_regular(path));
  ByteStream stream(std::move(fd));
  stream.begin_.resize(kGzip.size());
  size_t got = 0;
  while (got < kGzip.size()) {
    const size_t more = stream.read_file(stream.begin_.data() + got, kGzip.size() - got);
    if (more == 0) {
      break;
    }
    got += more;
  }
  stream.begin_.resize(got);
  if (stream.begin_ == kGzip) {
    stream.inflater_ = std::make_unique<Inflater>();
    std::memcpy(stream.inflater_->input.data(), kGzip.data(), kGzip.size());
    stream.inflater_->stream.next_in = reinterpret_cast<Bytef*>(stream.inflater_->input.data());
    stream.inflater_->stream.avail_in = kGzip.size();
    stream.begin_.clear();
  }
  return stream;
}

size_t ByteStream::read_file(char* out, size_t most) {
  ssize_t got = 0;
  do {
    got = ::read(fd_.get(), out, most);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    problem_ = fmt::format("could not be read further: {}", std::strerror(errno));
  }
  return got > 0 ? static_cast<size_t>(got) : 0;
}

size_t ByteStream::read(char* out, size_t most) {
  if (!problem_.empty()) {
    return 0;
  }
  if (inflater_ != nullptr) {
    return inflate(out, most);
  }
  if (!begin_.empty()) {
    const size_t taken = std::min(most, begin_.size());
    std::memcpy(out, begin_.data(), taken);
    begin_.erase(0, taken);
    return taken;
  }
  return read_file(out, most);
}

/// Reads more compressed bytes; false at the end of the file.
bool ByteStream::fill() {
  Inflater& inflater = *inflater_;
  const size_t got = read_file(inflater.input.data(), inflater.input.size());
  inflater.stream.next_in = reinterpret_cast<Bytef*>(inflater.input.data());
  inflater.stream.avail_in = static_cast<uInt>(got);
  return got > 0;
}

size_t ByteStream::inflate(char* out, size_t most) {
  Inflater& inflater = *inflater_;
  z_stream& stream = inflater.stream;
  stream.next_out = reinterpret_cast<Bytef*>(out);
  stream.avail_out = static_cast<uInt>(std::min<size_t>(most, size_t{1} << 30));
  const uInt room = stream.avail_out;
  while (stream.avail_out == room) {
    if (stream.avail_in == 0 && !fill()) {
      if (!inflater.ended && problem_.empty()) {
        problem_ = "its compressed data are cut off";
      }
      return 0;
    }
    if (inflater.ended) {  // another member, or padding
      if (::inflateReset(&stream) != Z_OK) {
        return 0;
      }
      inflater.ended = false;
    }
    const int result = ::inflate(&stream, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      inflater.ended = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      problem_ = "its compressed data are damaged";
      break;
    }
  }
  const size_t got = room - stream.avail_out;
  delivered_ += got;
  if (delivered_ > kMostBytes) {
    problem_ = fmt::format("was read up to {} of uncompressed data", format_size(static_cast<int64_t>(kMostBytes)));
  }
  return got;
}

Result<std::string> read_uncompressed_head(const std::string& path, size_t most) {
  ST_ASSIGN(ByteStream stream, ByteStream::open(path));
  std::string head(most, '\0');
  size_t got = 0;
  while (got < most) {
    const size_t more = stream.read(head.data() + got, most - got);
    if (more == 0) {
      break;
    }
    got += more;
  }
  head.resize(got);
  return head;
}

}  // namespace stalltrace::import
