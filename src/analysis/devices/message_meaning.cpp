// SPDX-License-Identifier: Apache-2.0
#include "analysis/devices/message_meaning.h"

#include <fmt/format.h>

#include <charconv>

#include "model/events/imported/kernel_failure.h"

namespace stalltrace::analysis {
namespace {

constexpr XidMeaning kPcieError{0, XidClass::kDevice, "a transfer was lost",
                                "look at the device's slot, riser and cable, and at lspci -vvv for the state of its "
                                "link; restart the node, and have the device replaced if it comes back"};
constexpr XidMeaning kSwitchError{0, XidClass::kDevice, "fatal error of an NVSwitch",
                                  "look at the fabric manager's log on this node, restart the node, and have the board "
                                  "replaced if it comes back"};
constexpr XidMeaning kNothingLost{0, XidClass::kNotice, "nothing was lost", ""};

constexpr std::string_view kStoppedHost =
    "every rank there ended with it; look at the lines before it, at the console and at /sys/fs/pstore";
constexpr std::string_view kAmdGpu =
    "look at the lines around it and at amd-smi or rocm-smi; if other programs fail on this GPU as well, take it out "
    "of "
    "service";
constexpr std::string_view kAdapter =
    "look at the lines around it, at devlink health and at the counters of the port; restart the node, update the "
    "adapter's firmware, and have it replaced if it comes back";

/// An Xid 45 cleans up after another error: "caused by previous Xid 149". That one says what it was.
int32_t xid_of(const KernelMessage& message) {
  constexpr std::string_view kPrevious = "caused by previous Xid ";
  int32_t number = message.code.value_or(0);
  if (const size_t at = message.text.find(kPrevious); at != std::string::npos) {
    std::from_chars(message.text.data() + at + kPrevious.size(), message.text.data() + message.text.size(), number);
  }
  return number;
}

XidMeaning meaning_of(const KernelFailure& failure) {
  using Severity = KernelFailure::Severity;
  const std::string_view remedy = failure.of == KernelFailure::Of::kHost  ? kStoppedHost
                                  : failure.of == KernelFailure::Of::kGpu ? kAmdGpu
                                                                          : kAdapter;
  const XidClass who = failure.severity == Severity::kLinkLost  ? XidClass::kNotice
                       : failure.severity == Severity::kProgram ? XidClass::kUndecided
                                                                : XidClass::kDevice;
  return {0, who, failure.meaning, remedy};
}

}  // namespace

XidMeaning meaning_of(const KernelMessage& message) {
  switch (message.kind) {
    case KernelMessageKind::kXid: {
      XidMeaning meaning = meaning_of_xid(xid_of(message));
      if (meaning.may_be_nonfatal && message.text.contains("Nonfatal")) {
        meaning.who = XidClass::kNotice;
      }
      return meaning;
    }
    case KernelMessageKind::kSxid:
      return message.text.contains(", Fatal") ? kSwitchError : kNothingLost;
    case KernelMessageKind::kPcieUncorrected:
      return kPcieError;
    case KernelMessageKind::kOther: {
      const KernelFailure* const failure = kernel_failure_in(message.text);
      return failure == nullptr ? kNothingLost : meaning_of(*failure);
    }
    default:
      return kNothingLost;
  }
}

std::string name_of(const KernelMessage& message) {
  switch (message.kind) {
    case KernelMessageKind::kXid:
      return fmt::format("Xid {}", xid_of(message));
    case KernelMessageKind::kSxid:
      return fmt::format("SXid {}", message.code.value_or(0));
    case KernelMessageKind::kPcieUncorrected:
      return "an uncorrected PCIe error";
    case KernelMessageKind::kOther: {
      const KernelFailure* const failure = kernel_failure_in(message.text);
      return std::string(failure == nullptr ? to_text(message.kind) : failure->name);
    }
    default:
      return std::string(to_text(message.kind));
  }
}

std::string_view subject_of(const KernelMessage& message) {
  if (message.kind == KernelMessageKind::kXid) {
    return "GPU";
  }
  if (message.kind == KernelMessageKind::kSxid) {
    return "NVSwitch";
  }
  const KernelFailure* const failure =
      message.kind == KernelMessageKind::kOther ? kernel_failure_in(message.text) : nullptr;
  if (failure == nullptr) {
    return "device";
  }
  return failure->of == KernelFailure::Of::kHost  ? ""
         : failure->of == KernelFailure::Of::kGpu ? "GPU"
                                                  : "network adapter";
}

}  // namespace stalltrace::analysis
