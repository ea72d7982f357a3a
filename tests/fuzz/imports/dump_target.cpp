// SPDX-License-Identifier: Apache-2.0
// Fuzzes the import of Flight Recorder dumps: arbitrary bytes as a pickle or as JSON.
#include "import/evidence.h"
#include "tests/fuzz/imports/evidence.h"

using namespace stalltrace;
using namespace stalltrace::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const EvidenceFile file("nccl_trace_rank_0");
  file.write({reinterpret_cast<const char*>(data), size});
  check_import(file.path(), [](std::span<const std::string> paths, EventSink& sink, const import::Note& note) {
    return import::import_flight_recorder(paths, sink, note, {.most_calls = 20'000});
  });
  return 0;
}
