// SPDX-License-Identifier: Apache-2.0
// Whether the confidence of findings means what it says: how often findings of each confidence were right. Pure; any
// thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace stalltrace::lab {

/// A finding that asserts a cause: right if cause, location and time are those of a fault.
struct Assertion {
  double confidence = 0;
  bool correct = false;
};

/// Findings whose confidence is in one tenth of 0 to 1; the last tenth includes 1.
struct ReliabilityBin {
  int64_t findings = 0;
  int64_t correct = 0;
  double confidence = 0;  // sum

  [[nodiscard]] double mean_confidence() const { return confidence / static_cast<double>(findings); }
  [[nodiscard]] double share_correct() const { return static_cast<double>(correct) / static_cast<double>(findings); }
};

class Reliability {
 public:
  static constexpr size_t kBins = 10;

  /// A confidence outside of 0 to 1 counts in the nearest bin, and with its own value in the score.
  void add(const Assertion& assertion);
  [[nodiscard]] const std::array<ReliabilityBin, kBins>& bins() const { return bins_; }
  [[nodiscard]] int64_t findings() const { return findings_; }
  /// Brier's score: the mean of (confidence - outcome)^2, the outcome being 1 or 0. 0 is perfect; a constant 0.5 has
  /// 0.25. nullopt without findings.
  [[nodiscard]] std::optional<double> brier() const;

 private:
  std::array<ReliabilityBin, kBins> bins_{};
  int64_t findings_ = 0;
  double squares_ = 0;  // sum
};

}  // namespace stalltrace::lab
