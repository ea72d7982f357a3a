// SPDX-License-Identifier: Apache-2.0
// Proxy operations and steps of a profiler file → rows of `proxy_step`. A step that is a record of its own becomes a
// row of its own; its operation's row sums the rest, so that rows add up. Every number is checked here. Pure; one
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "blackbox/decode/decode.h"
#include "model/events.h"

namespace stalltrace::blackbox {

struct StepRow {
  ProxyStep row;            // without collective_id
  uint64_t operation = 0;   // open: the operation's id in the box
  uint64_t collective = 0;  // its collective's id in the box; 0 none, or in another process's box
};

class StepDecoder {
 public:
  /// A step that has ended. Of those of one operation a few thousand operations are remembered until the
  /// operation comes.
  std::optional<StepRow> ended_step(const st_box_event& step, const st_box_communicator* communicator,
                                    const Owner& owner);
  /// An operation that has ended; none where every step of it had a row.
  std::optional<StepRow> ended_operation(const st_box_event& operation, const st_box_communicator* communicator,
                                         const Owner& owner);
  /// Operations that have not ended, with what the foremost of their steps waits for; `open` holds both.
  /// `communicator_of` finds an event's communicator or null.
  template <typename Find>
  std::vector<StepRow> open_operations(const std::vector<st_box_event>& open, uint64_t now_ns,
                                       const Find& communicator_of, const Owner& owner) {
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

 private:
  struct Sums {
    uint32_t steps = 0;
    uint64_t bytes = 0;
    std::array<uint64_t, ST_BOX_WAITS> wait_ns{};
  };
  static std::unordered_map<uint64_t, const st_box_event*> foremost_steps(const std::vector<st_box_event>& open);
  std::optional<StepRow> open_operation(const st_box_event& operation, const st_box_event* step, uint64_t now_ns,
                                        const st_box_communicator* communicator, const Owner& owner) const;

  std::unordered_map<uint64_t, Sums> told_;  // by operation: what its steps' own rows hold
};

}  // namespace stalltrace::blackbox
