// SPDX-License-Identifier: Apache-2.0
// Runs the periodic tasks of a loop, each at its own period. One thread; the caller passes the time.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stalltrace::capture {

struct PeriodicTask {
  std::string_view name;
  int64_t period_ns = 0;
  std::function<Status(int64_t now_ns)> run;
};

class PeriodicTasks {
 public:
  /// Each task is due for the first time one period after `started_ns`.
  PeriodicTasks(std::vector<PeriodicTask> tasks, int64_t started_ns);

  /// Runs the tasks that are due, in the order of the table. A task is due again one period after it ran: a late task
  /// does not run twice to catch up. Returns the first error; the tasks after it wait for the next call.
  Status run_due(int64_t now_ns);

 private:
  struct Scheduled {
    PeriodicTask task;
    int64_t due_ns = 0;
  };
  std::vector<Scheduled> tasks_;
};

}  // namespace stalltrace::capture
