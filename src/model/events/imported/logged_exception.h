// SPDX-License-Identifier: Apache-2.0
// Lines of Python's tracebacks in a job's output, as the text of a row of log_line.
#pragma once

#include <string_view>

namespace stalltrace {

/// An exception's first line, behind any label. The exception itself is a row of python_exception.
inline constexpr std::string_view kTracebackHeader = "Traceback (most recent call last):";

/// True for the last line of a traceback, from the type on ("torch.distributed.DistBackendError: NCCL error ..."), that
/// says that a collective failed, another process is gone, or this one was asked to end: what another rank's failure
/// leads to. By type, and by the messages of PyTorch's NCCL and Gloo.
bool is_failed_communication(std::string_view exception);

}  // namespace stalltrace
