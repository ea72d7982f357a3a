// SPDX-License-Identifier: Apache-2.0
#include "import/flight_recorder/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <vector>

#include "base/text.h"

namespace stalltrace::import {
namespace {

constexpr size_t kDeepestStack = size_t{1} << 20;
constexpr size_t kMostMemos = size_t{1} << 20;
constexpr uint8_t kNewestProtocol = 5;

// The opcodes, as in CPython's Lib/pickletools.py.
enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kReduce = 'R',
  kBinUnicode = 'X',
  kAppend = 'a',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyList = ']',
  kEmptyTuple = ')',
  kEmptyDict = '}',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

constexpr std::array<std::string_view, 3> kTypedLists{"build_intlist", "build_doublelist", "build_boollist"};

class Reader {
 public:
  Reader(std::string_view bytes, ValueTree& tree) : bytes_(bytes), tree_(tree) {}

  Result<ValueIndex> read() {
    while (true) {
      opcode_at_ = at_;
      const auto opcode = little_endian(1);
      if (!opcode) {
        return refuse("it ends before its end mark");
      }
      if (*opcode == kStop) {
        return stack_.size() == 1 ? Result<ValueIndex>(stack_.back()) : refuse("its end mark leaves no single value");
      }
      ST_TRY(execute(static_cast<uint8_t>(*opcode)));
      if (tree_.full() || stack_.size() > kDeepestStack) {
        return refuse("it holds more values than a dump can have");
      }
    }
  }

 private:
  std::unexpected<Error> refuse(std::string_view why) const {
    return fail(fmt::format("offset {}: {}", opcode_at_, why), {}, ErrorKind::kCorrupt);
  }

  std::optional<uint64_t> little_endian(size_t size) {
    if (bytes_.size() - at_ < size) {
      return std::nullopt;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) {
      value |= uint64_t{static_cast<uint8_t>(bytes_[at_ + i])} << (8 * i);
    }
    at_ += size;
    return value;
  }

  std::optional<std::string_view> take(uint64_t size) {
    if (bytes_.size() - at_ < size) {
      return std::nullopt;
    }
    const std::string_view taken = bytes_.substr(at_, size);
    at_ += size;
    return taken;
  }

  std::optional<std::string_view> take_line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos || end - at_ > 256) {
      return std::nullopt;
    }
    const std::string_view line = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return line;
  }

  void push(ValueIndex value) { stack_.push_back(value); }

  Status push_number(size_t size, bool is_signed) {
    const auto value = little_endian(size);
    if (!value) {
      return refuse("a number is cut off");
    }
    push(tree_.add(ValueTree::Kind::kInteger,
                   is_signed ? int64_t{static_cast<int32_t>(*value)} : static_cast<int64_t>(*value)));
    return {};
  }

  Status push_long() {
    const auto size = little_endian(1);
    if (!size || *size > 16) {
      return refuse("an integer has more than 128 bits");
    }
    const auto bytes = take(*size);
    if (!bytes) {
      return refuse("a number is cut off");
    }
    const bool negative = !bytes->empty() && (static_cast<uint8_t>(bytes->back()) & 0x80) != 0;
    uint64_t value = negative ? ~uint64_t{0} : 0;
    for (size_t i = 0; i < std::min<size_t>(bytes->size(), 8); ++i) {
      value &= ~(uint64_t{0xff} << (8 * i));
      value |= uint64_t{static_cast<uint8_t>((*bytes)[i])} << (8 * i);
    }
    push(tree_.add(ValueTree::Kind::kInteger, static_cast<int64_t>(value)));
    return {};
  }

  Status push_text(size_t length_size) {
    const auto length = little_endian(length_size);
    const auto text = length ? take(*length) : std::nullopt;
    if (!text) {
      return refuse("a text is cut off");
    }
    push(tree_.add_text(*text));
    return {};
  }

  Status push_real() {
    const auto value = little_endian(8);
    if (!value) {
      return refuse("a number is cut off");
    }
    push(tree_.add_real(std::bit_cast<double>(__builtin_bswap64(*value))));
    return {};
  }

