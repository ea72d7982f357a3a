// SPDX-License-Identifier: Apache-2.0
// The proxy thread's reports to the profiler plugin about one transfer: an operation for each task and direction, its
// steps with their waits, and the device's work. The states are those of NCCL's network transport, the times are this
// engine's: a step is posted when one of its eight slots is free; a send waits for the device until its data is there,
// then for the connection, then for the socket to take it; a receive waits for the network until its bytes are in, then
// for the device to reduce them. A receive also waits for the network while the device has not reached the operation,
// since nothing is read ahead of it. Used by the proxy thread only.
#pragma once

#include <array>
#include <vector>

#include "operation.h"
#include "profiler.h"
#include "schedule.h"

namespace lab::nccl {

/// Which steps of a schedule, in one direction, belong to which task.
struct TaskSteps {
  TaskProfile task;
  size_t first = 0;
  size_t count = 0;
};

/// The operations of one direction of one transfer.
class DirectionEvents {
 public:
  DirectionEvents(Profiler& profiler, bool sends, int peer, std::vector<TaskSteps> tasks);

  [[nodiscard]] int operations() const { return static_cast<int>(operations_.size()); }
  [[nodiscard]] size_t posted() const { return posted_; }
  [[nodiscard]] size_t handed_on() const { return handed_on_; }
  [[nodiscard]] bool may_post() const { return posted_ < steps_ && posted_ < done_ + kSlots; }

  /// The operations are the next ones on their connection.
  void begin();
  /// Starts the next step, which now waits for `state`.
  void post(abi::EventState state);
  /// The first step that was not handed on changes to `state`.
  void record(abi::EventState state, size_t bytes);
  /// The step has only its last wait left.
  void hand_on() { handed_on_++; }
  /// Ends steps up to `done`, and each operation with its last step.
  void complete(size_t done);

 private:
  static constexpr size_t kSlots = 8;  // steps under way on a connection, as in NCCL

  struct Task {
    TaskSteps steps;
    void* handle;
    size_t transferred_bytes;  // of the latest step, as NCCL reports it
  };
  Task& task_of(size_t step);

  Profiler& profiler_;
  bool sends_;
  int peer_;
  std::vector<Task> operations_;
  std::array<void*, kSlots> slots_{};
  size_t steps_ = 0;
  size_t posted_ = 0;
  size_t handed_on_ = 0;
  size_t done_ = 0;
};

/// The profiler's view of a transfer.
class TransferEvents {
 public:
  struct Tasks {
    std::vector<TaskProfile> all;  // each task of the transfer once, including those without network traffic
    std::vector<TaskSteps> sends;
    std::vector<TaskSteps> recvs;
  };
  /// The transfer's progress.
  struct Progress {
    size_t sent = 0;
    size_t received = 0;
    bool connected = false;  // the connection for sending exists
  };

  /// The proxy thread knows of the operations.
  TransferEvents(Profiler& profiler, const Tasks& tasks, int send_peer, int recv_peer);

  [[nodiscard]] int operations() const { return sends_.operations() + recvs_.operations(); }

  /// The transfer is the next one: its first steps are posted.
  void begin(const Schedule& schedule);
  /// The device has reached it: data may move.
  void device_arrived();
  /// Updates the events to the transfer's progress.
  void follow(const Schedule& schedule, const Progress& now);
  /// The next receive's bytes are in, and the device processes them.
  void received(size_t bytes);
  /// The transfer is done, on the device too.
  void end();

 private:
  void post(const Schedule& schedule, const Progress& now);

  Profiler& profiler_;
  std::vector<TaskProfile> tasks_;
  std::vector<void*> kernels_;
  DirectionEvents recvs_;
  DirectionEvents sends_;
  bool peer_wait_reported_ = false;
  bool device_there_ = false;
};

/// One event of the proxy thread itself. Does nothing without a profiler.
class ControlEvent {
 public:
  explicit ControlEvent(Profiler* profiler);
  ~ControlEvent();
  ControlEvent(const ControlEvent&) = delete;
  ControlEvent& operator=(const ControlEvent&) = delete;

  void record(abi::EventState state, int appended_operations = 0);

 private:
  Profiler* profiler_;
  void* handle_ = nullptr;
};

}  // namespace lab::nccl
