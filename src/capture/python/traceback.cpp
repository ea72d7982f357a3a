// SPDX-License-Identifier: Apache-2.0
#include "capture/python/traceback.h"

#include <string.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>

#include "base/text.h"
#include "stacks/memory/memory.h"
#include "stacks/python/code_objects.h"
#include "stacks/python/layout.h"
#include "stacks/python/line_table.h"

namespace stalltrace::capture {
namespace {

constexpr uint32_t kByTurns = ST_PYTHON_FRAMES - ST_PYTHON_OUTERMOST;

/// The objects of one frame as the memory that they were read from; what lies between them is zero.
class FrameMemory final : public stacks::Memory {
 public:
  explicit FrameMemory(const st_python_frame& frame)
      : pieces_{{{frame.code, bytes_of(frame.code_memory, frame.code_bytes)},
                 {frame.file, bytes_of(frame.file_memory, frame.file_bytes)},
                 {frame.name, bytes_of(frame.name_memory, frame.name_bytes)},
                 {frame.table, bytes_of(frame.table_memory, frame.table_bytes)}}} {}

  bool read(uint64_t address, std::span<std::byte> into) override {
    std::ranges::fill(into, std::byte{0});
    bool any = false;
    for (const Piece& piece : pieces_) {
      const uint64_t begin = std::max(address, piece.address);
      const uint64_t end = std::min(address + into.size(), piece.address + piece.bytes.size());
      if (begin < end) {
        std::memcpy(into.data() + (begin - address), piece.bytes.data() + (begin - piece.address), end - begin);
        any = true;
      }
    }
    return any;
  }

 private:
  struct Piece {
    uint64_t address = 0;
    std::span<const __u8> bytes;
  };
  template <size_t N>
  static std::span<const __u8> bytes_of(const __u8 (&memory)[N], size_t bytes) {
    return std::span(memory).first(std::min(bytes, N));
  }

  std::array<Piece, 4> pieces_;
};

/// Text as far as it was read: "load_bat..." for a longer one.
std::string as_read(const std::string& text) {
  const size_t read = text.find('\0');
  return read == std::string::npos ? text : text.substr(0, read) + "...";
}

std::optional<PythonFrame> frame_of(const st_python_frame& frame, const stacks::Layout& layout) {
  FrameMemory memory(frame);
  stacks::BoundedMemory bounded(memory, {.most_bytes = 1U << 20, .pause_ns = 0});
  uint64_t code_type = 0;  // the only code object here says what its type is
  if (!bounded.read(frame.code + layout.object_type, code_type) || code_type == 0) {
    return std::nullopt;
  }
  stacks::CodeObjects codes(bounded, layout, code_type);
  const uint64_t address = frame.code;
  codes.learn(std::span(&address, 1));
  const stacks::CodeObject* code = codes.at(address);
  if (code == nullptr) {
    return std::nullopt;
  }
  PythonFrame named{as_read(code->function), as_read(code->file), std::nullopt};
  const size_t table_read = frame.table_bytes > layout.bytes_data ? frame.table_bytes - layout.bytes_data : 0;
  const std::span table = std::span(code->line_table).first(std::min(code->line_table.size(), table_read));
  constexpr uint32_t kLastWithoutEnd = 9;  // its tables don't say how far they reach
  if (frame.line > 0) {
    named.line = frame.line;
  } else if (table.size() == code->line_table.size() || layout.minor > kLastWithoutEnd) {
    named.line = stacks::line_of(layout.minor, table, code->first_line, frame.instruction);
  }
  return named;
}

}  // namespace

std::vector<PythonFrame> frames_of(const st_python_exception& record) {
  std::vector<PythonFrame> frames;
  const auto layout = stacks::layout_of(record.minor);
  if (!layout) {
    return frames;
  }
  const auto add = [&](uint32_t slot) {
    if (auto frame = frame_of(record.frames[slot], *layout)) {
      frames.push_back(std::move(*frame));
    }
  };
  const uint32_t depth = std::min<uint32_t>(record.depth, ST_PYTHON_MOST_DEPTH);
  const uint32_t first = depth > ST_PYTHON_FRAMES ? depth - kByTurns : ST_PYTHON_OUTERMOST;
  for (uint32_t i = depth; i > first; --i) {
    add(ST_PYTHON_OUTERMOST + (i - 1 - ST_PYTHON_OUTERMOST) % kByTurns);
  }
  for (uint32_t i = std::min<uint32_t>(depth, ST_PYTHON_OUTERMOST); i > 0; --i) {
    add(i - 1);
  }
  return frames;
}

std::string type_of(const st_python_exception& record) {
  const std::string type = printable(std::string_view(record.type, strnlen(record.type, sizeof record.type)));
  return type.empty() ? "?" : type;
}

}  // namespace stalltrace::capture
