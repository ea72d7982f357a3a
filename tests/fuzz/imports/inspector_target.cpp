// SPDX-License-Identifier: Apache-2.0
// Fuzzes the import of lines of NCCL's Inspector: arbitrary bytes as a file. Nothing crashes, and no row is out of
// range.
#include "import/evidence.h"
#include "tests/fuzz/imports/evidence.h"

using namespace stalltrace;
using namespace stalltrace::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const EvidenceFile file("node0-pid1.log");
  file.write({reinterpret_cast<const char*>(data), size});
  check_import(file.path(), [](std::span<const std::string> paths, EventSink& sink, const import::Note& note) {
    MemorySource rows;
    const auto summary = import::import_nccl_inspector(paths, rows, note, {.most_calls = 100});
    (void)rows.collectives({}, [](const Collective& row) {
      require(row.timestamp_ns >= 0 && row.duration_ns.value_or(-1) >= 0 && row.comm_id_hash != 0);
      require(row.rank.value_or(-1) >= 0 && *row.rank < row.nranks.value_or(0) && row.pid >= 0);
    });
    return import::import_nccl_inspector(paths, sink, note);
  });
  return 0;
}
