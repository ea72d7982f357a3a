// SPDX-License-Identifier: Apache-2.0
// Lines of NCCL's Inspector: one JSON object per call that ended, after plugins/profiler/inspector/inspector_json.cc of
// NCCL 2.28 to 2.30 (inspector_output_format_version v4.0). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/events/ids.h"
#include "model/operation.h"

namespace stalltrace::import {

struct InspectorRecord {
  CommHash comm = 0;  // NCCL's own
  int32_t rank = 0;
  int32_t nranks = 0;
  std::string host;
  int32_t pid = 0;
  int64_t dumped_ns = 0;        // when the line was written, some time after the end
  std::optional<Operation> op;  // none: one that this version does not know
  int64_t number = 0;           // of the calls of this operation on this communicator
  int64_t bytes = 0;
  int64_t duration_ns = 0;
  bool by_device = true;  // measured by the GPU; else by the CPU
  std::optional<int32_t> peer;
  std::optional<int64_t> started_ns;  // with event_trace_ts: the first channel's kernel
};

/// None if the line is none, or lacks what is not optional above.
std::optional<InspectorRecord> read_inspector_line(std::string_view line);
/// By its keys, without reading it.
bool is_inspector_line(std::string_view line);

}  // namespace stalltrace::import
