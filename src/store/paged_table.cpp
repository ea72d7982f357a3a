// SPDX-License-Identifier: Apache-2.0
#include "store/paged_table.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <limits>

namespace stalltrace {
namespace {

constexpr uint8_t kInteriorPage = 0x05;
constexpr uint8_t kLeafPage = 0x0d;
constexpr size_t kInteriorHeader = 12;
constexpr size_t kLeafHeader = 8;

uint32_t big_endian(const uint8_t* bytes, int count) {
  uint32_t value = 0;
  for (int i = 0; i < count; ++i) {
    value = value << 8 | bytes[i];
  }
  return value;
}

/// A variable-length integer before `end`; moves `at` behind it, or to null when it is cut off.
uint64_t varint(const uint8_t*& at, const uint8_t* end) {
  if (at < end && *at < 0x80) {
    return *at++;
  }
  uint64_t value = 0;
  for (int i = 0; i < 9 && at < end; ++i) {
    const uint8_t byte = *at++;
    if (i == 8) {
      return value << 8 | byte;
    }
    value = value << 7 | (byte & 0x7f);
    if (byte < 0x80) {
      return value;
    }
  }
  at = nullptr;
  return 0;
}

uint64_t body_bytes(uint64_t type) {
  constexpr std::array<uint8_t, 12> kFixed{0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0};
  return type < kFixed.size() ? kFixed[type] : (type - kFixed.size()) / 2;
}

/// Spreads different headers over the layouts kept.
size_t slot_of(const uint8_t* header, uint64_t bytes) {
  uint64_t hash = bytes;
  for (uint64_t i = 0; i + 8 <= bytes; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, header + i, sizeof(word));
    hash = (hash ^ word) * 0x9e37'79b9'7f4a'7c15;
  }
  return hash >> 32;
}

/// The file's own numbers; false when it is not the plain kind.
bool read_header(PagedTable& table) {
  std::array<uint8_t, 100> header{};
  struct stat status {};
  if (::pread(table.fd.get(), header.data(), header.size(), 0) != static_cast<ssize_t>(header.size()) ||
      ::fstat(table.fd.get(), &status) != 0) {
    return false;
  }
  constexpr uint32_t kUtf8 = 1;
  const uint32_t stored_size = big_endian(&header[16], 2);
  table.page_size = stored_size == 1 ? 65'536 : stored_size;
  if (!std::has_single_bit(table.page_size) || table.page_size < 512 || big_endian(&header[56], 4) != kUtf8) {
    return false;
  }
  table.usable = table.page_size - header[20];
  const int64_t pages = status.st_size / table.page_size;
  table.pages = static_cast<uint32_t>(std::min<int64_t>(pages, std::numeric_limits<uint32_t>::max() - 1));
  return table.usable >= 480;
}

/// Places of the columns in a row, by the table's own declaration. False for a table that stores them otherwise.
Result<bool> place_columns(Database& db, std::string_view name, std::string_view id_column,
                           const std::vector<std::string>& columns, PagedTable& table) {
  ST_ASSIGN(Statement select, db.prepare("SELECT name, type, dflt_value IS NOT NULL, pk, hidden"
                                         " FROM pragma_table_xinfo(?) ORDER BY cid"));
  select.bind(1, name);
  std::vector<std::string> stored;
  bool plain = true;
  bool has_id = false;
  int code = SQLITE_DONE;
  while ((code = select.step()) == SQLITE_ROW) {
    const bool is_id = select.text(0) == id_column;
    plain = plain && select.integer(2) == 0 && select.integer(4) == 0 && is_id == (select.integer(3) != 0) &&
            (!is_id || select.text(1) == "INTEGER");
    if (is_id) {
      has_id = true;
      table.id_column = stored.size();
    }
    stored.emplace_back(select.text(0));
  }
  if (code != SQLITE_DONE) {
    return fail_sqlite(db.get(), fmt::format("{}: {}", db.path(), name));
  }
  table.stored_columns = stored.size();
  for (const std::string& column : columns) {
    const auto found = std::find(stored.begin(), stored.end(), column);
    table.stored.push_back(found == stored.end() ? kMissingColumn : static_cast<uint8_t>(found - stored.begin()));
  }
  return plain && has_id && stored.size() < kMostColumns;
}

}  // namespace

Result<std::shared_ptr<const PagedTable>> find_paged_table(Database& db, std::string_view name,
                                                           std::string_view id_column,
                                                           const std::vector<std::string>& columns) {
  const char* file = sqlite3_db_filename(db.get(), "main");
  if (file == nullptr || sqlite3_uri_boolean(file, "immutable", 0) == 0) {
    return nullptr;
  }
  auto table = std::make_shared<PagedTable>();
  ST_ASSIGN(Statement select, db.prepare("SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = ?"));
  select.bind(1, name);
  if (select.step() != SQLITE_ROW) {
    return nullptr;
  }
  table->root = static_cast<uint32_t>(select.integer(0));
  ST_ASSIGN(const bool plain, place_columns(db, name, id_column, columns, *table));
  table->fd = UniqueFd(::open(file, O_RDONLY | O_CLOEXEC));
  return plain && table->fd && read_header(*table) ? table : nullptr;
}

bool RecordColumns::take(int64_t id, const uint8_t* begin, const uint8_t* end) {
  const uint8_t* at = begin;
  const uint64_t header_bytes = varint(at, end);
  if (at == nullptr || header_bytes < static_cast<uint64_t>(at - begin) ||
      header_bytes > static_cast<uint64_t>(end - begin)) {
    return false;
  }
  body_ = begin + header_bytes;
  id_ = id;
  column_ = 0;
  odd_ = false;
  Layout& layout = layouts_[slot_of(begin, header_bytes) % layouts_.size()];
  layout_ = &layout;
  if (header_bytes != layout.header.size() || std::memcmp(begin, layout.header.data(), header_bytes) != 0) {
    layout.header.clear();
    if (!parse_header(at, body_, layout)) {
      return false;
    }
    layout.header.assign(begin, body_);
  }
  return layout.body_size <= static_cast<uint64_t>(end - body_);
}

