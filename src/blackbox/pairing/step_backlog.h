// SPDX-License-Identifier: Apache-2.0
// Steps of one process that came before their collective: they wait for it, since their rows name its row. Pure; one
// thread.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "model/events.h"

namespace stalltrace::blackbox {

class StepBacklog {
 public:
  /// `collective`: its id in the file. Returns the steps that have to go without it: those of the collectives waited
  /// for longest, where more than 8,192 steps or collectives are waiting.
  std::vector<ProxyStep> hold(uint64_t collective, ProxyStep row);
  /// The steps that wait for the collective, in the order they came.
  std::vector<ProxyStep> take(uint64_t collective);
  /// All that wait.
  std::vector<ProxyStep> take_all();

 private:
  std::unordered_map<uint64_t, std::vector<ProxyStep>> steps_;  // by collective
  std::deque<uint64_t> order_;                                  // of collectives; some are taken already
  size_t held_ = 0;
};

}  // namespace stalltrace::blackbox
