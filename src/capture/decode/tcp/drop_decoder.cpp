// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/tcp/drop_decoder.h"

#include <utility>

namespace stalltrace::capture {

PacketDrop decode_drops(const st_drop_key& key, const st_drops& sum, std::string reason, NodeId node,
                        int64_t utc_offset_ns) {
  PacketDrop row{.node_id = node, .cookie = key.cookie, .incoming = key.incoming != 0, .netns = key.netns};
  row.timestamp_ns = static_cast<int64_t>(sum.first_ns) + utc_offset_ns;
  row.duration_ns = static_cast<int64_t>(sum.last_ns - sum.first_ns);
  row.pid = static_cast<int32_t>(sum.tgid);
  row.reason = std::move(reason);
  row.packets = sum.packets;
  row.bytes = sum.bytes;
  return row;
}

}  // namespace stalltrace::capture
