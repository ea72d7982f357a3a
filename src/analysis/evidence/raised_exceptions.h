// SPDX-License-Identifier: Apache-2.0
// The last exception that each rank's Python program did not catch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "analysis/timeline/cluster.h"
#include "model/source.h"

namespace stalltrace::analysis {

struct RaisedException {
  std::string type;
  std::string location;  // "load_batch (data.py:212)": the innermost line of the program; empty: not known
  std::string called;    // "open (pathlib.py:1044)": what it called in installed code, where that raised; else empty
  std::string began;     // "<module> (train.py:88)": the outermost line of the program; empty: `location` is
  int64_t time_ns = 0;   // on the common clock
  bool in_main = false;  // of the main thread, which ends the process

  /// `traceback`: the text of its frames, as in a row of `stack`; may be empty.
  static RaisedException of(const std::string& type, const std::string& traceback);
  /// "ValueError in load_batch (data.py:212)"
  [[nodiscard]] std::string brief() const;
  /// "FileNotFoundError in load_batch (data.py:212), which called open (pathlib.py:1044), from <module> (train.py:88)"
  [[nodiscard]] std::string text() const;
};

class RaisedExceptions {
 public:
  /// Of each process the last one of its main thread; of processes whose main threads raised none, the last one.
  static Result<RaisedExceptions> load(EventSource& source, const Cluster& cluster);

  /// Null if there is none from kRaisedBeforeNs before `from_ns` on until `to_ns`.
  [[nodiscard]] const RaisedException* of(MemberIndex member, int64_t from_ns, int64_t to_ns) const;
  /// The one that ended its process; null if the process lives, was ended by a signal, or nothing shows one.
  [[nodiscard]] const RaisedException* that_ended(const Cluster& cluster, MemberIndex member) const;

 private:
  std::unordered_map<MemberIndex, RaisedException> last_;
};

}  // namespace stalltrace::analysis
