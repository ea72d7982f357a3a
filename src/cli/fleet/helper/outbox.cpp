// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/helper/outbox.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "cli/fleet/helper/answer_lines.h"
#include "cli/fleet/helper/frames.h"

namespace stalltrace::cli {

void Outbox::add(std::string_view bytes) {
  append_frame(frames_, bytes);
  in_line_ = bytes.empty() ? in_line_ : !bytes.ends_with('\n');
}

void Outbox::add(const Error& error) { add((in_line_ ? "\n" : "") + line_of(error)); }

void Outbox::add_end() { add(std::string_view()); }

bool Outbox::send_some() { return send(MSG_DONTWAIT); }

bool Outbox::send_all() { return send(0); }

bool Outbox::send(int flags) {
  size_t done = 0;
  bool gone = false;
  while (done < frames_.size() && !gone) {
    const ssize_t sent = ::send(socket_, frames_.data() + done, frames_.size() - done, MSG_NOSIGNAL | flags);
    if (sent < 0 && errno == EAGAIN) {
      break;
    }
    gone = sent < 0 && errno != EINTR;
    done += static_cast<size_t>(std::max<ssize_t>(sent, 0));
  }
  frames_.erase(0, done);
  return !gone;
}

}  // namespace stalltrace::cli
