// SPDX-License-Identifier: Apache-2.0
// What is not probed, and why: counted for the recording, and the first of it named. Users can map files without end.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace stalltrace::capture {

class LeftOut {
 public:
  using Note = std::function<void(const std::string& text)>;

  /// `note` gets what is left out, with the reason, a bounded number of times.
  explicit LeftOut(Note note) : note_(std::move(note)) {}

  /// Once for each `what` and reason; `source` is the reason as the table loss has it.
  void add(const std::string& source, const std::string& what, const std::string& why);
  /// Counts by reason.
  [[nodiscard]] const std::map<std::string, uint64_t>& counts() const { return counts_; }

 private:
  Note note_;
  std::set<std::string> reported_;
  std::map<std::string, uint64_t> counts_;
};

}  // namespace stalltrace::capture
