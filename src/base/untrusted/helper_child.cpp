// SPDX-License-Identifier: Apache-2.0
#include "base/untrusted/helper_child.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/text.h"

namespace stalltrace {

bool die_with_parent(pid_t parent) { return ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == parent; }

bool unmap_shared_memory() {
  const auto maps = read_file("/proc/self/maps");
  if (!maps) {
    return false;
  }
  for (const std::string_view line : split(*maps, '\n')) {
    uint64_t start = 0;
    uint64_t end = 0;
    std::array<char, 5> rights{};  // "rw-s"
    if (std::sscanf(std::string(line).c_str(), "%lx-%lx %4s", &start, &end, rights.data()) == 3 && rights[3] == 's' &&
        ::munmap(reinterpret_cast<void*>(start), end - start) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace stalltrace
