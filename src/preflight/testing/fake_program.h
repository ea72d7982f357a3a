// SPDX-License-Identifier: Apache-2.0
// Stands for the program that uses the job's library: answers a rank's lines as a test wants it.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/handle.h"
#include "base/io/write_all.h"

namespace stalltrace::preflight {

class FakeProgram {
 public:
  /// `answer` gets a line without its end; what it returns is written as it is. "" leaves the rank waiting, "end"
  /// closes the connection.
  explicit FakeProgram(std::function<std::string(const std::string&)> answer) {
    std::array<int, 2> ends{-1, -1};
    (void)::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data());
    rank_ = UniqueFd(ends[0]);
    thread_ = std::jthread([own = UniqueFd(ends[1]), answer = std::move(answer)] {
      std::string begun;
      std::array<char, 4096> piece{};
      for (ssize_t got = ::read(own.get(), piece.data(), piece.size()); got > 0;
           got = ::read(own.get(), piece.data(), piece.size())) {
        begun.append(piece.data(), static_cast<size_t>(got));
        for (size_t end = begun.find('\n'); end != std::string::npos; end = begun.find('\n')) {
          const std::string text = answer(begun.substr(0, end));
          begun.erase(0, end + 1);
          if (text == "end" || !write_all(own.get(), text)) {
            return;
          }
        }
      }
    });
  }

  /// The rank's end of the connection; once.
  UniqueFd take_socket() { return std::move(rank_); }

  /// As a library does it on each rank, in 1 ms for each call.
  static std::string healthy(const std::string& line) {
    const auto starts = [&](const char* word) { return line.starts_with(word); };
    if (starts("load")) {
      return "loaded 22809 8 /opt/nccl/lib/libnccl.so.2\n";
    }
    if (starts("id")) {
      return "id " + std::string(256, 'a') + "\n";
    }
    if (starts("connect")) {
      return "connected 12000000\n";
    }
    const size_t size = line.find(' ', 4) + 1;  // "run NAME SIZE CALLS CHECK"
    return "launched\ndone 1000000 0 " + line.substr(size, line.find(' ', size) - size) + "\n";
  }

 private:
  UniqueFd rank_;
  std::jthread thread_;
};

}  // namespace stalltrace::preflight
