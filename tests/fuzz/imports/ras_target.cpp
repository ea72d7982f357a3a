// SPDX-License-Identifier: Apache-2.0
// Fuzzes the import of reports of NCCL's RAS: arbitrary bytes as a file. Nothing crashes, each statement can be read
// back, and what is printed of it is printable.
#include "import/evidence.h"
#include "model/events/imported/ras_statement.h"
#include "tests/fuzz/imports/evidence.h"

using namespace stalltrace;
using namespace stalltrace::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const EvidenceFile file("ras.txt");
  file.write({reinterpret_cast<const char*>(data), size});
  check_import(file.path(), [](std::span<const std::string> paths, EventSink& sink, const import::Note& note) {
    MemorySource rows;
    const auto summary = import::import_nccl_ras(paths, rows, note);
    (void)rows.log_lines({}, [](const LogLine& row) {
      require(row.timestamp_ns >= 0 && row.pid >= 0 && row.rank.value_or(0) >= 0 && row.line > 0);
      const auto statement = ras_statement_from_text(row.text);
      require(row.kind == LogKind::kVersion ||
              (statement && statement->members >= 0 && statement->rank.value_or(0) >= 0));
    });
    return import::import_nccl_ras(paths, sink, note);
  });
  return 0;
}
