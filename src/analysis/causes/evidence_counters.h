// SPDX-License-Identifier: Apache-2.0
// Counters that a rule fills for a stall; they are summed over the stalls of a finding.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <typeinfo>
#include <vector>

#include "model/events.h"

namespace stalltrace::analysis {

/// Events that are kept as examples.
inline constexpr size_t kSampleEvents = 5;

struct EvidenceCounter {
  int64_t count = 0;
  int64_t time_ns = 0;
  std::vector<EventId> events;  // a few examples; a sum holds no event twice
};

/// Counters by the keys of a rule's own enumeration. Only the rule that fills them reads them; keys of different
/// enumerations never mix.
class EvidenceCounters {
 public:
  /// The counter for `key`, created if missing. `detail` distinguishes several counters with one key ("stress-cpu").
  template <typename Key>
  requires std::is_enum_v<Key> EvidenceCounter& at(Key key, std::string_view detail = {}) {
    return counters_[{typeid(Key), static_cast<int>(key), std::string(detail)}];
  }
  /// Sum over all details; zero if nothing was counted.
  template <typename Key>
  requires std::is_enum_v<Key>
  [[nodiscard]] EvidenceCounter sum(Key key) const { return sum_of(typeid(Key), static_cast<int>(key)); }
  /// The detail with the most time; empty if there is none.
  template <typename Key>
  requires std::is_enum_v<Key>
  [[nodiscard]] std::string longest_detail(Key key) const { return longest(key).detail; }
  struct Detail {
    std::string detail;
    int64_t time_ns = 0;
  };
  /// The same detail with its time.
  template <typename Key>
  requires std::is_enum_v<Key>
  [[nodiscard]] Detail longest(Key key) const { return longest_of(typeid(Key), static_cast<int>(key)); }

  void merge(const EvidenceCounters& more);

 private:
  struct Id {
    std::type_index keys;
    int key = 0;
    std::string detail;
    auto operator<=>(const Id&) const = default;
  };
  [[nodiscard]] EvidenceCounter sum_of(std::type_index keys, int key) const;
  [[nodiscard]] Detail longest_of(std::type_index keys, int key) const;

  std::map<Id, EvidenceCounter> counters_;
};

}  // namespace stalltrace::analysis
