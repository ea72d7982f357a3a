// SPDX-License-Identifier: Apache-2.0
// The Trace Event Format (JSON) of Chrome's about:tracing, which other viewers read. It has no tracks within tracks: a
// track becomes a thread of its process, named by its path. Times are microseconds from `zero_ns`, which is in
// otherData. What has not ended is a "B" without an "E".
#pragma once

#include <memory>

#include "export/encode/trace_encoder.h"

namespace stalltrace::trace_export {

std::unique_ptr<TraceEncoder> make_chrome_encoder(ByteSink sink);

}  // namespace stalltrace::trace_export
