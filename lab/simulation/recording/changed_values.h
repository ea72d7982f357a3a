// SPDX-License-Identifier: Apache-2.0
// Which readings of counters become rows, as the agent's host sampler has it (capture/host/host_sampler.h): those that
// changed, each with the last unchanged reading before it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace stalltrace::simulation {

class ChangedValues {
 public:
  /// `write(value, time_ns)` makes a row.
  template <typename Write>
  void read(const std::string& counter, double value, int64_t time_ns, const Write& write) {
    const auto [found, fresh] = known_.try_emplace(counter, Known{value, time_ns, time_ns});
    Known& known = found->second;
    if (fresh) {
      write(value, time_ns);
    } else if (value != known.value) {
      if (known.written_ns != known.read_ns) {
        write(known.value, known.read_ns);
      }
      write(value, time_ns);
      known.value = value;
      known.written_ns = time_ns;
    }
    known.read_ns = time_ns;
  }

 private:
  struct Known {
    double value = 0;
    int64_t read_ns = 0;
    int64_t written_ns = 0;
  };
  std::map<std::string, Known> known_;
};

}  // namespace stalltrace::simulation
