// SPDX-License-Identifier: Apache-2.0
#include "store/btree/btree_scan.h"

#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/file.h"
#include "base/read_at.h"
#include "store/sqlite/open.h"

namespace stalltrace::store {
namespace {

constexpr uint8_t kInteriorPage = 0x05;
constexpr uint8_t kLeafPage = 0x0d;
constexpr size_t kInteriorHeader = 12;
constexpr size_t kLeafHeader = 8;

}  // namespace

Fallback BtreeScan::each_leaf(int64_t first_id, int64_t end_id, const VisitLeaf& visit) {
  first_id_ = first_id;
  end_id_ = end_id;
  last_id_ = std::numeric_limits<int64_t>::min();
  pages_left_ = table_->pages;
  visit_ = &visit;
  if (!table_->fd) {
    auto opened = open_regular(table_->path);
    struct stat now {};
    if (!opened || ::fstat(opened->get(), &now) != 0 || !is_same_state(now, table_->status)) {
      return Fallback::kRefused;
    }
    opened_ = std::move(*opened);
  }
  fd_ = table_->fd ? table_->fd.get() : opened_.get();
  const Fallback met = visit_tree();
  opened_.reset();
  return met;
}

Fallback BtreeScan::visit_tree() {
  if (!load(0, table_->root, 1)) {
    return Fallback::kPageTree;
  }
  return levels_[0][0] == kLeafPage ? leaf(levels_[0].data()) : interior(0);
}

/// Reads `count` consecutive pages.
bool BtreeScan::load(size_t level, uint32_t page, uint32_t count) {
  pages_left_ -= count;
  if (pages_left_ < 0 || page < 2 || count > table_->pages || page > table_->pages + 1 - count) {
    return false;
  }
  const size_t bytes = static_cast<size_t>(count) * table_->page_size;
  std::vector<uint8_t>& buffer = levels_[level];
  if (buffer.size() < bytes + kReadBehind) {
    buffer.resize(bytes + kReadBehind);
  }
  const auto offset = static_cast<off_t>(page - 1) * table_->page_size;
  return read_at(fd_, buffer.data(), bytes, offset) == static_cast<ssize_t>(bytes);
}

/// The children, of the page at `level`, that hold wanted ids.
Fallback BtreeScan::interior(size_t level) {
  const uint8_t* page = levels_[level].data();
  const uint32_t cells = big_endian(page + 3, 2);
  if (page[0] != kInteriorPage || level + 1 >= levels_.size() || kInteriorHeader + 2 * cells > table_->usable) {
    return Fallback::kPageTree;
  }
  // Child i holds the ids up to key i; the last child holds those above all keys.
  std::vector<std::pair<uint32_t, int64_t>> children;
  for (uint32_t i = 0; i < cells; ++i) {
    const uint32_t offset = big_endian(page + kInteriorHeader + 2 * i, 2);
    if (offset < kInteriorHeader + 2 * cells || offset + 4 >= table_->usable) {
      return Fallback::kPageTree;
    }
    const uint8_t* at = page + offset + 4;
    const uint8_t* end = page + table_->usable;
    const auto key = static_cast<int64_t>(varint(at, end));
    if (at == nullptr || (!children.empty() && key <= children.back().second)) {
      return Fallback::kPageTree;
    }
    children.emplace_back(big_endian(page + offset, 4), key);
  }
  children.emplace_back(big_endian(page + 8, 4), std::numeric_limits<int64_t>::max());
  const auto wanted = [&](size_t i) { return i == 0 || children[i - 1].second < end_id_ - 1; };
  size_t i = static_cast<size_t>(std::lower_bound(children.begin(), children.end(), first_id_,
                                                  [](const auto& child, int64_t id) { return child.second < id; }) -
                                 children.begin());
  while (i < children.size() && wanted(i)) {
    uint32_t run = 1;
    while (run < kMostAtOnce && i + run < children.size() && wanted(i + run) &&
           children[i + run].first == children[i].first + run) {
      ++run;
    }
    if (!load(level + 1, children[i].first, run)) {
      return Fallback::kPageTree;
    }
    if (levels_[level + 1][0] == kInteriorPage) {
      pages_left_ += run - 1;
      run = 1;
      if (const Fallback met = interior(level + 1); met != Fallback::kNone) {
        return met;
      }
    } else {
      for (uint32_t n = 0; n < run; ++n) {
        const Fallback met = leaf(levels_[level + 1].data() + static_cast<size_t>(n) * table_->page_size);
        if (met != Fallback::kNone) {
          return met;
        }
      }
    }
    i += run;
  }
  return Fallback::kNone;
}

Fallback BtreeScan::leaf(const uint8_t* page) {
  const uint32_t cells = big_endian(page + 3, 2);
  const uint8_t* page_end = page + table_->usable;
  if (page[0] != kLeafPage || kLeafHeader + 2 * cells > table_->usable) {
    return Fallback::kPageTree;
  }
  cells_.clear();
  for (uint32_t i = 0; i < cells; ++i) {
    const uint32_t offset = big_endian(page + kLeafHeader + 2 * i, 2);
    if (offset < kLeafHeader + 2 * cells || offset >= table_->usable) {
      return Fallback::kPageTree;
    }
    const uint8_t* at = page + offset;
    const uint64_t bytes = varint(at, page_end);
    const auto id = at == nullptr ? 0 : static_cast<int64_t>(varint(at, page_end));
    if (at != nullptr && bytes > table_->usable - 35) {
      return Fallback::kSpilledRow;
    }
    if (at == nullptr || bytes > static_cast<uint64_t>(page_end - at) ||
        (id <= last_id_ && last_id_ != std::numeric_limits<int64_t>::min())) {
      return Fallback::kPageTree;
    }
    last_id_ = id;
    if (id >= first_id_ && id < end_id_) {
      cells_.push_back({id, at, at + bytes});
    }
  }
  return (*visit_)(cells_);
}

}  // namespace stalltrace::store
