// SPDX-License-Identifier: Apache-2.0
// Lines of logs that others wrote: of a job, and of a kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/events/event_traits.h"
#include "model/events/ids.h"

namespace stalltrace {

enum class LogKind : uint8_t {
  kWarning,    // a warning or an error
  kTimeout,    // a watchdog found a collective that did not end in time
  kInterface,  // the network and interface that were chosen
  kTransport,  // how two ranks are connected: one line per channel and direction
  kVersion,
  kEnd,        // the last line of the process
  kCut,        // the same, but the end of the process's log is missing: its last line is incomplete
  kException,  // Python's traceback of an exception that ended the process: its first line, and its exception is a row
               // of PythonException; the next line of the rank that has a time; or the last line of one that says that
               // a collective failed
};
/// "warning", "timeout", "interface", "transport", "version", "end", "cut", "exception"
std::string_view to_text(LogKind kind);
std::optional<LogKind> log_kind_from_text(std::string_view text);

/// A line that says more than that a call began. Calls are rows of Collective.
struct LogLine {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;  // without a time of its own: in the order of lines
  int32_t pid = 0;           // 0: no process is named
  std::optional<int32_t> rank;
  LogKind kind = LogKind::kWarning;
  int64_t line = 0;  // number in its file, from 1
  std::string file;
  std::string text;  // without prefixes
};

/// What a kernel's log says of devices, and of processes that the kernel ended.
enum class KernelMessageKind : uint8_t {
  kOther,            // of other drivers, or a panic: model/events/imported/kernel_failure.h
  kXid,              // NVIDIA's driver about a GPU; `code` is the number
  kSxid,             // the same about an NVSwitch
  kPcieCorrected,    // PCIe advanced error reporting: nothing was lost
  kPcieUncorrected,  // the same: a transaction was lost
  kOutOfMemory,      // the kernel ended a process for lack of memory
};
/// "other", "xid", "sxid", "pcie_corrected", "pcie_uncorrected", "out_of_memory"
std::string_view to_text(KernelMessageKind kind);
std::optional<KernelMessageKind> kernel_message_kind_from_text(std::string_view text);

struct KernelMessage {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;  // without a time of its own: in the order of lines
  KernelMessageKind kind = KernelMessageKind::kOther;
  std::optional<int32_t> code;  // the number of an Xid or SXid
  std::string device;           // PCI address: "0000:3b:00"; empty: not named
  int32_t pid = 0;              // 0: no process is named
  std::string process;          // its name; empty: not named
  int64_t line = 0;             // number in its file, from 1
  std::string file;
  std::string text;  // without prefixes
};

template <>
struct EventTraits<LogLine> : StreamTraits<LogLine, TableKind::kNumbered> {
  static constexpr std::string_view kTable = "log_line";
};

template <>
struct EventTraits<KernelMessage> : StreamTraits<KernelMessage, TableKind::kNumbered> {
  static constexpr std::string_view kTable = "kernel_message";
};

inline constexpr TypeList<LogLine, KernelMessage> kLogTypes;

}  // namespace stalltrace
