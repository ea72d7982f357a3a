// SPDX-License-Identifier: Apache-2.0
// What the running kernel has, by its own type information (BTF): tracepoints, enumerations, fields.
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

/// What helps where that can't be read.
inline constexpr std::string_view kBtfRemedy =
    "use a kernel built with CONFIG_DEBUG_INFO_BTF, or point STALLTRACE_BTF at a BTF file for it";

class KernelTypes {
 public:
  /// Reads kernel_btf_path(); kUnsupported with its remedy where that is not possible.
  static Result<KernelTypes> read();

  /// A BTF-typed tracepoint, as programs of the section tp_btf need it.
  [[nodiscard]] bool has_tracepoint(const std::string& name) const { return tracepoint_id(name) > 0; }
  /// The number of its type, of a function's; not positive where there is none.
  [[nodiscard]] int32_t tracepoint_id(const std::string& name) const;
  [[nodiscard]] int32_t function_id(const char* name) const;
  /// How many parameters a function has; 0 where there is no such function.
  [[nodiscard]] uint32_t parameters_of(const char* function) const;
  [[nodiscard]] bool has_enum(const char* name) const;
  /// Whether a struct or union has a member of that name.
  [[nodiscard]] bool has_member(const char* type, std::string_view member) const;
  /// Whether the kernel notes since when a task waits for a CPU: without, struct sched_info is empty.
  [[nodiscard]] bool has_sched_info() const;
  /// The values of an enumeration and their names; none where there is no such enumeration.
  [[nodiscard]] std::vector<std::pair<uint32_t, std::string_view>> values_of_enum(const char* name) const;

 private:
  explicit KernelTypes(btf* types) : types_(types) {}

  std::unique_ptr<btf, Free<btf__free>> types_;
};

}  // namespace stalltrace::capture