  /// The values above the newest mark.
  Result<std::span<const ValueIndex>> above_mark() const {
    const auto mark = std::find_if(stack_.rbegin(), stack_.rend(),
                                   [&](ValueIndex value) { return tree_.kind(value) == ValueTree::Kind::kMark; });
    if (mark == stack_.rend()) {
      return refuse("a mark is missing");
    }
    return std::span(mark.base(), stack_.end());
  }

  /// The newest values.
  Result<std::span<const ValueIndex>> newest(size_t size) const {
    if (stack_.size() < size) {
      return refuse("the stack is empty");
    }
    return std::span(stack_).last(size);
  }

  /// Removes what `newest` and `above_mark` gave, which are then no longer valid.
  void drop(std::span<const ValueIndex> values) { stack_.resize(stack_.size() - values.size()); }
  void drop_with_mark(std::span<const ValueIndex> values) { stack_.resize(stack_.size() - values.size() - 1); }

  Result<ValueIndex> tuple_of(std::span<const ValueIndex> values) {
    const ValueIndex tuple = tree_.add_list();
    tree_.expect(tuple, values.size());
    for (const ValueIndex value : values) {
      if (!tree_.append(tuple, value)) {
        return refuse("a tuple can't be built");
      }
    }
    return tuple;
  }

  Status push_short_tuple(size_t size) {
    ST_ASSIGN(const auto values, newest(size));
    ST_ASSIGN(const ValueIndex tuple, tuple_of(values));
    drop(values);
    push(tuple);
    return {};
  }

  /// The value below the newest `above` ones; kNoValue: none.
  ValueIndex below(size_t above) const { return stack_.size() > above ? stack_[stack_.size() - above - 1] : kNoValue; }

  Status append_all(ValueIndex list, std::span<const ValueIndex> values) {
    tree_.expect(list, values.size());
    for (const ValueIndex value : values) {
      if (!tree_.append(list, value)) {
        return refuse("an item is appended to no list");
      }
    }
    return {};
  }

  Status set_all(ValueIndex dict, std::span<const ValueIndex> values) {
    if (values.size() % 2 != 0) {
      return refuse("a key has no value");
    }
    tree_.expect(dict, values.size() / 2);
    for (size_t i = 0; i < values.size(); i += 2) {
      if (!tree_.put(dict, values[i], values[i + 1])) {
        return refuse("an entry is put into no dictionary");
      }
    }
    return {};
  }

  Status push_global(std::string_view module, std::string_view name) {
    if (module != "torch.jit._pickle" || std::ranges::find(kTypedLists, name) == kTypedLists.end()) {
      return refuse(fmt::format("it asks for {}.{}: only data is read, nothing is run", printable(module.substr(0, 64)),
                                printable(name.substr(0, 64))));
    }
    push(tree_.add(ValueTree::Kind::kGlobal));
    return {};
  }

  /// build_intlist(list): the list.
  Status reduce() {
    ST_ASSIGN(const auto call, newest(2));
    if (tree_.kind(call[0]) != ValueTree::Kind::kGlobal || tree_.items(call[1]).size() != 1) {
      return refuse("it calls something: only data is read, nothing is run");
    }
    const ValueIndex list = tree_.items(call[1]).front();
    drop(call);
    push(list);
    return {};
  }

  /// Pickles number what they remember from 0 on.
  Status remember(std::optional<uint64_t> number) {
    if (!number || stack_.empty()) {
      return refuse("nothing to remember");
    }
    if (*number >= kMostMemos) {
      return refuse("it holds more values than a dump can have");
    }
    if (*number >= memo_.size()) {
      memo_.resize(*number + 1, kNoValue);
    }
    remembered_ += memo_[*number] == kNoValue ? 1 : 0;
    memo_[*number] = stack_.back();
    return {};
  }

  Status recall(std::optional<uint64_t> number) {
    if (!number || *number >= memo_.size() || memo_[*number] == kNoValue) {
      return refuse("it refers to a value that it did not remember");
    }
    push(memo_[*number]);
    return {};
  }

