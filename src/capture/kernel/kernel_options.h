// SPDX-License-Identifier: Apache-2.0
// What the caller of BpfPrograms::load decides: whom to trace, and for tests which abilities of the kernel not to use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stalltrace::capture {

struct KernelOptions {
  uint32_t only_netns = 0;   // inode number of the only network namespace to trace; 0: all
  bool only_listed = false;  // only processes given to BpfPrograms::list_process, and their descendants
  // For tests: behave as on a kernel that lacks these.
  bool without_uprobe_multi = false;
  bool without_attach_cookie = false;
  bool without_storage = false;
  std::vector<std::string> without_programs;  // treated as refused by the kernel
  bool report_programs = false;               // request the verifier's figures of each program
};

}  // namespace stalltrace::capture
