// SPDX-License-Identifier: Apache-2.0
// A rank's end of the connection to the program that uses the job's library (plugin/collectives). One thread.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/handle.h"
#include "preflight/peers/collectives/messages.h"

namespace stalltrace::preflight {

class CollectivesHelper {
 public:
  /// `socket` is the program's descriptor 3 at the other end, and `pid` this process's child, which ends with it; 0:
  /// another's. `library`: NCCL's file; empty: the linker's choice. No size above `max_bytes` is made, whatever rank 0
  /// asks for.
  CollectivesHelper(UniqueFd socket, pid_t pid, std::string library, int64_t max_bytes)
      : socket_(std::move(socket)), pid_(pid), library_(std::move(library)), max_bytes_(max_bytes) {}

  /// Answers each order with the reason why no program was started.
  explicit CollectivesHelper(std::string reason) : reason_(std::move(reason)) {}

  /// Has the program do it, and waits for its answer until the order's limit, or until the descriptor `stop` can be
  /// read
  /// (-1: none). After an order that did not end in time no other one is followed.
  CollectiveAnswer follow(const CollectiveOrder& order, int stop = -1);

 private:
  /// How the program ended, for an error.
  [[nodiscard]] std::string end_text() const;

  UniqueFd socket_;
  pid_t pid_ = 0;
  std::string library_;
  int64_t max_bytes_ = kMostCollectiveBytes;
  std::string reason_ = "the program that uses the library did not end an order before";
  std::string begun_;  // of a line
};

}  // namespace stalltrace::preflight
