// SPDX-License-Identifier: Apache-2.0
// Formats: "Linux Standard Base Core Specification", 10.6 "Exception Frames"; DWARF 4, 6.4.
#include "stacks/native/unwind_rules.h"

#include <elf.h>

#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace stalltrace::stacks {
namespace {

constexpr uint32_t kMostEntryBytes = 16U << 10;
constexpr uint16_t kMostSegments = 64;
constexpr size_t kMostRemembered = 16;
constexpr uint64_t kPageMask = 4095;
#if defined(__x86_64__)
constexpr bool kHasRules = true;
#else
constexpr bool kHasRules = false;
#endif

// Encodings of pointers (DW_EH_PE_*).
constexpr uint8_t kAbsolute = 0x00;
constexpr uint8_t kUnsigned4 = 0x03;
constexpr uint8_t kUnsigned8 = 0x04;
constexpr uint8_t kSigned4 = 0x0b;
constexpr uint8_t kSigned8 = 0x0c;
constexpr uint8_t kFormat = 0x0f;
constexpr uint8_t kRelativeToItself = 0x10;
constexpr uint8_t kRelativeToTable = 0x30;
constexpr uint8_t kApplication = 0xf0;
constexpr uint8_t kOmitted = 0xff;

/// Bytes of an entry, with their address. A read beyond the end fails, and all later ones do.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, uint64_t address) : bytes_(bytes), address_(address) {}

  template <typename T>
  requires std::is_trivially_copyable_v<T> T take() {
    T value{};
    if (bytes_.size() < sizeof value) {
      failed_ = true;
      bytes_ = {};
      return T{};
    }
    std::memcpy(&value, bytes_.data(), sizeof value);
    skip(sizeof value);
    return value;
  }

  void skip(uint64_t count) {
    if (count > bytes_.size()) {
      failed_ = true;
      count = bytes_.size();
    }
    bytes_ = bytes_.subspan(count);
    address_ += count;
  }

  uint64_t take_uleb() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = take<uint8_t>();
      value |= static_cast<uint64_t>(byte & 0x7fU) << shift;
      if ((byte & 0x80U) == 0) {
        return value;
      }
    }
    failed_ = true;
    return 0;
  }

  int64_t take_sleb() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = take<uint8_t>();
      value |= static_cast<uint64_t>(byte & 0x7fU) << shift;
      if ((byte & 0x80U) == 0) {
        const bool negative = (byte & 0x40U) != 0 && shift + 7 < 64;
        return static_cast<int64_t>(negative ? value | (~uint64_t{0} << (shift + 7)) : value);
      }
    }
    failed_ = true;
    return 0;
  }

  /// `relative`: false for a length, which has the format of a pointer alone.
  uint64_t take_pointer(uint8_t encoding, bool relative) {
    const uint64_t at = address_;
    uint64_t value = 0;
    switch (encoding & kFormat) {
      case kAbsolute:
      case kUnsigned8:
      case kSigned8:
        value = take<uint64_t>();
        break;
      case kUnsigned4:
        value = take<uint32_t>();
        break;
      case kSigned4:
        value = static_cast<uint64_t>(int64_t{take<int32_t>()});
        break;
      default:
        failed_ = true;
    }
    if (relative && (encoding & kApplication) == kRelativeToItself) {
      value += at;
    } else if (relative && (encoding & kApplication) != 0) {
      failed_ = true;
    }
    return value;
  }

  std::string take_text() {
    std::string text;
    for (char c = take<char>(); c != '\0'; c = take<char>()) {
      text += c;
    }
    return text;
  }

  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  [[nodiscard]] uint64_t address() const { return address_; }
  [[nodiscard]] std::span<const std::byte> rest() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
  uint64_t address_;
  bool failed_ = false;
};

/// An entry of .eh_frame after its length.
struct Entry {
  uint64_t address = 0;
  std::vector<std::byte> bytes;
};

