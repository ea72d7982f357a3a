// SPDX-License-Identifier: Apache-2.0
// Fuzzes the import of nccl-tests output: arbitrary bytes as a benchmark's output. Nothing crashes, results are within
// limits, and what is printed of them is printable.
#include <cmath>

#include "import/evidence.h"
#include "tests/fuzz/imports/evidence.h"

using namespace stalltrace;
using namespace stalltrace::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const EvidenceFile file("all_reduce_perf.log");
  file.write({reinterpret_cast<const char*>(data), size});
  check_import(file.path(), [](std::span<const std::string> paths, EventSink& sink, const import::Note& note) {
    MemorySource rows;
    const auto summary = import::import_nccl_tests(paths, rows, note);
    (void)rows.benchmark_results({}, [](const BenchmarkResult& row) {
      require(row.timestamp_ns >= 0 && row.bytes >= 0 && row.count >= 0 && row.wrong.value_or(0) >= 0 && row.run > 0);
      require(std::isfinite(row.time_us) && row.time_us >= 0 && std::isfinite(row.busbw_gbs) && row.busbw_gbs >= 0);
    });
    return import::import_nccl_tests(paths, sink, note);
  });
  return 0;
}
