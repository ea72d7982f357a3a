// SPDX-License-Identifier: Apache-2.0
// Perfetto's own format: a protobuf Trace of TracePackets with TrackEvents (protos/perfetto/trace/trace_packet.proto).
//
// One packet sequence, whose incremental state is cleared by its first packet; names and repeated texts are interned.
// Times count from `zero_ns` on a clock of the sequence, which one snapshot ties to UTC. Packets are put into bundles,
// compressed with zlib as Perfetto's own service does (TracePacket.compressed_packets). The numbers of tracks and flows
// are counted: a file stands for itself, and two of them can't be concatenated.
#pragma once

#include <memory>

#include "export/encode/trace_encoder.h"

namespace stalltrace::trace_export {

struct PerfettoOptions {
  bool compress = true;
};

std::unique_ptr<TraceEncoder> make_perfetto_encoder(ByteSink sink, const PerfettoOptions& options = {});

}  // namespace stalltrace::trace_export
