// SPDX-License-Identifier: Apache-2.0
// The process that does the work of one request, as the helper sees it: started, its lines handed on to the server,
// ended in time.
#pragma once

#include <string>

#include "cli/fleet/helper/frames.h"
#include "cli/fleet/helper/helper_work.h"

namespace stalltrace::cli {

/// Has one request's work done in a child with limited memory, which ends with the caller. Sends the answer over
/// `server`, and reads there whether the server wants it no more; `orders` reads that socket. What the child leaves
/// behind is killed, and reaped here: the caller is its subreaper. False: the server is gone.
[[nodiscard]] bool answer_request(const HelperWork& work, const std::string& request, int server, FrameReader& orders);

}  // namespace stalltrace::cli
