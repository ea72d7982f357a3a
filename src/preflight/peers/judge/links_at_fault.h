// SPDX-License-Identifier: Apache-2.0
// Faults of links, folded: what all tested links of a node have, or all from or to it, is one check of that node.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "preflight/host_check.h"
#include "preflight/peers/launch.h"
#include "preflight/peers/rounds.h"

namespace stalltrace::preflight {

class LinksAtFault {
 public:
  /// Borrows `results`.
  explicit LinksAtFault(const LaunchResults& results);

  /// A fault of the check that is being made.
  void add(const PairResult& pair, Outcome outcome, std::string detail, std::string remedy);
  /// The faults since the last call, folded, worst first; at most some dozen, the last of which counts the rest.
  std::vector<HostCheck> take(std::string_view check);
  /// Of each pair with any fault so far.
  [[nodiscard]] const std::map<Pair, Outcome>& worst() const { return worst_; }

 private:
  struct Fault {
    Pair pair;
    Outcome outcome = Outcome::kOk;
    std::string detail;
    std::string remedy;
  };
  std::vector<HostCheck> fold(std::string_view check, std::vector<Fault> faults, bool receivers_first) const;
  [[nodiscard]] const std::string& name(int32_t node) const { return results_.nodes[static_cast<size_t>(node)].name; }

  const LaunchResults& results_;
  std::map<int32_t, int64_t> tested_from_;
  std::map<int32_t, int64_t> tested_to_;
  std::vector<Fault> faults_;
  std::map<Pair, Outcome> worst_;
};

}  // namespace stalltrace::preflight
