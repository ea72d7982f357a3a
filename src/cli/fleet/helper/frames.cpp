// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/helper/frames.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/io/poll_until.h"

namespace stalltrace::cli {

void append_frame(std::string& frames, std::string_view bytes) {
  const auto size = static_cast<uint32_t>(bytes.size());
  frames.append(reinterpret_cast<const char*>(&size), sizeof size);
  frames += bytes;
}

bool send_frame(int socket, std::string_view bytes) {
  std::string frame;
  append_frame(frame, bytes);
  for (std::string_view rest = frame; !rest.empty();) {
    const ssize_t sent = ::send(socket, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) {
      continue;
    }
    if (sent <= 0) {
      return false;
    }
    rest.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

FrameReader::Got FrameReader::next(int socket, int64_t limit_ns, std::string& frame) {
  for (;;) {
    uint32_t size = 0;
    size_t wanted = sizeof size;
    if (begun_.size() >= wanted) {
      std::memcpy(&size, begun_.data(), sizeof size);
      if (size > kLongestFrame) {
        return Got::kGone;
      }
      wanted += size;
    }
    if (begun_.size() >= sizeof size && begun_.size() == wanted) {
      frame = begun_.substr(sizeof size);
      begun_.clear();
      return Got::kFrame;
    }
    if (!wait_readable(socket, limit_ns < 0 ? kNoEnd : monotonic_now_ns() + limit_ns)) {
      return Got::kLate;
    }
    const size_t have = begun_.size();
    begun_.resize(wanted);
    const ssize_t got = ::recv(socket, begun_.data() + have, wanted - have, 0);
    const bool gone = got == 0 || (got < 0 && errno != EINTR);
    begun_.resize(have + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (gone) {
      return Got::kGone;
    }
  }
}

}  // namespace stalltrace::cli
