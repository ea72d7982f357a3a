// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reading of an exception's frames, whose memory root's kernel side copied out of any user's process. The
// input: CPython's minor version, the depth (2 bytes), the type's name, then a frame each: its slot, four addresses, a
// line, an instruction (4 bytes each), and four pieces of memory; pieces have their size before them (2 bytes).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/text.h"
#include "capture/python/python_exceptions.h"
#include "capture/python/traceback.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/rows.h"

using namespace stalltrace;
using fuzz::Input;
using fuzz::require;

namespace {

/// The piece as far as it fits; returns the size that the record says, which may be more.
template <typename Byte, size_t N>
__u16 put(Input& input, Byte (&memory)[N]) {
  const auto size = static_cast<__u16>(input.number(2));
  const auto piece = input.piece(std::min<size_t>(size, N));
  if (!piece.empty()) {
    std::memcpy(memory, piece.data(), piece.size());
  }
  return size;
}

std::unique_ptr<st_python_exception> record_of(Input input) {
  auto record = std::make_unique<st_python_exception>();
  record->minor = static_cast<__u16>(input.number(1));
  record->depth = static_cast<__u32>(input.number(2));
  (void)put(input, record->type);
  while (!input.empty()) {
    st_python_frame& frame = record->frames[input.number(1) % ST_PYTHON_FRAMES];
    for (__u64* address : {&frame.code, &frame.file, &frame.name, &frame.table}) {
      *address = input.number(8);
    }
    frame.line = static_cast<__s32>(input.number(4));
    frame.instruction = static_cast<__s32>(input.number(4));
    frame.code_bytes = put(input, frame.code_memory);
    frame.file_bytes = put(input, frame.file_memory);
    frame.name_bytes = put(input, frame.name_memory);
    frame.table_bytes = put(input, frame.table_memory);
  }
  return record;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto record = record_of(Input(data, size));
  const auto frames = capture::frames_of(*record);
  require(frames.size() <= ST_PYTHON_FRAMES);
  for (const PythonFrame& frame : frames) {
    require(frame.function.size() <= 1000 && frame.file.size() <= 5000 && frame.line.value_or(1) > 0);
  }
  const std::string type = capture::type_of(*record);
  require(!type.empty() && printable(type) == type);
  (void)capture::traceback_text({reinterpret_cast<const char*>(record.get()), sizeof *record});
  (void)capture::traceback_text({reinterpret_cast<const char*>(data), size});
  return 0;
}
