// SPDX-License-Identifier: Apache-2.0
#include "import/lines.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file.h"

namespace stalltrace::import {

Result<LineReader> LineReader::open(const std::string& path, uint64_t most_bytes, uint64_t from) {
  ST_ASSIGN(UniqueFd fd, open_regular(path));
  if (from > 0 && ::lseek(fd.get(), static_cast<off_t>(from), SEEK_SET) < 0) {
    return fail_errno("read " + path, errno);
  }
  return LineReader(std::move(fd), most_bytes);
}

/// Fills the buffer from `offset` on; 0 at the end, which it notes.
size_t LineReader::read_at(size_t offset) {
  const size_t most = std::min<uint64_t>(buffer_.size() - offset, bytes_left_);
  ssize_t got = 0;
  do {
    got = ::read(fd_.get(), buffer_.data() + offset, most);
  } while (got < 0 && errno == EINTR);
  failed_ = got < 0;
  at_end_ = got <= 0;
  const size_t bytes = got > 0 ? static_cast<size_t>(got) : 0;
  bytes_left_ -= bytes;
  return bytes;
}

bool LineReader::fill() {
  if (at_end_) {
    return false;
  }
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  const size_t got = read_at(end_);
  end_ += got;
  return got > 0;
}

std::optional<Line> LineReader::next() {
  size_t searched = 0;
  const char* newline = nullptr;
  while (true) {
    const char* from = buffer_.data() + begin_ + searched;
    newline = static_cast<const char*>(std::memchr(from, '\n', end_ - begin_ - searched));
    searched = end_ - begin_;
    if (newline != nullptr || searched > kLongest || !fill()) {
      break;
    }
  }
  Line line{.text = {}, .number = ++number_};
  if (newline == nullptr && searched > kLongest) {
    line.text = std::string_view(buffer_).substr(begin_, kLongest);
    line.cut = true;
    // The text stays valid: it is moved to the front, and the rest of the line is read behind it.
    std::memmove(buffer_.data(), line.text.data(), kLongest);
    line.text = std::string_view(buffer_).substr(0, kLongest);
    size_t rest_begin = begin_ + kLongest;
    while (true) {
      newline = static_cast<const char*>(std::memchr(buffer_.data() + rest_begin, '\n', end_ - rest_begin));
      if (newline != nullptr) {
        begin_ = static_cast<size_t>(newline - buffer_.data()) + 1;
        break;
      }
      begin_ = end_ = kLongest;
      const size_t got = read_at(kLongest);
      if (got == 0) {
        line.terminated = false;
        break;
      }
      rest_begin = kLongest;
      end_ = kLongest + got;
    }
  } else if (newline == nullptr) {
    if (searched == 0) {
      --number_;
      return std::nullopt;
    }
    line.text = std::string_view(buffer_).substr(begin_, searched);
    line.terminated = false;
    begin_ = end_;
  } else {
    const auto length = static_cast<size_t>(newline - (buffer_.data() + begin_));
    line.text = std::string_view(buffer_).substr(begin_, length);
    begin_ += length + 1;
    if (length > kLongest) {
      line.text = line.text.substr(0, kLongest);
      line.cut = true;
    }
  }
  if (!line.cut && line.text.ends_with('\r')) {
    line.text.remove_suffix(1);
  }
  return line;
}

std::string_view without_escapes(std::string_view line, std::string& scratch) {
  if (line.find('\x1b') == std::string_view::npos) {
    return line;
  }
  scratch.clear();
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      scratch += line[i];
      continue;
    }
    if (i + 1 < line.size() && line[i + 1] == '[') {  // CSI: parameters, then one final byte
      i += 2;
      while (i < line.size() && (line[i] < '@' || line[i] > '~')) {
        ++i;
      }
    } else {
      ++i;
    }
  }
  return scratch;
}

int64_t take_lines(LineReader& lines, const std::string& path, const std::function<void(const std::string&)>& note,
                   const std::function<void(const Line& line, std::string_view text)>& take) {
  std::string scratch;
  int64_t number = 0;
  while (const auto line = lines.next()) {
    number = line->number;
    take(*line, without_escapes(line->text, scratch));
  }
  if (lines.failed()) {
    note(fmt::format("{}: could not be read beyond line {}", path, number));
  }
  return number;
}

}  // namespace stalltrace::import
