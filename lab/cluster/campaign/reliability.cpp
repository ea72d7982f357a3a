// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/campaign/reliability.h"

#include <algorithm>

namespace stalltrace::lab {

void Reliability::add(const Assertion& assertion) {
  const double tenths = std::clamp(assertion.confidence, 0.0, 1.0) * static_cast<double>(kBins);
  ReliabilityBin& bin = bins_[std::min(static_cast<size_t>(tenths), kBins - 1)];
  ++bin.findings;
  bin.correct += assertion.correct ? 1 : 0;
  bin.confidence += assertion.confidence;
  const double error = assertion.confidence - (assertion.correct ? 1 : 0);
  squares_ += error * error;
  ++findings_;
}

std::optional<double> Reliability::brier() const {
  return findings_ == 0 ? std::nullopt : std::optional(squares_ / static_cast<double>(findings_));
}

}  // namespace stalltrace::lab