  Status execute(uint8_t opcode) {
    using Kind = ValueTree::Kind;
    switch (opcode) {
      case kProto: {
        const auto protocol = little_endian(1);
        return protocol && *protocol <= kNewestProtocol ? Status() : refuse("its protocol is newer than 5");
      }
      case kFrame:
        return little_endian(8) ? Status() : refuse("a frame is cut off");
      case kMark:
        push(tree_.add(Kind::kMark));
        return {};
      case kNone:
        push(tree_.add(Kind::kNone));
        return {};
      case kNewTrue:
      case kNewFalse:
        push(tree_.add(Kind::kBool, opcode == kNewTrue ? 1 : 0));
        return {};
      case kBinInt:
        return push_number(4, true);
      case kBinInt1:
        return push_number(1, false);
      case kBinInt2:
        return push_number(2, false);
      case kLong1:
        return push_long();
      case kBinFloat:
        return push_real();
      case kShortBinUnicode:
        return push_text(1);
      case kBinUnicode:
        return push_text(4);
      case kBinUnicode8:
        return push_text(8);
      case kEmptyList:
      case kEmptyTuple:
        push(tree_.add_list());
        return {};
      case kEmptyDict:
        push(tree_.add_dict());
        return {};
      case kTuple1:
        return push_short_tuple(1);
      case kTuple2:
        return push_short_tuple(2);
      case kTuple3:
        return push_short_tuple(3);
      case kBinGet:
        return recall(little_endian(1));
      case kLongBinGet:
        return recall(little_endian(4));
      case kBinPut:
        return remember(little_endian(1));
      case kLongBinPut:
        return remember(little_endian(4));
      case kMemoize:
        return remember(remembered_);
      default:
        return execute_on_stack(opcode);
    }
  }

  Status execute_on_stack(uint8_t opcode) {
    switch (opcode) {
      case kTuple: {
        ST_ASSIGN(const auto values, above_mark());
        ST_ASSIGN(const ValueIndex tuple, tuple_of(values));
        drop_with_mark(values);
        push(tuple);
        return {};
      }
      case kAppends:
      case kSetItems: {
        ST_ASSIGN(const auto values, above_mark());
        const ValueIndex into = below(values.size() + 1);
        ST_TRY(opcode == kAppends ? append_all(into, values) : set_all(into, values));
        drop_with_mark(values);
        return {};
      }
      case kAppend:
      case kSetItem: {
        ST_ASSIGN(const auto values, newest(opcode == kAppend ? 1 : 2));
        const ValueIndex into = below(values.size());
        ST_TRY(opcode == kAppend ? append_all(into, values) : set_all(into, values));
        drop(values);
        return {};
      }
      case kPop: {
        ST_ASSIGN(const auto values, newest(1));
        drop(values);
        return {};
      }
      case kPopMark: {
        ST_ASSIGN(const auto values, above_mark());
        drop_with_mark(values);
        return {};
      }
      case kDup:
        if (stack_.empty()) {
          return refuse("the stack is empty");
        }
        push(stack_.back());
        return {};
      case kGlobal: {
        const auto module = take_line();
        const auto name = module ? take_line() : std::nullopt;
        return name ? push_global(*module, *name) : refuse("a name is cut off");
      }
      case kStackGlobal: {
        ST_ASSIGN(const auto names, newest(2));
        const std::string_view module = tree_.text(names[0]);
        const std::string_view name = tree_.text(names[1]);
        drop(names);
        return push_global(module, name);
      }
      case kReduce:
        return reduce();
      default:
        return refuse(fmt::format("opcode 0x{:02x} is none of a dump's", opcode));
    }
  }

  std::string_view bytes_;
  ValueTree& tree_;
  size_t at_ = 0;
  size_t opcode_at_ = 0;
  std::vector<ValueIndex> stack_;
  std::vector<ValueIndex> memo_;
  uint64_t remembered_ = 0;  // of `memo_`
};

}  // namespace

Result<ValueIndex> read_pickle(std::string_view bytes, ValueTree& tree) { return Reader(bytes, tree).read(); }

}  // namespace stalltrace::import
