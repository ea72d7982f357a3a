// SPDX-License-Identifier: Apache-2.0
// Fuzzes the code that examines other users' files: arbitrary bytes as a library, as the answer of the child that
// parsed one, and as a line of mountinfo. Nothing crashes, and probes are inside the file.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/handle.h"
#include "base/untrusted/mounts.h"
#include "capture/discover/elf_symbols.h"
#include "capture/discover/files/library_symbols.h"

using namespace stalltrace;
using namespace stalltrace::capture;

namespace {

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void read_as_library(std::string_view bytes) {
  const UniqueFd fd(::memfd_create("library", MFD_CLOEXEC));
  require(fd && ::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  const auto symbols = find_probe_points(fd.get());
  if (!symbols) {
    return;
  }
  require(symbols->points.size() <= kMostProbePoints);
  for (const ProbePoint& point : symbols->points) {
    require(point.offset < bytes.size() && point.row < call_table().size());
  }
  if (symbols->marker) {
    require(symbols->marker->function_offset < bytes.size() && symbols->marker->semaphore_offset + 2 <= bytes.size());
  }
  require(has_same_code(fd.get(), *symbols));
  const std::string sent = symbols_to_bytes(*symbols);
  const auto received = symbols_from_bytes(sent, bytes.size());
  require(received && symbols_to_bytes(*received) == sent);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_as_library(text);
  if (const auto symbols = symbols_from_bytes(text, size)) {
    require(symbols_from_bytes(symbols_to_bytes(*symbols), size).has_value());
  }
  MountLine line;
  (void)parse_mount_line(text, line);
  return 0;
}
