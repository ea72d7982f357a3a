// SPDX-License-Identifier: Apache-2.0
// Which readings of counters are worth a row: the first, and those that changed, each with the last unchanged reading
// before it, so that the rows show until when a counter stood still.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace stalltrace {

class ChangedValues {
 public:
  /// Calls `write(value, time_ns)` for each row, in the order of time. `owner`: of the counter, for forget_if().
  template <typename Write>
  void read(std::string counter, double value, int64_t time_ns, const Write& write, int64_t owner = 0) {
    const auto [found, fresh] = known_.try_emplace(std::move(counter), Known{value, time_ns, time_ns, owner});
    Known& known = found->second;
    if (fresh) {
      write(value, time_ns);
      return;
    }
    if (value != known.value) {
      if (known.written_ns != known.read_ns) {
        write(known.value, known.read_ns);
      }
      write(value, time_ns);
      known.value = value;
      known.written_ns = time_ns;
    }
    known.read_ns = time_ns;
  }

  /// Forgets the counters of each owner for which `gone(owner)` is true.
  template <typename Gone>
  void forget_if(const Gone& gone) {
    std::erase_if(known_, [&](const auto& known) { return gone(known.second.owner); });
  }

 private:
  struct Known {
    double value = 0;
    int64_t read_ns = 0;     // time of the last reading
    int64_t written_ns = 0;  // time of the latest row
    int64_t owner = 0;
  };
  std::map<std::string, Known> known_;
};

}  // namespace stalltrace
