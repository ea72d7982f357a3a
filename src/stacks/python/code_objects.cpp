// SPDX-License-Identifier: Apache-2.0
#include "stacks/python/code_objects.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>

namespace stalltrace::stacks {
namespace {

constexpr size_t kMostFunction = 200;  // characters
constexpr size_t kMostFile = 1024;
constexpr size_t kMostTable = 1U << 20;    // bytes of one code object's table
constexpr size_t kMostTables = 32U << 20;  // of all tables
constexpr size_t kMostCodeObjects = 20'000;
constexpr int64_t kMostInstructions = 64LL << 20;  // bytes
constexpr int kCodeReadings = 6;                   // most readings of one code object
constexpr std::string_view kCodeTypeName{"code\0", 5};

void append_utf8(std::string& text, uint32_t code) {
  const auto put = [&](uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0U | code >> 6U);
    put(0x80U | (code & 0x3fU));
  } else if (code < 0x10000) {
    put(0xe0U | code >> 12U);
    put(0x80U | (code >> 6U & 0x3fU));
    put(0x80U | (code & 0x3fU));
  } else if (code < 0x110000) {
    put(0xf0U | code >> 18U);
    put(0x80U | (code >> 12U & 0x3fU));
    put(0x80U | (code >> 6U & 0x3fU));
    put(0x80U | (code & 0x3fU));
  } else {
    text += '?';
  }
}

}  // namespace

std::optional<std::string> read_text(BoundedMemory& memory, const Layout& layout, uint64_t object,
                                     size_t most_characters) {
  uint32_t state = 0;
  int64_t length = 0;
  if (object == 0 || !memory.read(object + layout.text_state, state) ||
      !memory.read(object + layout.text_length, length)) {
    return std::nullopt;
  }
  // struct state: interned (2 bits), kind (3), compact (1), ascii (1).
  const uint32_t width = state >> 2U & 7U;
  const bool compact = (state >> 5U & 1U) != 0;
  const bool ascii = (state >> 6U & 1U) != 0;
  if (!compact || (width != 1 && width != 2 && width != 4) || (ascii && width != 1) || length < 0) {
    return std::nullopt;
  }
  const auto characters = static_cast<size_t>(std::min<uint64_t>(length, most_characters));
  std::vector<std::byte> bytes(characters * width);
  if (!memory.read(object + (ascii ? layout.text_ascii_data : layout.text_compact_data), bytes)) {
    return std::nullopt;
  }
  std::string text;
  for (size_t i = 0; i < characters; ++i) {
    uint32_t code = 0;
    std::memcpy(&code, bytes.data() + i * width, width);
    append_utf8(text, code);
  }
  return characters < static_cast<uint64_t>(length) ? text + "..." : text;
}

bool CodeObjects::is_code(uint64_t address) {
  uint64_t type = 0;
  if (address == 0 || address % alignof(uint64_t) != 0 || !memory_.read(address + layout_.object_type, type)) {
    return false;
  }
  if (code_type_ != 0) {
    return type == code_type_;
  }
  uint64_t name = 0;
  std::array<char, kCodeTypeName.size()> text{};
  if (!memory_.read(type + layout_.type_name, name) || !memory_.read(name, text) ||
      std::string_view(text.data(), text.size()) != kCodeTypeName) {
    return false;
  }
  code_type_ = type;
  return true;
}

std::optional<CodeObject> CodeObjects::read(uint64_t address) {
  const bool qualified = layout_.code_qualified_name != kAbsent;
  uint64_t name = 0;
  uint64_t file = 0;
  uint64_t table = 0;
  int64_t table_size = 0;
  CodeObject code;
  if (!is_code(address) ||
      !memory_.read(address + (qualified ? layout_.code_qualified_name : layout_.code_name), name) ||
      !memory_.read(address + layout_.code_file, file) ||
      !memory_.read(address + layout_.code_first_line, code.first_line) ||
      !memory_.read(address + layout_.code_line_table, table) ||
      !memory_.read(table + layout_.bytes_size, table_size)) {
    return std::nullopt;
  }
  auto function = read_text(memory_, layout_, name, kMostFunction);
  auto path = read_text(memory_, layout_, file, kMostFile);
  if (!function || !path || table_size < 0) {
    return std::nullopt;
  }
  code.function = std::move(*function);
  code.file = std::move(*path);
  if (static_cast<uint64_t>(table_size) <= kMostTable) {
    code.line_table.resize(static_cast<size_t>(table_size));
    if (!memory_.read(table + layout_.bytes_data, code.line_table)) {
      return std::nullopt;
    }
  }
  return code;
}

void CodeObjects::learn(std::span<const uint64_t> addresses) {
  std::unordered_map<uint64_t, std::optional<CodeObject>> open;
  for (const uint64_t address : addresses) {
    if (!known_.contains(address) && known_.size() + open.size() < kMostCodeObjects) {
      open.try_emplace(address);
    }
  }
  for (int i = 0; i < kCodeReadings && !open.empty() && !memory_.exhausted(); ++i) {
    memory_.forget();
    for (auto entry = open.begin(); entry != open.end();) {
      auto now = read(entry->first);
      if (!now || !entry->second || *now != *entry->second) {
        entry->second = std::move(now);
        ++entry;
        continue;
      }
      if (table_bytes_ + now->line_table.size() > kMostTables) {
        now->line_table.clear();  // without its table, code keeps its name; its line is unknown
      }
      table_bytes_ += now->line_table.size();
      known_[entry->first] = std::move(*now);
      entry = open.erase(entry);
    }
  }
}

const CodeObject* CodeObjects::at(uint64_t address) const {
  const auto found = known_.find(address);
  return found == known_.end() ? nullptr : &found->second;
}

std::optional<int64_t> CodeObjects::offset_in(uint64_t code, uint64_t instruction) const {
  constexpr int64_t kBeforeFirst = -2;  // in bytes, one code unit: to 3.12 the instruction before the next one
  const auto offset = static_cast<int64_t>(instruction - (code + layout_.code_instructions));
  return offset >= kBeforeFirst && offset < kMostInstructions && offset % 2 == 0 ? std::optional(offset) : std::nullopt;
}

bool CodeObjects::before_first_traceable(uint64_t code, int64_t offset) {
  int32_t first = 0;
  return layout_.code_first_traceable != kAbsent && memory_.read(code + layout_.code_first_traceable, first) &&
         offset < int64_t{2} * first;
}

}  // namespace stalltrace::stacks
