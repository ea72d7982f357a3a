// SPDX-License-Identifier: Apache-2.0
// uprobe-multi links, which libbpf 1.1 cannot make: many offsets of one file with a cookie each in one file descriptor,
// without CAP_SYS_ADMIN.
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <span>
#include <string>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace::capture {

/// BPF_TRACE_UPROBE_MULTI of enum bpf_attach_type (linux/bpf.h since 6.6): what the program must be loaded for.
inline constexpr auto kTraceUprobeMulti = static_cast<enum bpf_attach_type>(48);

/// Whether this kernel has uprobe-multi links (Linux 6.6) and allows us to use them.
bool has_uprobe_multi();

/// Attaches `program_fd` to `offsets` (file offsets) of `path`, each with a cookie. `semaphores`, if given: for each
/// offset, the offset of a 16-bit counter that the kernel raises by one in every process while the link exists.
Result<UniqueFd> link_uprobe_multi(int program_fd, const std::string& path, std::span<const uint64_t> offsets,
                                   std::span<const uint64_t> cookies, bool at_return,
                                   std::span<const uint64_t> semaphores = {});

}  // namespace stalltrace::capture
