// SPDX-License-Identifier: Apache-2.0
#include "capture/periodic_tasks.h"

#include <utility>

namespace stalltrace::capture {

PeriodicTasks::PeriodicTasks(std::vector<PeriodicTask> tasks, int64_t started_ns) {
  tasks_.reserve(tasks.size());
  for (PeriodicTask& task : tasks) {
    const int64_t due_ns = started_ns + task.period_ns;
    tasks_.push_back({std::move(task), due_ns});
  }
}

Status PeriodicTasks::run_due(int64_t now_ns) {
  for (Scheduled& scheduled : tasks_) {
    if (now_ns >= scheduled.due_ns) {
      scheduled.due_ns = now_ns + scheduled.task.period_ns;
      ST_TRY(scheduled.task.run(now_ns));
    }
  }
  return {};
}

}  // namespace stalltrace::capture
