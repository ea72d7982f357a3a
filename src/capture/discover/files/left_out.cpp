// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/files/left_out.h"

#include <fmt/format.h>

#include <cstddef>

#include "base/text.h"

namespace stalltrace::capture {
namespace {

constexpr size_t kMostCounted = 65536;
constexpr size_t kMostNamed = 16;

}  // namespace

void LeftOut::add(const std::string& source, const std::string& what, const std::string& why) {
  if (reported_.size() >= kMostCounted || !reported_.insert(source + what).second) {
    return;
  }
  ++counts_[source];
  if (reported_.size() <= kMostNamed) {
    note_(fmt::format("{} is not probed: {}", printable(what), printable(why)));
  } else if (reported_.size() == kMostNamed + 1) {
    note_("more libraries are not probed; the recording counts them (table loss)");
  }
}

}  // namespace stalltrace::capture
