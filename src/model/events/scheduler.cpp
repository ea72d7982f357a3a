// SPDX-License-Identifier: Apache-2.0
#include "model/events/scheduler.h"

#include <array>

#include "model/enum_text.h"

namespace stalltrace {
namespace {

constexpr std::array<std::string_view, 5> kWaitKinds{"runnable", "blocked", "disk", "stopped", "on_cpu"};

}  // namespace

std::string_view to_text(WaitKind kind) { return kWaitKinds[static_cast<size_t>(kind)]; }
std::optional<WaitKind> wait_kind_from_text(std::string_view text) {
  return value_with_text<WaitKind>(kWaitKinds, text);
}

}  // namespace stalltrace
