// SPDX-License-Identifier: Apache-2.0
// Lines of a Linux kernel's log, as dmesg, journalctl -k, rsyslog and container runtimes print them: what they say of
// GPUs (NVIDIA's driver: "NVRM: Xid", "SXid"), PCIe errors (drivers/pci/pcie/aer.c and dpc.c of Linux), processes
// that were ended for lack of memory (mm/oom_kill.c), and failures of model/events/imported/kernel_failure.h. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/events/log.h"

namespace stalltrace::import {

struct KernelText {
  KernelMessageKind kind = KernelMessageKind::kOther;
  std::optional<int32_t> code;
  std::string_view device;  // "0000:3b:00", "0000:3b:00.0"
  int32_t pid = 0;
  std::string_view process;
  std::string_view text;    // the message
  std::string_view prefix;  // what stands before it
};

/// None for all other messages. Views point into `line`.
std::optional<KernelText> read_kernel_message(std::string_view line);

/// "0000:3b:00.0" of "NVRM: The NVIDIA GPU 0000:3b:00.0": the first of three lines, of which the last one says that it
/// has "fallen off the bus" and is a message without a device. Empty for all other lines.
std::string_view gpu_in_first_line(std::string_view line);
/// The message is this many lines after it at most.
inline constexpr int64_t kFallenLines = 4;
/// What the number of an Xid would be: NVIDIA's driver prints one only of a GPU that it has set up.
inline constexpr int32_t kFallenXid = 79;

/// Where and when a line was written, by what stands before its message.
struct KernelPrefix {
  std::string_view host;             // empty: not named
  std::optional<int64_t> uptime_ns;  // "[12345.678901]": since the host's start
};
KernelPrefix read_kernel_prefix(std::string_view prefix);

/// The time of a line in UTC ns, by its prefix; also of dmesg -T: "[Mon Nov 23 15:57:09 2026]". `has_zone`: an offset
/// from UTC is written; else it is taken for UTC.
struct KernelTime {
  int64_t time_ns = 0;
  bool has_zone = false;
};
std::optional<KernelTime> read_kernel_time(std::string_view prefix, int64_t file_written_ns);

/// True for any line of a kernel's log, by what stands before its message.
bool is_kernel_line(std::string_view line);
/// True for a line with a message as above.
bool is_kernel_message(std::string_view line);

}  // namespace stalltrace::import
