// SPDX-License-Identifier: Apache-2.0
#include "store/btree/record.h"

#include <algorithm>

namespace stalltrace::store {
namespace {

uint64_t body_bytes(uint64_t type) {
  constexpr std::array<uint8_t, 12> kFixed{0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0};
  return type < kFixed.size() ? kFixed[type] : (type - kFixed.size()) / 2;
}

}  // namespace

RecordReader::RecordReader(const BtreeTable& table) : table_(&table) {
  for (Set& set : sets_) {
    for (Layout& layout : set.layouts) {
      layout.values.resize(table.stored.size());
    }
  }
  long_header_.values.resize(table.stored.size());
}

bool RecordReader::take(int64_t id, const uint8_t* begin, const uint8_t* end) {
  const uint8_t* at = begin;
  const uint64_t header_bytes = varint(at, end);
  if (at == nullptr || header_bytes < static_cast<uint64_t>(at - begin) ||
      header_bytes > static_cast<uint64_t>(end - begin)) {
    return false;
  }
  id_ = id;
  body_ = begin + header_bytes;
  layout_ = find(begin, header_bytes, at);
  return layout_ != nullptr && layout_->body_size <= static_cast<uint64_t>(end - body_);
}

/// The layout of the header in [begin, begin + bytes), whose serial types start at `types`; null if it is invalid.
const RecordReader::Layout* RecordReader::find(const uint8_t* begin, uint64_t bytes, const uint8_t* types) {
  if (bytes > 8 * kHeaderWords) {
    return parse(types, begin + bytes, long_header_) ? &long_header_ : nullptr;
  }
  const size_t count = (bytes + 7) / 8;
  Words words{};
  uint64_t hash = bytes;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t beyond = i + 1 < count ? 0 : 8 * count - bytes;
    words[i] = eight_bytes(begin + 8 * i) >> 8 * beyond;
    hash = (hash ^ words[i]) * 0x9e37'79b9'7f4a'7c15;
  }
  Set& set = sets_[(hash >> 32) % kSets];
  for (const Layout& layout : set.layouts) {
    if (layout.hash == hash && layout.header_bytes == bytes &&
        std::equal(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(count), layout.header.begin())) {
      return &layout;
    }
  }
  Layout& layout = set.layouts[set.oldest];
  set.oldest = (set.oldest + 1) % kWays;
  layout.header_bytes = 0;
  if (!parse(types, begin + bytes, layout)) {
    return nullptr;
  }
  layout.hash = hash;
  layout.header_bytes = bytes;
  layout.header = words;
  return &layout;
}

/// Fills `layout` from the serial types in [at, header_end).
bool RecordReader::parse(const uint8_t* at, const uint8_t* header_end, Layout& layout) {
  constexpr uint64_t kMostBytes = 1 << 16;  // more does not fit into a page
  uint64_t offset = 0;
  size_t count = 0;
  while (at < header_end && count < table_->stored_columns) {
    const uint64_t type = varint(at, header_end);
    if (at == nullptr || type == RecordColumns::kRowId || body_bytes(type) > kMostBytes || offset > kMostBytes) {
      return false;
    }
    stored_[count++] = {static_cast<uint32_t>(type), static_cast<uint32_t>(offset)};
    offset += body_bytes(type);
  }
  layout.body_size = offset;
  std::fill(stored_.begin() + static_cast<std::ptrdiff_t>(count),
            stored_.begin() + static_cast<std::ptrdiff_t>(table_->stored_columns), RecordValue{});
  stored_[table_->id_column].type = RecordColumns::kRowId;
  std::transform(table_->stored.begin(), table_->stored.end(), layout.values.begin(),
                 [&](uint8_t column) { return stored_[column]; });
  return true;
}

}  // namespace stalltrace::store
