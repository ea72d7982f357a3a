// SPDX-License-Identifier: Apache-2.0
// The running kernel's tracepoints, enumerations and fields, by its own type information (BTF).
#pragma once

#include <bpf/btf.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace::capture {

/// The path of the kernel's type information: STALLTRACE_BTF, else /sys/kernel/btf/vmlinux.
std::string kernel_btf_path();

/// The remedy where that file can't be read.
inline constexpr std::string_view kBtfRemedy =
    "use a kernel built with CONFIG_DEBUG_INFO_BTF, or point STALLTRACE_BTF at a BTF file for it";

class KernelTypes {
 public:
  /// Reads kernel_btf_path(); kUnsupported with a remedy where that fails.
  static Result<KernelTypes> read();

  /// Whether there is a BTF-typed tracepoint of this name, as programs of section tp_btf need.
  [[nodiscard]] bool has_tracepoint(const std::string& name) const { return tracepoint_id(name) > 0; }
  /// The BTF type id of the tracepoint's function; not positive where there is none.
  [[nodiscard]] int32_t tracepoint_id(const std::string& name) const;
  [[nodiscard]] int32_t function_id(const char* name) const;
  /// Number of parameters of a function; 0 where there is no such function.
  [[nodiscard]] uint32_t parameters_of(const char* function) const;
  [[nodiscard]] bool has_enum(const char* name) const;
  /// Whether a struct or union has a member with this name.
  [[nodiscard]] bool has_member(const char* type, std::string_view member) const;
  /// Whether the kernel records since when a task waits for a CPU; otherwise struct sched_info is empty.
  [[nodiscard]] bool has_sched_info() const;
  /// The values and names of an enumeration; empty where there is no such enumeration.
  [[nodiscard]] std::vector<std::pair<uint32_t, std::string_view>> values_of_enum(const char* name) const;

 private:
  explicit KernelTypes(btf* types) : types_(types) {}

  std::unique_ptr<btf, Free<btf__free>> types_;
};

}  // namespace stalltrace::capture
