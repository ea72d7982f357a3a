// SPDX-License-Identifier: Apache-2.0
// What the parent asks for, a line each, and the answers: words between blanks, in which only the last one of a line
// may have blanks. src/preflight/peers/collectives/helper.h is the other end.
//
//   load DEVICE [PATH]                       loaded VERSION DEVICES PATH
//   id                                       id HEXADECIMAL
//   connect RANKS RANK BYTES HEXADECIMAL     connected NANOSECONDS
//   run NAME BYTES CALLS CHECK               launched, then: done NANOSECONDS WRONG BYTES
//
// `error TEXT` instead of an answer; after it the communicator is not to be used. DEVICE counts from 0, and begins
// again where there are fewer. `connect`: the largest size that will be run is BYTES. `run`: with CHECK 1 the operation
// is made once and its results are compared (WRONG: the elements that are not right); then all ranks wait for each
// other, and CALLS more are timed, together. NANOSECONDS are those of one call, BYTES what it had, by the definition of
// nccl-tests.
#pragma once

#include "plugin/collectives/libraries.h"
#include "plugin/collectives/pattern.h"

namespace stalltrace::collectives {

class Orders {
 public:
  /// Answers go to the descriptor.
  explicit Orders(int out) : out_(out) {}
  /// `line` is changed.
  void follow(char* line);

 private:
  bool load(char* words);
  bool make_id();
  bool connect(char* words);
  bool run(char* words);

  bool make_buffers(unsigned long long bytes);
  bool launch(const Call& call);
  /// Until the stream has done all: asks the library for errors, as NCCL's own guide has it.
  bool wait_for_stream();
  bool wait_for_all_ranks();
  bool check(const Call& call, unsigned long long& wrong);
  bool check_part(const Call& call, unsigned long long begin, unsigned long long end, unsigned long long& wrong);
  void answer(const char* format, ...) __attribute__((format(printf, 2, 3)));

  int out_;
  Failure failure_{};
  Libraries libraries_{};
  Comm comm_ = nullptr;
  Stream stream_ = nullptr;
  unsigned long long ranks_ = 0;
  unsigned long long rank_ = 0;
  unsigned long long capacity_ = 0;  // bytes of each buffer of the device
  void* send_ = nullptr;
  void* receive_ = nullptr;
  void* meeting_ = nullptr;  // of the call in which all ranks wait for each other
  float* host_ = nullptr;    // kPartElements
};

}  // namespace stalltrace::collectives
