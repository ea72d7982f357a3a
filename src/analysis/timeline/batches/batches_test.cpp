// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/batches/batches.h"

#include <gtest/gtest.h>

#include "analysis/thresholds/stalls.h"
#include "analysis/timeline/sequence_table.h"
#include "base/clock.h"

namespace stalltrace::analysis {
namespace {

/// Batches of two calls, with ends as far apart as those of one synchronisation may be, every 100 ms.
CallSequence batches() {
  CallSequence sequence;
  for (int64_t i = 0; i < 200; ++i) {
    const int64_t first_ns = i * 100 * kNsPerMs + i * 137;
    const int64_t end_ns = first_ns + 20 * kNsPerMs;
    const int64_t last_ns = first_ns + 15 * kNsPerMs + i * 7 % kNsPerUs;
    SequenceTable::insert(sequence, Call{first_ns, 20'000, 0, Completion::kSync, true}, 2 * i);
    const auto last_us = static_cast<uint32_t>((end_ns + kSameEndNs - 1 - last_ns) / kNsPerUs);
    SequenceTable::insert(sequence, Call{last_ns, last_us, 0, Completion::kSync, true}, 2 * i + 1);
  }
  return sequence;
}

TEST(Batches, StayWholeWhereAClockDrifts) {
  for (const double ppm : {0.0, 50.0, -50.0, 100.0}) {
    std::vector<CallSequence> sequences{batches()};
    mark_batches(sequences);
    CallSequence& sequence = sequences[0];
    sequence.move(
        {.before = {}, .after = {.shift_ns = 0, .drift = {.rate = ppm * 1e-6, .at_ns = 0, .reach_ns = kForever / 2}}});
    for (int64_t number = 1; number < sequence.end_number(); number += 2) {
      ASSERT_EQ(sequence.calls[static_cast<size_t>(number)].batch, BatchPart::kLast);
      EXPECT_EQ(first_in_batch(sequence, number), number - 1) << ppm << " ppm";
    }
  }
}

}  // namespace
}  // namespace stalltrace::analysis