std::optional<Entry> read_entry(BoundedMemory& memory, uint64_t address) {
  uint32_t length = 0;
  if (!memory.read(address, length) || length < sizeof(uint32_t) || length > kMostEntryBytes) {
    return std::nullopt;
  }
  Entry entry{.address = address + sizeof length, .bytes = std::vector<std::byte>(length)};
  return memory.read(entry.address, std::span(entry.bytes)) ? std::optional(std::move(entry)) : std::nullopt;
}

/// What the descriptions of many functions have in common.
struct Common {
  uint64_t code_factor = 1;
  int64_t data_factor = 1;
  uint8_t pointers = kAbsolute;
  bool has_length = false;  // of what follows a function's addresses
  bool signal_frame = false;
  Entry entry;
  Reader instructions{{}, 0};
};

bool parse_augmentation(Common& common, const std::string& text, Reader& reader) {
  if (text.empty()) {
    return true;
  }
  if (text[0] != 'z') {
    return false;
  }
  common.has_length = true;
  const uint64_t length = reader.take_uleb();
  Reader data(reader.rest().first(std::min<uint64_t>(length, reader.rest().size())), reader.address());
  reader.skip(length);
  for (const char letter : text.substr(1)) {
    switch (letter) {
      case 'R':
        common.pointers = data.take<uint8_t>();
        break;
      case 'P':
        (void)data.take_pointer(data.take<uint8_t>() & kFormat, false);
        break;
      case 'L':
        data.skip(1);
        break;
      case 'S':
        common.signal_frame = true;
        break;
      case 'B':
        break;
      default:
        return false;
    }
  }
  return !data.failed();
}

std::optional<Common> read_common(BoundedMemory& memory, uint64_t address) {
  auto entry = read_entry(memory, address);
  if (!entry) {
    return std::nullopt;
  }
  Common common;
  common.entry = std::move(*entry);
  Reader reader(common.entry.bytes, common.entry.address);
  if (reader.take<uint32_t>() != 0) {
    return std::nullopt;
  }
  const auto version = reader.take<uint8_t>();
  const std::string augmentation = reader.take_text();
  common.code_factor = reader.take_uleb();
  common.data_factor = reader.take_sleb();
  const uint64_t return_register = version == 1 ? reader.take<uint8_t>() : reader.take_uleb();
  if ((version != 1 && version != 3) || return_register != kReturnAddress ||
      !parse_augmentation(common, augmentation, reader) || reader.failed()) {
    return std::nullopt;
  }
  common.instructions = reader;
  return common;
}

/// Executes instructions up to an address.
class Machine {
 public:
  /// `left`: instructions that may still be executed.
  Machine(const Common& common, uint64_t begin, uint64_t wanted, size_t& left)
      : common_(common), at_(begin), wanted_(wanted), left_(left) {}

  /// False if any instruction is not understood, or too many are there.
  bool run(Reader instructions) {
    while (!instructions.empty() && !past_) {
      if (left_ == 0 || !step(instructions) || instructions.failed()) {
        return false;
      }
      --left_;
    }
    return true;
  }
  void keep_as_initial() { initial_ = rules_; }
  [[nodiscard]] const UnwindRules& rules() const { return rules_; }

 private:
  using Kind = UnwindRules::Kind;

  void advance(uint64_t by) {
    const uint64_t next = at_ + by * common_.code_factor;
    past_ = next > wanted_ || next < at_;
    at_ = next;
  }
  void set(uint64_t number, UnwindRules::Register rule) {
    if (number < kRegisters) {
      rules_.registers[number] = rule;
    }
  }
  [[nodiscard]] int64_t scaled(int64_t value) const {
    return static_cast<int64_t>(static_cast<uint64_t>(value) * static_cast<uint64_t>(common_.data_factor));
  }
  void set_base(uint64_t number, int64_t offset) {
    rules_.base_known = number < kRegisters;
    rules_.base = rules_.base_known ? number : kStackPointer;
    rules_.base_offset = offset;
  }
  void restore(uint64_t number) {
    if (number < kRegisters) {
      rules_.registers[number] = initial_.registers[number];
    }
  }

