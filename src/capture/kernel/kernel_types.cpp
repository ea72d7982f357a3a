// SPDX-License-Identifier: Apache-2.0
#include "capture/kernel/kernel_types.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/rights/secure_mode.h"

namespace stalltrace::capture {

std::string kernel_btf_path() {
  const char* path = trusted_variable("STALLTRACE_BTF");
  return path && *path ? path : "/sys/kernel/btf/vmlinux";
}

Result<KernelTypes> KernelTypes::read() {
  const std::string path = kernel_btf_path();
  KernelTypes types(btf__parse(path.c_str(), nullptr));
  if (!types.types_) {
    return fail("the kernel's type information (BTF) can't be read from " + path + ": " + strerror(errno),
                std::string(kBtfRemedy), ErrorKind::kUnsupported);
  }
  return types;
}

int32_t KernelTypes::tracepoint_id(const std::string& name) const {
  return btf__find_by_name_kind(types_.get(), ("btf_trace_" + name).c_str(), BTF_KIND_TYPEDEF);
}

int32_t KernelTypes::function_id(const char* name) const {
  return btf__find_by_name_kind(types_.get(), name, BTF_KIND_FUNC);
}

uint32_t KernelTypes::parameters_of(const char* function) const {
  const int32_t id = function_id(function);
  if (id <= 0) {
    return 0;
  }
  const btf_type* type = btf__type_by_id(types_.get(), static_cast<uint32_t>(id));
  return btf_vlen(btf__type_by_id(types_.get(), type->type));
}

bool KernelTypes::has_enum(const char* name) const {
  return btf__find_by_name_kind(types_.get(), name, BTF_KIND_ENUM) > 0;
}

bool KernelTypes::has_sched_info() const {
  const int id = btf__find_by_name_kind(types_.get(), "sched_info", BTF_KIND_STRUCT);
  return id > 0 && btf_vlen(btf__type_by_id(types_.get(), static_cast<uint32_t>(id))) > 0;
}

bool KernelTypes::has_member(const char* type, std::string_view member) const {
  int32_t id = btf__find_by_name_kind(types_.get(), type, BTF_KIND_STRUCT);
  id = id > 0 ? id : btf__find_by_name_kind(types_.get(), type, BTF_KIND_UNION);
  if (id <= 0) {
    return false;
  }
  const btf_type* found = btf__type_by_id(types_.get(), static_cast<uint32_t>(id));
  const btf_member* members = btf_members(found);
  return std::any_of(members, members + btf_vlen(found),
                     [&](const btf_member& m) { return member == btf__name_by_offset(types_.get(), m.name_off); });
}

std::vector<std::pair<uint32_t, std::string_view>> KernelTypes::values_of_enum(const char* name) const {
  std::vector<std::pair<uint32_t, std::string_view>> values;
  const int id = btf__find_by_name_kind(types_.get(), name, BTF_KIND_ENUM);
  if (id <= 0) {
    return values;
  }
  const btf_type* type = btf__type_by_id(types_.get(), static_cast<uint32_t>(id));
  for (uint32_t i = 0; i < btf_vlen(type); ++i) {
    const struct btf_enum& value = ::btf_enum(type)[i];
    values.emplace_back(static_cast<uint32_t>(value.val), btf__name_by_offset(types_.get(), value.name_off));
  }
  return values;
}

}  // namespace stalltrace::capture
