// SPDX-License-Identifier: Apache-2.0
#include "analysis/evidence/reads/compared_members.h"

#include <algorithm>

#include "base/hash.h"

namespace stalltrace::analysis {

std::vector<MemberIndex> compared_members(const std::vector<MemberIndex>& members) {
  std::vector<MemberIndex> chosen = members;
  if (chosen.size() > kMostCompared) {
    const auto last = chosen.begin() + static_cast<std::ptrdiff_t>(kMostCompared);
    std::ranges::nth_element(chosen, last, {}, [](MemberIndex member) { return splitmix64_mix(member); });
    chosen.erase(last, chosen.end());
  }
  return chosen;
}

}  // namespace stalltrace::analysis
