// SPDX-License-Identifier: Apache-2.0
// The tree of values of a pickle or a JSON text, in arrays: an index stands for a value, so that a memo may share one,
// and nothing is freed one by one. All accessors take any index and any kind.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stalltrace::import {

using ValueIndex = uint32_t;
inline constexpr ValueIndex kNoValue = 0;  // of every tree: nothing

class ValueTree {
 public:
  enum class Kind : uint8_t { kNone, kBool, kInteger, kReal, kText, kList, kDict, kMark, kGlobal };
  static constexpr size_t kMostValues = size_t{4} << 20;

  ValueTree() { values_.push_back({}); }

  /// kNoValue if there are too many (`full`).
  ValueIndex add(Kind kind, int64_t number = 0);
  ValueIndex add_real(double real);
  /// The text has to outlive the tree, unless it is `keep`s result.
  ValueIndex add_text(std::string_view text);
  std::string_view keep(std::string text) { return texts_.emplace_back(std::move(text)); }
  ValueIndex add_list();
  ValueIndex add_dict();
  /// That an empty list or dictionary is about to get this many members, which the caller has: only saves time.
  void expect(ValueIndex into, size_t members);
  bool append(ValueIndex list, ValueIndex item);
  bool put(ValueIndex dict, ValueIndex key, ValueIndex value);
  [[nodiscard]] bool full() const { return full_; }

  [[nodiscard]] Kind kind(ValueIndex index) const { return at(index).kind; }
  [[nodiscard]] std::optional<int64_t> integer(ValueIndex index) const;
  [[nodiscard]] std::optional<double> real(ValueIndex index) const;
  [[nodiscard]] std::string_view text(ValueIndex index) const;  // empty for other kinds
  [[nodiscard]] const std::vector<ValueIndex>& items(ValueIndex list) const;
  [[nodiscard]] const std::vector<std::pair<ValueIndex, ValueIndex>>& entries(ValueIndex dict) const;
  /// The value of a key; kNoValue if there is none.
  [[nodiscard]] ValueIndex find(ValueIndex dict, std::string_view key) const;

 private:
  struct Value {
    Kind kind = Kind::kNone;
    int64_t number = 0;  // the value, the bits of a real, or the index of its content
  };
  [[nodiscard]] const Value& at(ValueIndex index) const { return values_[index < values_.size() ? index : 0]; }

  std::vector<Value> values_;
  std::vector<std::string_view> views_;
  std::deque<std::string> texts_;
  std::vector<std::vector<ValueIndex>> lists_;
  std::vector<std::vector<std::pair<ValueIndex, ValueIndex>>> dicts_;
  size_t members_ = 0;
  bool full_ = false;
};

}  // namespace stalltrace::import
