// SPDX-License-Identifier: Apache-2.0
#include "analysis/devices/xid_catalogue.h"

#include <algorithm>
#include <array>

namespace stalltrace::analysis {
namespace {

constexpr std::string_view kDebugProgram =
    "run the program under compute-sanitizer and look for an index out of bounds or memory that was freed; if other "
    "programs fail on this GPU as well, test it (dcgmi diag -r 3)";
constexpr std::string_view kResetAndTest =
    "take the GPU out of service, reset it (nvidia-smi --gpu-reset) or restart the node, and test it (dcgmi diag -r "
    "3); "
    "if it comes back, have it replaced";
constexpr std::string_view kMemory =
    "take the GPU out of service and reset it (nvidia-smi --gpu-reset), look at nvidia-smi -q -d ECC,ROW_REMAPPER and "
    "test it (dcgmi diag -r 3); have it replaced if rows can't be remapped";
constexpr std::string_view kRestartNode =
    "take the node out of service and restart it; check the GPU's seat, its power and its PCIe slot, and have the GPU "
    "replaced if it comes back";
constexpr std::string_view kLink =
    "look at nvidia-smi nvlink -s and -e and at the fabric manager's log on this node, reset the GPUs or restart the "
    "node; if one link's errors come back, have the GPU or its board replaced";
constexpr std::string_view kFirmware =
    "reset the GPU or restart the node; if it comes back, update the driver, or have the node tested "
    "(nvidia-bug-report.sh)";
constexpr std::string_view kLookAtOthers = "look at the errors of this GPU that came before";
constexpr std::string_view kNothingNow = "nothing at once; reset the GPU at the next maintenance";

constexpr std::array kMeanings{
    XidMeaning{13, XidClass::kApplication, "exception of the graphics engine", kDebugProgram},
    XidMeaning{31, XidClass::kApplication, "page fault: an address that is not mapped", kDebugProgram},
    XidMeaning{32, XidClass::kUndecided, "invalid or corrupted push buffer", kResetAndTest},
    XidMeaning{38, XidClass::kUndecided, "error of the driver's firmware", kFirmware},
    XidMeaning{43, XidClass::kConsequence, "the GPU stopped the program's work", kDebugProgram},
    XidMeaning{45, XidClass::kConsequence, "the program's work was cleaned up after another error, or after its end",
               kLookAtOthers},
    XidMeaning{46, XidClass::kDevice, "the GPU stopped processing", kResetAndTest},
    XidMeaning{48, XidClass::kDevice, "uncorrectable ECC error of its memory", kMemory},
    XidMeaning{61, XidClass::kDevice, "breakpoint of the power management unit", kResetAndTest},
    XidMeaning{62, XidClass::kDevice, "the power management unit halted", kResetAndTest},
    XidMeaning{63, XidClass::kNotice, "a page was retired, or a row remapped", kNothingNow},
    XidMeaning{64, XidClass::kDevice, "a page could not be retired, or a row not remapped", kMemory},
    XidMeaning{68, XidClass::kUndecided, "exception of the video decoder", kDebugProgram},
    XidMeaning{69, XidClass::kUndecided, "class error of the graphics engine", kDebugProgram},
    XidMeaning{74, XidClass::kDevice, "NVLink error", kLink},
    XidMeaning{79, XidClass::kDevice, "the GPU has fallen off the bus", kRestartNode},
    XidMeaning{92, XidClass::kNotice, "many correctable ECC errors", kNothingNow},
    XidMeaning{94, XidClass::kDevice, "contained uncorrectable ECC error: the programs that used the memory are ended",
               kMemory},
    XidMeaning{95, XidClass::kDevice, "uncontained uncorrectable ECC error: all programs on the GPU are affected",
               kMemory},
    XidMeaning{109, XidClass::kUndecided, "time-out of a context switch", kDebugProgram},
    XidMeaning{110, XidClass::kDevice, "security fault", kResetAndTest},
    XidMeaning{119, XidClass::kDevice, "the GPU's system processor (GSP) did not answer in time", kFirmware},
    XidMeaning{120, XidClass::kDevice, "error of the GPU's system processor (GSP)", kFirmware},
    XidMeaning{121, XidClass::kNotice, "corrected error of the link between CPU and GPU (C2C)", kNothingNow},
    XidMeaning{137, XidClass::kApplication, "NVLink access without permission", kDebugProgram},
    XidMeaning{140, XidClass::kDevice, "uncorrectable ECC error that was not recovered", kMemory},
    XidMeaning{143, XidClass::kDevice, "the GPU could not be initialised", kRestartNode},
    XidMeaning{144, XidClass::kDevice, "NVLink error (SAW)", kLink, true},
    XidMeaning{145, XidClass::kDevice, "NVLink error (RLW)", kLink, true},
    XidMeaning{146, XidClass::kDevice, "NVLink error (TLW)", kLink, true},
    XidMeaning{147, XidClass::kDevice, "NVLink error (TREX)", kLink, true},
    XidMeaning{148, XidClass::kDevice, "NVLink error (NVLPW)", kLink, true},
    XidMeaning{149, XidClass::kDevice, "NVLink error (NETIR)", kLink, true},
    XidMeaning{150, XidClass::kDevice, "NVLink error (MSE)", kLink, true},
    XidMeaning{154, XidClass::kNotice, "the driver reports which recovery the GPU needs", kLookAtOthers},
};
static_assert(std::ranges::is_sorted(kMeanings, {}, &XidMeaning::number));

}  // namespace

const XidMeaning& meaning_of_xid(int32_t number) {
  static constexpr XidMeaning kUnlisted{0, XidClass::kUndecided, "see NVIDIA's catalogue of Xid messages",
                                        "look the number up: docs.nvidia.com/deploy/xid-errors"};
  const auto* const found = std::ranges::lower_bound(kMeanings, number, {}, &XidMeaning::number);
  return found != kMeanings.end() && found->number == number ? *found : kUnlisted;
}

}  // namespace stalltrace::analysis
