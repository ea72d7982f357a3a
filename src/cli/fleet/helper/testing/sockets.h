// SPDX-License-Identifier: Apache-2.0
// The two ends of a socket between a server and its helper.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/handle.h"

namespace stalltrace::cli {

struct Sockets {
  Sockets() {
    int pair[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    server = UniqueFd(pair[0]);
    helper = UniqueFd(pair[1]);
  }

  UniqueFd server;
  UniqueFd helper;
};

}  // namespace stalltrace::cli
