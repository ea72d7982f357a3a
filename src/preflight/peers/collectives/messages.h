// SPDX-License-Identifier: Apache-2.0
// What rank 0 asks of a rank's library, and the answer: as JSON between rank 0 and the rank, as a line between the rank
// and its program (plugin/collectives/orders.h). All of it is untrusted, as in peers/messages.h.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace stalltrace::preflight {

inline constexpr int64_t kMostCalls = 20;  // that are timed together; the default of nccl-tests
inline constexpr int64_t kLongestStepNs = 300 * kNsPerSecond;
inline constexpr int64_t kMostCollectiveBytes = 1LL << 36;

struct CollectiveOrder {
  enum class Step : uint8_t { kLoad, kId, kConnect, kRun };
  Step step = Step::kLoad;
  int64_t limit_ns = kNsPerSecond;  // for the answer
  int64_t device = 0;               // kLoad
  int64_t ranks = 0;                // kConnect
  int64_t rank = 0;                 // kConnect
  int64_t bytes = 0;                // kConnect: the largest size; kRun
  std::string id;                   // kConnect
  size_t operation = 0;             // kRun
  int64_t calls = 1;                // kRun
  bool check = false;               // kRun
};
nlohmann::ordered_json to_json(const CollectiveOrder& order);
/// Errors: it is no order, or beyond limits.
Result<CollectiveOrder> collective_order_from_json(const nlohmann::ordered_json& message);
/// For the program, with the line's end. `library`: the file; empty: the linker's choice.
std::string line_of(const CollectiveOrder& order, const std::string& library);

struct CollectiveAnswer {
  enum class State : uint8_t { kDone, kError, kUnfinished, kEnded };  // kEnded: the program itself
  State state = State::kError;
  std::string detail;       // of what is not done
  bool launched = false;    // kUnfinished
  int64_t version = 0;      // kLoad
  std::string library;      // kLoad
  std::string id;           // kId
  int64_t duration_ns = 0;  // kConnect, kRun: of one call
  int64_t wrong = 0;        // kRun
  int64_t bytes = 0;        // kRun
};
nlohmann::ordered_json to_json(const CollectiveAnswer& answer);
CollectiveAnswer collective_answer_from_json(const nlohmann::ordered_json& message);
/// The program's line. Nothing: a line on the way to the answer ("launched").
std::optional<CollectiveAnswer> answer_of_line(const CollectiveOrder& order, std::string_view line);

/// 128 bytes in hexadecimal digits.
[[nodiscard]] bool is_unique_id(std::string_view id);

}  // namespace stalltrace::preflight
