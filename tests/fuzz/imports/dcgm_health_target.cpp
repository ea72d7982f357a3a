// SPDX-License-Identifier: Apache-2.0
// Fuzzes the import of dcgmi health's text: arbitrary bytes as a file. Nothing crashes, each row can be read back, and
// what is printed of it is printable.
#include "import/evidence.h"
#include "model/events/imported/gpu_state.h"
#include "tests/fuzz/imports/evidence.h"

using namespace stalltrace;
using namespace stalltrace::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const EvidenceFile file("health.txt");
  file.write({reinterpret_cast<const char*>(data), size});
  check_import(file.path(), [](std::span<const std::string> paths, EventSink& sink, const import::Note& note) {
    MemorySource rows;
    const auto summary = import::import_dcgm_health(paths, rows, note);
    (void)rows.log_lines({}, [](const LogLine& row) {
      require(row.timestamp_ns >= 0 && row.line > 0);
      require(row.kind == LogKind::kVersion || gpu_state_from_text(row.text));
    });
    return import::import_dcgm_health(paths, sink, note);
  });
  return 0;
}
