// SPDX-License-Identifier: Apache-2.0
// `stalltrace preflight --nodes`: servers of nodes make the tests between them, without a launch. The first node that
// is ready is rank 0, to which the others connect; nothing connects to this host.
#pragma once

#include "base/result.h"
#include "cli/fleet/node_flags.h"
#include "cli/framework/console.h"
#include "preflight/peers/launch.h"

namespace stalltrace::cli {

/// Prints the report; returns the exit code. `limits`: those of the flags (NetworkTests::limits). A node that takes no
/// part is a failed check of the report. Errors: none takes part, or not all with --require-all; rank 0 fails.
Result<int> test_nodes(Console& console, const NodeFlags& flags, const preflight::Launch& limits, bool json);

/// The longest that such tests take, in milliseconds, until which servers go on. It counts each wait for an answer.
int64_t longest_tests_ms(const preflight::Launch& limits, int64_t nodes);

}  // namespace stalltrace::cli
