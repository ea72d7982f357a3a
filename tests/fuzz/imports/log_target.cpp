// SPDX-License-Identifier: Apache-2.0
// Fuzzes the import of logs: arbitrary bytes as a job's output. Nothing crashes, rows are within limits, and what is
// printed of them is printable.
#include "import/evidence.h"
#include "tests/fuzz/imports/evidence.h"

using namespace stalltrace;
using namespace stalltrace::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const EvidenceFile file("node0.rank0.log");
  file.write({reinterpret_cast<const char*>(data), size});
  check_import(file.path(), [](std::span<const std::string> paths, EventSink& sink, const import::Note& note) {
    return import::import_nccl_logs(paths, sink, note, {.most_calls = 20'000});
  });
  return 0;
}
