// SPDX-License-Identifier: Apache-2.0
// Fuzzes the import of traces of torch.profiler: arbitrary bytes as a trace, plain or compressed. Nothing crashes,
// times are within each other, and what is printed of them is printable.
#include "import/evidence.h"
#include "tests/fuzz/imports/evidence.h"

using namespace stalltrace;
using namespace stalltrace::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const EvidenceFile file("rank_0.json");
  file.write({reinterpret_cast<const char*>(data), size});
  check_import(file.path(), [](std::span<const std::string> paths, EventSink& sink, const import::Note& note) {
    MemorySource rows;
    const auto summary = import::import_chrome_traces(paths, rows, note);
    const auto profiles = rows.trace_profiles();
    for (const TraceProfile& row : *profiles) {
      require(row.started_ns >= 0 && row.duration_ns >= 0 && row.rank.value_or(0) >= 0);
      require(row.overlap_ns >= 0 && row.overlap_ns <= std::min(row.compute_ns, row.communication_ns));
      require(row.compute_ns <= row.duration_ns && row.communication_ns <= row.duration_ns);
      require(row.idle_ns >= 0 && row.idle_ns <= row.duration_ns);
    }
    (void)rows.trace_steps({}, [](const TraceStep& row) {
      require(row.timestamp_ns >= 0 && row.duration_ns >= 0 && row.step >= 0 && row.idle_ns >= 0);
      require(row.overlap_ns >= 0 && row.compute_ns <= row.duration_ns && row.communication_ns <= row.duration_ns);
    });
    const auto calls = rows.trace_collectives();
    for (const TraceCollective& row : *calls) {
      require(row.calls > 0 && row.shortest_ns >= 0 && row.shortest_ns <= row.longest_ns &&
              row.exposed_ns <= row.total_ns);
      require(row.exposed_ns >= 0 && row.op.size() <= 64 && row.datatype.size() <= 64 &&
              row.process_group.size() <= 64);
    }
    return import::import_chrome_traces(paths, sink, note);
  });
  return 0;
}