  bool step(Reader& code) {
    const auto opcode = code.take<uint8_t>();
    const uint8_t low = opcode & 0x3fU;
    switch (opcode & 0xc0U) {
      case 0x40:  // DW_CFA_advance_loc
        advance(low);
        return true;
      case 0x80:  // DW_CFA_offset
        set(low, {Kind::kSavedAt, scaled(static_cast<int64_t>(code.take_uleb()))});
        return true;
      case 0xc0:  // DW_CFA_restore
        restore(low);
        return true;
      default:
        return step_extended(low, code);
    }
  }

  bool step_extended(uint8_t opcode, Reader& code) {
    switch (opcode) {
      case 0x00:  // DW_CFA_nop
        return true;
      case 0x02:
        advance(code.take<uint8_t>());
        return true;
      case 0x03:
        advance(code.take<uint16_t>());
        return true;
      case 0x04:
        advance(code.take<uint32_t>());
        return true;
      case 0x05: {  // DW_CFA_offset_extended
        const uint64_t number = code.take_uleb();
        set(number, {Kind::kSavedAt, scaled(static_cast<int64_t>(code.take_uleb()))});
        return true;
      }
      case 0x11: {  // DW_CFA_offset_extended_sf
        const uint64_t number = code.take_uleb();
        set(number, {Kind::kSavedAt, scaled(code.take_sleb())});
        return true;
      }
      case 0x06:  // DW_CFA_restore_extended
        restore(code.take_uleb());
        return true;
      case 0x07:  // DW_CFA_undefined
        set(code.take_uleb(), {Kind::kUndefined, 0});
        return true;
      case 0x08:  // DW_CFA_same_value
        set(code.take_uleb(), {Kind::kSame, 0});
        return true;
      case 0x09:  // DW_CFA_register
      case 0x14:  // DW_CFA_val_offset
        set(code.take_uleb(), {Kind::kUnknown, 0});
        (void)code.take_uleb();
        return true;
      case 0x15:  // DW_CFA_val_offset_sf
        set(code.take_uleb(), {Kind::kUnknown, 0});
        (void)code.take_sleb();
        return true;
      case 0x0a:  // DW_CFA_remember_state
        remembered_.push_back(rules_);
        return remembered_.size() <= kMostRemembered;
      case 0x0b:  // DW_CFA_restore_state
        if (remembered_.empty()) {
          return false;
        }
        rules_ = remembered_.back();
        remembered_.pop_back();
        return true;
      case 0x0c: {  // DW_CFA_def_cfa
        const uint64_t number = code.take_uleb();
        set_base(number, static_cast<int64_t>(code.take_uleb()));
        return true;
      }
      case 0x12: {  // DW_CFA_def_cfa_sf
        const uint64_t number = code.take_uleb();
        set_base(number, scaled(code.take_sleb()));
        return true;
      }
      case 0x0d:  // DW_CFA_def_cfa_register
        set_base(code.take_uleb(), rules_.base_offset);
        return true;
      case 0x0e:  // DW_CFA_def_cfa_offset
        rules_.base_offset = static_cast<int64_t>(code.take_uleb());
        return true;
      case 0x13:  // DW_CFA_def_cfa_offset_sf
        rules_.base_offset = scaled(code.take_sleb());
        return true;
      case 0x0f:  // DW_CFA_def_cfa_expression
        code.skip(code.take_uleb());
        rules_.base_known = false;
        return true;
      case 0x10:  // DW_CFA_expression
      case 0x16:  // DW_CFA_val_expression
        set(code.take_uleb(), {Kind::kUnknown, 0});
        code.skip(code.take_uleb());
        return true;
      case 0x2e:  // DW_CFA_GNU_args_size
        (void)code.take_uleb();
        return true;
      default:
        return false;
    }
  }

  const Common& common_;
  uint64_t at_;
  uint64_t wanted_;
  size_t& left_;
  bool past_ = false;  // the next instructions are for code further on
  UnwindRules rules_;
  UnwindRules initial_;
  std::vector<UnwindRules> remembered_;
};

}  // namespace

