// SPDX-License-Identifier: Apache-2.0
#include "model/events/profiler.h"

#include <array>

#include "model/enum_text.h"

namespace stalltrace {
namespace {

constexpr std::array<std::string_view, 4> kProxyWaits{"", "gpu", "peer", "network"};

}  // namespace

std::string_view to_text(ProxyWait wait) { return kProxyWaits[static_cast<size_t>(wait)]; }
std::optional<ProxyWait> proxy_wait_from_text(std::string_view text) {
  return value_with_text<ProxyWait>(kProxyWaits, text);
}

}  // namespace stalltrace
