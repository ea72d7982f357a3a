// SPDX-License-Identifier: Apache-2.0
#include "import/value.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace stalltrace::import {

ValueIndex ValueTree::add(Kind kind, int64_t number) {
  if (values_.size() >= kMostValues) {
    full_ = true;
    return kNoValue;
  }
  values_.push_back({kind, number});
  return static_cast<ValueIndex>(values_.size() - 1);
}

ValueIndex ValueTree::add_real(double real) { return add(Kind::kReal, std::bit_cast<int64_t>(real)); }

ValueIndex ValueTree::add_text(std::string_view text) {
  const ValueIndex index = add(Kind::kText, static_cast<int64_t>(views_.size()));
  if (index != kNoValue) {
    views_.push_back(text);
  }
  return index;
}

ValueIndex ValueTree::add_list() {
  const ValueIndex index = add(Kind::kList, static_cast<int64_t>(lists_.size()));
  if (index != kNoValue) {
    lists_.emplace_back();
  }
  return index;
}

ValueIndex ValueTree::add_dict() {
  const ValueIndex index = add(Kind::kDict, static_cast<int64_t>(dicts_.size()));
  if (index != kNoValue) {
    dicts_.emplace_back();
  }
  return index;
}

void ValueTree::expect(ValueIndex into, size_t members) {
  if (kind(into) == Kind::kList) {
    auto& list = lists_[static_cast<size_t>(at(into).number)];
    list.reserve(list.empty() ? members : 0);
  } else if (kind(into) == Kind::kDict) {
    auto& dict = dicts_[static_cast<size_t>(at(into).number)];
    dict.reserve(dict.empty() ? members : 0);
  }
}

bool ValueTree::append(ValueIndex list, ValueIndex item) {
  if (kind(list) != Kind::kList || ++members_ > kMostValues) {
    return false;
  }
  lists_[static_cast<size_t>(at(list).number)].push_back(item);
  return true;
}

bool ValueTree::put(ValueIndex dict, ValueIndex key, ValueIndex value) {
  if (kind(dict) != Kind::kDict || ++members_ > kMostValues) {
    return false;
  }
  dicts_[static_cast<size_t>(at(dict).number)].emplace_back(key, value);
  return true;
}

std::optional<int64_t> ValueTree::integer(ValueIndex index) const {
  const Value& value = at(index);
  if (value.kind == Kind::kReal) {
    const auto number = std::bit_cast<double>(value.number);
    const bool fits = std::isfinite(number) && std::fabs(number) < 9e18;
    return fits ? static_cast<int64_t>(number) : 0;
  }
  const bool number = value.kind == Kind::kInteger || value.kind == Kind::kBool;
  return number ? std::optional(value.number) : std::nullopt;
}

std::optional<double> ValueTree::real(ValueIndex index) const {
  const Value& value = at(index);
  if (value.kind == Kind::kReal) {
    return std::bit_cast<double>(value.number);
  }
  return value.kind == Kind::kInteger ? std::optional(static_cast<double>(value.number)) : std::nullopt;
}

std::string_view ValueTree::text(ValueIndex index) const {
  const Value& value = at(index);
  return value.kind == Kind::kText ? views_[static_cast<size_t>(value.number)] : std::string_view();
}

const std::vector<ValueIndex>& ValueTree::items(ValueIndex list) const {
  static const std::vector<ValueIndex> kEmpty;
  return kind(list) == Kind::kList ? lists_[static_cast<size_t>(at(list).number)] : kEmpty;
}

const std::vector<std::pair<ValueIndex, ValueIndex>>& ValueTree::entries(ValueIndex dict) const {
  static const std::vector<std::pair<ValueIndex, ValueIndex>> kEmpty;
  return kind(dict) == Kind::kDict ? dicts_[static_cast<size_t>(at(dict).number)] : kEmpty;
}

ValueIndex ValueTree::find(ValueIndex dict, std::string_view key) const {
  constexpr size_t kMostKeys = 256;  // a dump's dictionaries have less; many references to a large one take no time
  const auto& all = entries(dict);
  for (size_t i = 0; i < std::min(all.size(), kMostKeys); ++i) {
    const auto& [name, value] = all[i];
    if (kind(name) == Kind::kText && text(name) == key) {
      return value;
    }
  }
  return kNoValue;
}

}  // namespace stalltrace::import
