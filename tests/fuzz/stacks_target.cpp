// SPDX-License-Identifier: Apache-2.0
// Fuzzes the code that reads other processes: arbitrary bytes as the memory of a CPython process
// (stacks/testing/image.h), as an ELF file, as line tables, and as lines of /proc. Nothing crashes, and results stay
// within their limits.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/clock.h"
#include "base/elf/elf_file.h"
#include "base/elf/function_names.h"
#include "base/handle.h"
#include "base/process/procfs.h"
#include "stacks/blocked/descriptors.h"
#include "stacks/blocked/system_calls.h"
#include "stacks/python/line_table.h"
#include "stacks/python/python_threads.h"
#include "stacks/testing/image.h"

using namespace stalltrace;
using namespace stalltrace::stacks;

namespace {

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void read_as_memory(std::span<const uint8_t> bytes) {
  unsigned flip = 0;
  const Image image = image_of(bytes, flip);
  ImageMemory memory(image, flip);
  const auto threads = read_python_threads(memory, image.program, image.tids, image.main,
                                           {.most_bytes = 16U << 20, .most_ns = kNsPerSecond, .pause_ns = 0});
  size_t frames = 0;
  for (const PythonThread& thread : threads ? threads->threads : std::vector<PythonThread>()) {
    require(thread.frames.size() <= 250 && thread.changing <= 20'000 && thread.left_out_at <= thread.frames.size());
    frames += thread.frames.size();
    for (const PythonFrame& frame : thread.frames) {
      require(frame.function.size() <= 1000 && frame.file.size() <= 5000 && frame.line.value_or(1) > 0);
    }
  }
  require(frames <= 250 * 4096);
}

void read_as_file(std::span<const uint8_t> bytes) {
  const UniqueFd fd(::memfd_create("elf", MFD_CLOEXEC));
  require(fd && ::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  constexpr std::array<uint64_t, 3> kOffsets{0, 0x100, 0x1000};
  for (const auto& call_site : functions_at(fd.get(), kOffsets)) {
    require(!call_site || call_site->function.size() <= 400);
  }
  if (const auto elf = ElfFile::open(fd.get())) {
    constexpr std::array<std::string_view, 2> kNames{"_PyRuntime", "train"};
    (void)elf->symbol_values(kNames);
    (void)elf->section_address(".PyRuntime");
    (void)elf->load_bias(0x7000, 0x9000, 0x1000);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(data, size);
  read_as_memory(bytes);
  read_as_file(bytes);
  for (const uint32_t minor : {9U, 10U, 11U}) {
    for (const int64_t offset : {int64_t{-2}, int64_t{0}, int64_t{40}, int64_t{100'000}}) {
      require(line_of(minor, std::as_bytes(bytes), 1, offset).value_or(1) > 0);
    }
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)parse_system_call(text);
  (void)parse_tcp_row(text);
  (void)parse_maps_line(text);
  return 0;
}
