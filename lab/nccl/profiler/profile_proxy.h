// SPDX-License-Identifier: Apache-2.0
// What the proxy thread reports to the profiler plugin about one transfer: an operation for each task and direction,
// its steps with what each waits for, and the device's work. The words are those of NCCL's network transport, the
// moments are this engine's: a step is posted when one of eight places for it is free, a send waits for the device
// until its data is there, then for the connection, then for the socket to take it; a receive waits for the network
// until its bytes are in, then for the device to reduce them. A receive waits for the network also while the device has
// not reached the operation: nothing is read ahead of it. Used by the proxy thread alone.
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
  [[nodiscard]] bool may_post() const { return posted_ < steps_ && posted_ < done_ + kPlaces; }

  /// The operations are next in line for their connection.
  void begin();
  /// Starts the next step, which now waits for `state`.
  void post(abi::EventState state);
  /// The first step that was not handed on yet goes over to `state`.
  void record(abi::EventState state, size_t bytes);
  /// It went through all that it waits for but the last.
  void hand_on() { handed_on_++; }
  /// Ends steps up to `done`, and operations with their last step.
  void complete(size_t done);

 private:
  static constexpr size_t kPlaces = 8;  // steps of a connection on their way, as in NCCL

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
  std::array<void*, kPlaces> places_{};
  size_t steps_ = 0;
  size_t posted_ = 0;
  size_t handed_on_ = 0;
  size_t done_ = 0;
};

/// A transfer as the profiler sees it.
class TransferEvents {
 public:
  struct Tasks {
    std::vector<TaskProfile> all;  // each task of the transfer once, also those that move nothing over the network
    std::vector<TaskSteps> sends;
    std::vector<TaskSteps> recvs;
  };
  /// What the transfer has done so far.
  struct Progress {
    size_t sent = 0;
    size_t received = 0;
    bool connected = false;  // the connection to send over is there
  };

  /// The proxy thread knows of the operations.
  TransferEvents(Profiler& profiler, const Tasks& tasks, int send_peer, int recv_peer);

  [[nodiscard]] int operations() const { return sends_.operations() + recvs_.operations(); }

  /// The transfer is the next one: its first steps are posted.
  void begin(const Schedule& schedule);
  /// The device has reached it: data may move.
  void device_arrived();
  /// Brings the events up to where the transfer is.
  void follow(const Schedule& schedule, const Progress& now);
  /// The next receive's bytes are in, and the device takes them.
  void received(size_t bytes);
  /// The transfer is done, for the device too.
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
