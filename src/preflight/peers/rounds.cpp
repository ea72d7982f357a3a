// SPDX-License-Identifier: Apache-2.0
#include "preflight/peers/rounds.h"

namespace stalltrace::preflight {

std::vector<std::vector<Pair>> plan_rounds(int32_t nodes, size_t most) {
  std::vector<std::vector<Pair>> rounds;
  if (nodes < 2) {
    return rounds;
  }
  const int32_t seats = nodes + nodes % 2;  // with an odd number one node rests in each round
  const int32_t circle = seats - 1;         // the last seat stays, the others turn
  const auto count = static_cast<size_t>(circle);
  for (size_t i = 0; i < count && i < most; ++i) {
    const auto turn = static_cast<int32_t>(count <= most ? i : i * count / most);
    std::vector<Pair> round;
    if (seats == nodes) {
      round.emplace_back(turn, nodes - 1);
    }
    for (int32_t k = 1; k <= (seats - 2) / 2; ++k) {
      round.emplace_back((turn + k) % circle, (turn - k + circle) % circle);
    }
    rounds.push_back(std::move(round));
  }
  return rounds;
}

}  // namespace stalltrace::preflight