/// Fills `layout` from the serial types in [at, header_end).
bool RecordColumns::parse_header(const uint8_t* at, const uint8_t* header_end, Layout& layout) const {
  constexpr uint64_t kMostBytes = 1 << 16;  // more does not fit into a page
  uint64_t offset = 0;
  size_t count = 0;
  while (at < header_end && count < table_->stored_columns) {
    const uint64_t type = varint(at, header_end);
    if (at == nullptr || type == kRowId || body_bytes(type) > kMostBytes || offset > kMostBytes) {
      return false;
    }
    layout.values[count++] = {static_cast<uint32_t>(type), static_cast<uint32_t>(offset)};
    offset += body_bytes(type);
  }
  layout.body_size = offset;
  std::fill(layout.values.begin() + static_cast<std::ptrdiff_t>(count),
            layout.values.begin() + static_cast<std::ptrdiff_t>(table_->stored_columns), Value{});
  layout.values[table_->id_column].type = kRowId;
  return true;
}

int64_t RecordColumns::constant(uint32_t type) {
  switch (type) {
    case kNull:
    case kZero:
      return 0;
    case kOne:
      return 1;
    case kRowId:
      return id_;
    default:
      odd_ = true;
      return 0;
  }
}

double RecordColumns::real() {
  const Value& value = here();
  return value.type == kReal ? std::bit_cast<double>(eight_bytes(body_ + value.offset))
                             : static_cast<double>(integer());
}

bool PageScan::each_row(int64_t first_id, int64_t end_id, const Row& row) {
  first_id_ = first_id;
  end_id_ = end_id;
  last_id_ = std::numeric_limits<int64_t>::min();
  pages_left_ = table_->pages;
  row_ = &row;
  if (!load(0, table_->root, 1)) {
    return false;
  }
  return levels_[0][0] == kLeafPage ? leaf(levels_[0].data()) : interior(0);
}

/// Reads `count` neighbouring pages.
bool PageScan::load(size_t level, uint32_t page, uint32_t count) {
  pages_left_ -= count;
  if (pages_left_ < 0 || page < 2 || count > table_->pages || page > table_->pages + 1 - count) {
    return false;
  }
  const size_t bytes = static_cast<size_t>(count) * table_->page_size;
  std::vector<uint8_t>& buffer = levels_[level];
  if (buffer.size() < bytes + kPadding) {
    buffer.resize(bytes + kPadding);
  }
  const auto offset = static_cast<off_t>(page - 1) * table_->page_size;
  return ::pread(table_->fd.get(), buffer.data(), bytes, offset) == static_cast<ssize_t>(bytes);
}

/// The children of the page at `level` that hold wanted ids.
bool PageScan::interior(size_t level) {
  const uint8_t* page = levels_[level].data();
  const uint32_t cells = big_endian(page + 3, 2);
  if (page[0] != kInteriorPage || level + 1 >= levels_.size() || kInteriorHeader + 2 * cells > table_->usable) {
    return false;
  }
  // Child i holds the ids up to key i, the last child those above all keys.
  std::vector<std::pair<uint32_t, int64_t>> children;
  for (uint32_t i = 0; i < cells; ++i) {
    const uint32_t offset = big_endian(page + kInteriorHeader + 2 * i, 2);
    if (offset < kInteriorHeader + 2 * cells || offset + 4 >= table_->usable) {
      return false;
    }
    const uint8_t* at = page + offset + 4;
    const uint8_t* end = page + table_->usable;
    const auto key = static_cast<int64_t>(varint(at, end));
    if (at == nullptr || (!children.empty() && key <= children.back().second)) {
      return false;
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
      return false;
    }
    if (levels_[level + 1][0] == kInteriorPage) {
      pages_left_ += run - 1;
      run = 1;
      if (!interior(level + 1)) {
        return false;
      }
    } else {
      for (uint32_t n = 0; n < run; ++n) {
        if (!leaf(levels_[level + 1].data() + static_cast<size_t>(n) * table_->page_size)) {
          return false;
        }
      }
    }
    i += run;
  }
  return true;
}

bool PageScan::leaf(const uint8_t* page) {
  const uint32_t cells = big_endian(page + 3, 2);
  const uint8_t* page_end = page + table_->usable;
  if (page[0] != kLeafPage || kLeafHeader + 2 * cells > table_->usable) {
    return false;
  }
  for (uint32_t i = 0; i < cells; ++i) {
    const uint32_t offset = big_endian(page + kLeafHeader + 2 * i, 2);
    if (offset < kLeafHeader + 2 * cells || offset >= table_->usable) {
      return false;
    }
    const uint8_t* at = page + offset;
    const uint64_t bytes = varint(at, page_end);
    const auto id = at == nullptr ? 0 : static_cast<int64_t>(varint(at, page_end));
    const bool spilled = bytes > table_->usable - 35;
    if (at == nullptr || spilled || bytes > static_cast<uint64_t>(page_end - at) ||
        (id <= last_id_ && last_id_ != std::numeric_limits<int64_t>::min())) {
      return false;
    }
    last_id_ = id;
    if (id >= first_id_ && id < end_id_ && !(*row_)(id, at, at + bytes)) {
      return false;
    }
  }
  return true;
}

}  // namespace stalltrace
