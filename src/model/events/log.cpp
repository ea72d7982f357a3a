// SPDX-License-Identifier: Apache-2.0
#include "model/events/log.h"

#include "model/enum_text.h"

namespace stalltrace {
namespace {

constexpr std::array<std::string_view, 8> kLogKinds{"warning", "timeout", "interface", "transport",
                                                    "version", "end",     "cut",       "exception"};

constexpr std::array<std::string_view, 6> kKernelMessageKinds{
    "other", "xid", "sxid", "pcie_corrected", "pcie_uncorrected", "out_of_memory"};

}  // namespace

std::string_view to_text(LogKind kind) { return kLogKinds[static_cast<size_t>(kind)]; }
std::optional<LogKind> log_kind_from_text(std::string_view text) { return value_with_text<LogKind>(kLogKinds, text); }

std::string_view to_text(KernelMessageKind kind) { return kKernelMessageKinds[static_cast<size_t>(kind)]; }
std::optional<KernelMessageKind> kernel_message_kind_from_text(std::string_view text) {
  return value_with_text<KernelMessageKind>(kKernelMessageKinds, text);
}

}  // namespace stalltrace
