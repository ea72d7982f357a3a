// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of profiler files: arbitrary bytes are read as a file, twice as a follower does, then imported.
// Rows may be wrong, but never out of range, and nothing crashes.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/handle.h"
#include "blackbox/format/reader.h"
#include "blackbox/import.h"
#include "tests/fuzz/rows.h"

using namespace stalltrace;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const UniqueFd fd(::memfd_create("profiler_file", MFD_CLOEXEC));
  require(fd && ::write(fd.get(), data, size) == static_cast<ssize_t>(size));
  const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
  if (auto reader = blackbox::ProfilerFileReader::open(path)) {
    (void)reader->read({.most_records = 3, .open_parts = false});
    (void)reader->read();
    require(::ftruncate(fd.get(), static_cast<off_t>(size - size / 3)) == 0);
    (void)reader->read();
    require(::ftruncate(fd.get(), 0) == 0);
    require(::pwrite(fd.get(), data, size, 0) == static_cast<ssize_t>(size));
  }
  MemorySource rows;
  (void)blackbox::import_profiler_files({&path, 1}, rows, [](const Error&) {});
  fuzz::check_rows(rows, true);
  return 0;
}
