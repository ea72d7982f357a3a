// SPDX-License-Identifier: Apache-2.0
// Fuzzes the import of kernel logs: arbitrary bytes as a log. Nothing crashes, messages are within limits, and what is
// printed of them is printable.
#include "import/evidence.h"
#include "tests/fuzz/imports/evidence.h"

using namespace stalltrace;
using namespace stalltrace::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const EvidenceFile file("kern.log");
  file.write({reinterpret_cast<const char*>(data), size});
  check_import(file.path(), [](std::span<const std::string> paths, EventSink& sink, const import::Note& note) {
    MemorySource rows;
    const auto summary = import::import_kernel_logs(paths, rows, note);
    (void)rows.kernel_messages({}, [](const KernelMessage& row) {
      require(row.timestamp_ns >= 0 && row.pid >= 0 && row.code.value_or(0) >= 0 && row.line > 0);
      require(row.text.size() <= 1024 && row.device.size() <= 16 && row.process.size() <= 128);
    });
    return import::import_kernel_logs(paths, sink, note);
  });
  return 0;
}
