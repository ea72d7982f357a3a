// SPDX-License-Identifier: Apache-2.0
// What a message of the kernel means, and how it is named. Internal to analysis/devices.
#pragma once

#include <string>

#include "analysis/devices/xid_catalogue.h"
#include "model/events/log.h"

namespace stalltrace::analysis {

XidMeaning meaning_of(const KernelMessage& message);
/// "Xid 79", "SXid 24007", "an uncorrected PCIe error", "a firmware error"
std::string name_of(const KernelMessage& message);
/// Of what it is: "GPU", "NVSwitch", "network adapter", "device"; empty: of the whole host.
std::string_view subject_of(const KernelMessage& message);

}  // namespace stalltrace::analysis
