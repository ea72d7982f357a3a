// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/campaign/reliability.h"

#include <gtest/gtest.h>

namespace stalltrace::lab {
namespace {

TEST(Reliability, HasTenBins) {
  Reliability reliability;
  for (const double confidence : {0.0, 0.05, 0.55, 0.59, 0.95, 1.0}) {
    reliability.add({confidence, true});
  }
  EXPECT_EQ(reliability.bins()[0].findings, 2);
  EXPECT_EQ(reliability.bins()[5].findings, 2);
  EXPECT_EQ(reliability.bins()[9].findings, 2) << "the last one includes 1";
  EXPECT_EQ(reliability.findings(), 6);
}

TEST(Reliability, OfABin) {
  Reliability reliability;
  reliability.add({0.72, true});
  reliability.add({0.78, false});
  const ReliabilityBin& bin = reliability.bins()[7];
  EXPECT_EQ(bin.correct, 1);
  EXPECT_DOUBLE_EQ(bin.mean_confidence(), 0.75);
  EXPECT_DOUBLE_EQ(bin.share_correct(), 0.5);
}

TEST(Reliability, BrierIsTheMeanSquareOfTheError) {
  Reliability reliability;
  EXPECT_FALSE(reliability.brier());
  reliability.add({0.9, true});
  reliability.add({0.5, false});
  EXPECT_NEAR(reliability.brier().value(), (0.01 + 0.25) / 2, 1e-12);
}

TEST(Reliability, AWrongCertaintyCostsMoreThanAWrongGuess) {
  Reliability certain;
  certain.add({0.99, false});
  Reliability guess;
  guess.add({0.55, false});
  EXPECT_GT(certain.brier().value(), 3 * guess.brier().value());
}

}  // namespace
}  // namespace stalltrace::lab
