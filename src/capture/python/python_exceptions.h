// SPDX-License-Identifier: Apache-2.0
// Exceptions of Python processes: the kernel side's records → rows of `python_exception` and `stack`. A child without
// rights reads what the records hold of a process's memory. One thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>

#include "base/untrusted/helper_process.h"
#include "capture/user_shares.h"
#include "model/events.h"
#include "wire/python.h"

namespace stalltrace::capture {

class PythonExceptions {
 public:
  /// All references must outlive the object.
  PythonExceptions(const Node& node, UserShares& shares, EventSink& sink);

  /// Delivers the exception unless it is the one that its thread reported last: several functions print it. False if
  /// the bytes are no such record.
  bool note(std::span<const std::byte> record);
  void on_exit(pid_t pid) { last_.erase(pid); }

 private:
  int64_t stack_of(const st_python_exception& record);

  struct Reported {
    uint64_t traceback = 0;
    std::string type;
    uint64_t time_ns = 0;
  };

  const Node& node_;
  UserShares& shares_;
  EventSink& sink_;
  HelperProcess reader_;
  uint32_t read_for_ = 0;  // a child that one user's record may have subverted reads no other's
  int64_t second_ns_ = 0;  // CLOCK_MONOTONIC: start of the second that spent_ns_ counts
  int64_t spent_ns_ = 0;
  std::map<pid_t, std::map<pid_t, Reported>> last_;  // by process and thread
  std::set<int64_t> delivered_;                      // stacks
};

/// The child's work: a record's frames as text (base/python_frames.h); empty where there are none.
std::string traceback_text(std::string_view record);

}  // namespace stalltrace::capture
