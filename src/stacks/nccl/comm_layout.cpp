// SPDX-License-Identifier: Apache-2.0
#include "stacks/nccl/comm_layout.h"

#include <array>

namespace stalltrace::stacks {
namespace {

using enum CommCounters;

constexpr std::array kLayouts{
    CommLayout{"2.21.5", 13528, kNone, 0, 16280},
    CommLayout{"2.22.3", 213576, kNone, 0, 219512},
    CommLayout{"2.23.4", 246944, kNone, 0, 253144},
    CommLayout{"2.24.3", 246944, kCollectives, 247224, 252616},
    CommLayout{"2.25.1", 492704, kCollectives, 492984, 501064},
    CommLayout{"2.26.2 to 2.26.6", 492720, kOperations, 501008, 506744},
    CommLayout{"2.27.3 to 2.27.7", 1066160, kOperations, 1074512, 1080312},
    CommLayout{"2.28.3", 1066176, kOperations, 1075720, 1081808},
    CommLayout{"2.28.7 to 2.28.9", 1066184, kOperations, 1075728, 1082960},
    CommLayout{"2.29.2 to 2.29.3", 1066704, kOperations, 1076856, 1084800},
    CommLayout{"2.29.7", 1181392, kOperations, 1191544, 1199584},
    CommLayout{"2.30.3 to 2.30.4", 1181400, kOperations, 1191560, 1199720},
    CommLayout{"2.30.7", 1181416, kOperations, 1191576, 1199736},
};

constexpr bool ends_differ() {
  for (size_t i = 0; i < kLayouts.size(); ++i) {
    for (size_t j = i + 1; j < kLayouts.size(); ++j) {
      if (kLayouts[i].end == kLayouts[j].end) {
        return false;
      }
    }
  }
  return true;
}
static_assert(ends_differ() && kLayouts.size() <= kMostCommLayouts);

}  // namespace

std::span<const CommLayout> comm_layouts() { return kLayouts; }

}  // namespace stalltrace::stacks
