// SPDX-License-Identifier: Apache-2.0
#include "model/events/imported/packet_capture.h"

#include "model/enum_text.h"

namespace stalltrace {
namespace {

constexpr std::array<std::string_view, 7> kKinds{
    "retransmit", "spurious_retransmit", "retransmit_unseen", "reordered", "syn_retransmit", "zero_window", "reset"};

}  // namespace

std::string_view to_text(PacketEventKind kind) { return kKinds[static_cast<size_t>(kind)]; }
std::optional<PacketEventKind> packet_event_kind_from_text(std::string_view text) {
  return value_with_text<PacketEventKind>(kKinds, text);
}

}  // namespace stalltrace
