// SPDX-License-Identifier: Apache-2.0
// A source over vectors, for tests.
#pragma once

#include <tuple>
#include <unordered_map>
#include <vector>

#include "model/source.h"

namespace stalltrace {

/// Keeps all rows that it accepts. Single-threaded.
class MemorySource final : public EventSource, public EventSink {
 public:
  // Not inline: each test would compile those of all types.
  MemorySource();
  MemorySource(const MemorySource& other);
  MemorySource(MemorySource&& other) noexcept;
  MemorySource& operator=(const MemorySource& other);
  MemorySource& operator=(MemorySource&& other) noexcept;
  ~MemorySource() override;

  /// Replaces the row with the same key, if the type has one (EventTraits); appends any other.
  void accept(Event event) override;

  Status read_state(AnyRows rows) override;
  Status read_stream(TimeRange range, AnyVisitor visitor) override;

 private:
  template <typename T>
  using Column = std::vector<T>;

  ForTypes<std::tuple, Column, kEventTypes> rows_;
  std::unordered_map<EventId, size_t> collective_index_;
};

}  // namespace stalltrace
