// SPDX-License-Identifier: Apache-2.0
// What logs show of one communicator of one process, as rows. Pure. Internal to import/nccl_log.
#pragma once

#include <cstdint>

#include "import/nccl_log/log_nodes.h"
#include "import/nccl_log/log_text.h"
#include "import/nccl_log/survey.h"
#include "model/events.h"

namespace stalltrace::import {

/// Of a communicator whose set-up is in the log.
Collective set_up_row(LogNode& node, const LoggedProcess& process, const LoggedComm& comm, int64_t start_ns,
                      int64_t end_ns);
/// `call` has an operation. `ordinal`: collectives of this communicator before it.
Collective call_row(LogNode& node, const LoggedProcess& process, const LoggedComm& comm, const BeganCall& call,
                    int64_t ordinal, int64_t time_ns);
/// `end_ns`: of the process's last line.
Communicator communicator_row(const LogNode& node, const LoggedProcess& process, const LoggedComm& comm,
                              int64_t created_ns, int64_t end_ns);

}  // namespace stalltrace::import
