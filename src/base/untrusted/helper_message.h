// SPDX-License-Identifier: Apache-2.0
// What helper processes and their parent send each other: bytes and a descriptor, over a socket of SOCK_SEQPACKET.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/handle.h"

namespace stalltrace {

struct HelperMessage {
  std::string bytes;  // at most 64 KiB, and not empty: that is the end of a connection
  UniqueFd fd;        // optional
};

/// Whether a message's descriptor is taken over. To close one may take the consent of a file system that does not
/// answer: it must not arrive where the sender is not trusted.
enum class PassedFiles { kTaken, kRefused };

/// False: see errno. `flags`: of sendmsg. A message without a descriptor is sent without the call that can send one.
bool send_message(int socket, const HelperMessage& message, int flags);

/// Bytes received; 0: the other end is closed. -1: see errno. `flags`: of recvmsg. More than one descriptor is closed.
ssize_t receive_message(int socket, HelperMessage& message, int flags, PassedFiles files = PassedFiles::kTaken);

}  // namespace stalltrace
