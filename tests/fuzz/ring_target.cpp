// SPDX-License-Identifier: Apache-2.0
// The fuzzer's way into the black boxes' reader: any bytes as a file, read twice as a follower does, then imported.
// What comes out may be wrong, but never out of range, and never a crash.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/handle.h"
#include "blackbox/reader.h"
#include "import/rings.h"
#include "model/source.h"

using namespace stalltrace;

namespace {

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void check_rows(MemorySource& rows) {
  const Status visited = rows.collectives({}, [](const Collective& row) {
    require(row.timestamp_ns > 0 && row.duration_ns.value_or(0) >= 0 && row.launch_ns.value_or(0) >= 0);
    require(row.rank.value_or(0) >= 0 && row.nranks.value_or(1) > 0 && row.bytes >= 0 && row.seq.value_or(0) >= 0);
    require(row.duration_ns.has_value() == (row.completion == Completion::kProfiler));
  });
  require(visited.has_value());
  const Status steps = rows.proxy_steps({}, [](const ProxyStep& row) {
    require(row.timestamp_ns > 0 && row.duration_ns.value_or(0) >= 0 && row.step >= 0 && row.channel >= 0);
    require(row.gpu_wait_ns >= 0 && row.peer_wait_ns >= 0 && row.network_wait_ns >= 0);
    require(row.rank.value_or(0) >= 0 && row.peer.value_or(0) >= 0);
  });
  require(steps.has_value());
  const Status waits = rows.wait_spans({}, [](const WaitSpan& row) {
    require(row.timestamp_ns > 0 && row.window_ns > 0 && row.waited_ns >= 0 && row.waited_ns <= row.window_ns);
  });
  require(waits.has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const UniqueFd fd(::memfd_create("ring", MFD_CLOEXEC));
  require(fd && ::write(fd.get(), data, size) == static_cast<ssize_t>(size));
  const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
  if (auto reader = blackbox::BoxReader::open(path)) {
    (void)reader->read({.most_records = 3, .open_parts = false});
    (void)reader->read();
    (void)::ftruncate(fd.get(), static_cast<off_t>(size - size / 3));
    (void)reader->read();
    (void)::ftruncate(fd.get(), 0);
    require(::pwrite(fd.get(), data, size, 0) == static_cast<ssize_t>(size));
  }
  MemorySource rows;
  (void)import_rings({&path, 1}, rows, [](const Error&) {});
  check_rows(rows);
  return 0;
}
