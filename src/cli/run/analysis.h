// SPDX-License-Identifier: Apache-2.0
// Explaining, which may take more memory or time than there is: in a child process, beside a job.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/result.h"

namespace stalltrace::cli {

/// Does `work` in a child process, for at most `limit`. An error says how the child ended where that was not its own
/// doing; false: the work failed, and printed why. `look` is called about twice a second; it shortens the time that is
/// left by what it returns.
Result<bool> analyse(const std::function<bool()>& work, std::chrono::milliseconds limit,
                     const std::function<std::chrono::milliseconds()>& look);

/// The same, with a short text from the child: what its work wrote to its own `answer`. Empty where the work failed.
Result<bool> analyse(const std::function<bool(std::string& answer)>& work, std::chrono::milliseconds limit,
                     const std::function<std::chrono::milliseconds()>& look, std::string& answer);

}  // namespace stalltrace::cli