UnwindTables::Table UnwindTables::read_table(uint64_t elf) {
  Elf64_Ehdr header{};
  if (!memory_.read(elf, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64 ||
      header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > kMostSegments) {
    return {};
  }
  std::optional<uint64_t> first;
  std::optional<uint64_t> wanted;
  for (uint16_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (!memory_.read(elf + header.e_phoff + i * sizeof segment, segment)) {
      return {};
    }
    if (segment.p_type == PT_LOAD && segment.p_offset == 0 && !first) {
      first = segment.p_vaddr & ~kPageMask;
    } else if (segment.p_type == PT_GNU_EH_FRAME) {
      wanted = segment.p_vaddr;
    }
  }
  if (!first || !wanted) {
    return {};
  }
  struct {
    uint8_t version = 0;
    uint8_t frame_pointer = 0;
    uint8_t count = 0;
    uint8_t table = 0;
  } encodings;
  Table table{.header = elf - *first + *wanted, .entries = 0, .count = 0};
  const bool usual =
      memory_.read(table.header, encodings) && encodings.version == 1 &&
      ((encodings.frame_pointer & kFormat) == kSigned4 || (encodings.frame_pointer & kFormat) == kUnsigned4) &&
      encodings.frame_pointer != kOmitted && encodings.count == kUnsigned4 &&
      encodings.table == (kRelativeToTable | kSigned4) &&
      memory_.read(table.header + sizeof encodings + sizeof(uint32_t), table.count);
  table.entries = table.header + sizeof encodings + 2 * sizeof(uint32_t);
  return usual ? table : Table{};
}

const UnwindTables::Table& UnwindTables::table_of(uint64_t elf) {
  const auto known = tables_.find(elf);
  return known != tables_.end() ? known->second : tables_.emplace(elf, read_table(elf)).first->second;
}

std::optional<uint64_t> UnwindTables::description_of(const Table& table, uint64_t address) {
  struct Row {
    int32_t begin = 0;
    int32_t description = 0;
  };
  Row row;
  uint32_t low = 0;
  uint32_t high = table.count;
  while (low < high) {  // the first row that begins after the address
    const uint32_t middle = low + (high - low) / 2;
    if (!memory_.read(table.entries + middle * sizeof row, row)) {
      return std::nullopt;
    }
    if (table.header + static_cast<uint64_t>(int64_t{row.begin}) <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0 || !memory_.read(table.entries + (low - 1) * sizeof row, row)) {
    return std::nullopt;
  }
  return table.header + static_cast<uint64_t>(int64_t{row.description});
}

std::optional<UnwindRules> UnwindTables::at(uint64_t elf, uint64_t address) {
  if constexpr (!kHasRules) {
    return std::nullopt;
  }
  const Table& table = table_of(elf);
  const auto description = table.header != 0 ? description_of(table, address) : std::nullopt;
  const auto entry = description ? read_entry(memory_, *description) : std::nullopt;
  if (!entry) {
    return std::nullopt;
  }
  Reader reader(entry->bytes, entry->address);
  const auto back = reader.take<uint32_t>();
  const auto common = back != 0 ? read_common(memory_, entry->address - back) : std::nullopt;
  if (!common) {
    return std::nullopt;
  }
  const uint64_t begin = reader.take_pointer(common->pointers, true);
  const uint64_t length = reader.take_pointer(common->pointers, false);
  if (common->has_length) {
    reader.skip(reader.take_uleb());
  }
  if (reader.failed() || address < begin || address - begin >= length) {
    return std::nullopt;
  }
  Machine machine(*common, begin, address, instructions_left_);
  if (!machine.run(common->instructions)) {
    return std::nullopt;
  }
  machine.keep_as_initial();
  if (!machine.run(reader)) {
    return std::nullopt;
  }
  UnwindRules rules = machine.rules();
  rules.signal_frame = common->signal_frame;
  return rules;
}

}  // namespace stalltrace::stacks
