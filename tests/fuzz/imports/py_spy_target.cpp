// SPDX-License-Identifier: Apache-2.0
// Fuzzes the import of py-spy dumps: arbitrary bytes as a dump. Nothing crashes, stacks are within limits, and what is
// printed of them is printable.
#include "base/python_frames.h"
#include "import/evidence.h"
#include "tests/fuzz/imports/evidence.h"

using namespace stalltrace;
using namespace stalltrace::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const EvidenceFile file("dump.txt");
  file.write({reinterpret_cast<const char*>(data), size});
  check_import(file.path(), [](std::span<const std::string> paths, EventSink& sink, const import::Note& note) {
    MemorySource rows;
    const auto summary = import::import_py_spy(paths, rows, note);
    (void)rows.python_stacks({}, [](const PythonStack& row) {
      require(row.timestamp_ns >= 0 && row.pid > 0 && row.rank_pid == row.pid && row.tid >= 0 && row.stack_id >= 0);
    });
    return import::import_py_spy(paths, sink, note);
  });
  return 0;
}
