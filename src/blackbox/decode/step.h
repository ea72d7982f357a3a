// SPDX-License-Identifier: Apache-2.0
// Proxy operations and steps of a profiler file → rows of `proxy_step`. A step with a record of its own becomes a row;
// its operation's row sums the other steps, so that rows add up. Pure; one thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "blackbox/decode/values.h"
#include "model/events.h"

namespace stalltrace::blackbox {

struct StepRow {
  ProxyStep row;            // without collective_id
  uint64_t operation = 0;   // for an open one: the operation's id in the file
  uint64_t collective = 0;  // its collective's id in the file; 0: none, or in another process's file
};

class StepDecoder {
 public:
  /// Converts an ended step. Its sums are kept until its operation ends. Beyond 4,096 operations, the steps of a new
  /// operation are not kept: its row then includes them a second time, and each is counted in doubled_steps().
  std::optional<StepRow> ended_step(const st_box_event& step, const st_box_communicator* communicator,
                                    const Owner& owner);
  /// Converts an ended operation; nullopt where every step of it had a row.
  std::optional<StepRow> ended_operation(const st_box_event& operation, const st_box_communicator* communicator,
                                         const Owner& owner);
  /// Operations that have not ended, with the wait of their first open step; `open` holds operations and steps.
  /// `communicator_of` returns an event's communicator or null. `now_ns`: CLOCK_MONOTONIC.
  template <typename Find>
  std::vector<StepRow> open_operations(const std::vector<st_box_event>& open, uint64_t now_ns,
                                       const Find& communicator_of, const Owner& owner) const {
    std::vector<StepRow> rows;
    const auto foremost = foremost_steps(open);
    for (const st_box_event& event : open) {
      if (event.type != ST_BOX_PROXY_OP) {
        continue;
      }
      const auto step = foremost.find(event.id);
      auto row = open_operation(event, step == foremost.end() ? nullptr : step->second, now_ns,
                                communicator_of(event.communicator), owner);
      if (row) {
        row->operation = event.id;
        rows.push_back(std::move(*row));
      }
    }
    return rows;
  }

  /// Number of steps with a row that their operation's row includes too.
  [[nodiscard]] uint64_t doubled_steps() const { return doubled_steps_; }

 private:
  struct Sums {
    uint32_t steps = 0;
    uint64_t bytes = 0;
    std::array<uint64_t, ST_BOX_WAITS> wait_ns{};
  };
  static std::unordered_map<uint64_t, const st_box_event*> foremost_steps(const std::vector<st_box_event>& open);
  std::optional<StepRow> open_operation(const st_box_event& operation, const st_box_event* step, uint64_t now_ns,
                                        const st_box_communicator* communicator, const Owner& owner) const;

  std::unordered_map<uint64_t, Sums> separate_;  // by operation: the sum of its steps' own rows
  uint64_t doubled_steps_ = 0;
};

}  // namespace stalltrace::blackbox
