// SPDX-License-Identifier: Apache-2.0
#include "model/events/log.h"

#include "model/enum_text.h"

namespace stalltrace {
namespace {

constexpr std::array<std::string_view, 7> kLogKinds{"warning", "timeout", "interface", "transport",
                                                    "version", "end",     "cut"};

}  // namespace

std::string_view to_text(LogKind kind) { return kLogKinds[static_cast<size_t>(kind)]; }
std::optional<LogKind> log_kind_from_text(std::string_view text) { return value_with_text<LogKind>(kLogKinds, text); }

}  // namespace stalltrace
