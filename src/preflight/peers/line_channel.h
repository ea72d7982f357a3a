// SPDX-License-Identifier: Apache-2.0
// The control connection between rank 0 and each rank: one JSON object a line. Its segments are small, so that it works
// where large packets vanish. What the other end sends is bounded in length and depth.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace::preflight {

class LineChannel {
 public:
  explicit LineChannel(UniqueFd fd) : fd_(std::move(fd)) {}
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool open() const { return static_cast<bool>(fd_); }
  void close() { fd_.reset(); }

  /// Errors: the other end is gone, or does not read for 5 s.
  Status send(const nlohmann::ordered_json& message);
  /// Reads what has arrived; nothing: no whole line yet. Errors: the other end is gone, or sent what is no JSON object.
  Result<std::optional<nlohmann::ordered_json>> poll_message();
  /// Waits for a message. Errors: as above; none came in time (kInterrupted).
  Result<nlohmann::ordered_json> receive(int64_t limit_ns);

  /// One byte, for rounds that are timed. `receive_byte` needs a channel without a begun line.
  Status send_byte(char byte);
  Result<char> receive_byte(int64_t limit_ns);

 private:
  UniqueFd fd_;
  std::string begun_;
};

}  // namespace stalltrace::preflight
