// SPDX-License-Identifier: Apache-2.0
// Steps of one process that arrived before their collective and wait for it, since their rows name its row. Pure; one
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
  /// `collective`: its id in the file. Returns the steps to deliver without their collective: where more than 8,192
  /// steps or collectives wait, those of the collectives that have waited longest.
  std::vector<ProxyStep> hold(uint64_t collective, ProxyStep row);
  /// The steps that wait for the collective, in order of arrival.
  std::vector<ProxyStep> take(uint64_t collective);
  /// All waiting steps.
  std::vector<ProxyStep> take_all();

 private:
  std::unordered_map<uint64_t, std::vector<ProxyStep>> steps_;  // by collective
  std::deque<uint64_t> order_;                                  // collectives in order; some are already taken
  size_t held_ = 0;
};

}  // namespace stalltrace::blackbox
