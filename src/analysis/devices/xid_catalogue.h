// SPDX-License-Identifier: Apache-2.0
// What the numbers of NVIDIA's Xid messages mean, after its public catalogue (docs.nvidia.com/deploy/xid-errors) and
// nverror.h of its open kernel modules.
#pragma once

#include <cstdint>
#include <string_view>

namespace stalltrace::analysis {

/// Who has to act.
enum class XidClass : uint8_t {
  kDevice,       // the GPU, its memory, its links or its firmware
  kUndecided,    // the device, the driver or the program
  kApplication,  // as a rule the program
  kConsequence,  // follows from another error, or from a process that was ended
  kNotice,       // nothing was lost
};

struct XidMeaning {
  int32_t number = 0;
  XidClass who = XidClass::kUndecided;
  std::string_view meaning;  // "the GPU has fallen off the bus"
  std::string_view remedy;
  bool may_be_nonfatal = false;  // a message that contains "Nonfatal" is only a notice
};

/// Of a number that is not listed: kUndecided, with a reference to the catalogue.
const XidMeaning& meaning_of_xid(int32_t number);

}  // namespace stalltrace::analysis
