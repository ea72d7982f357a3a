// SPDX-License-Identifier: Apache-2.0
#include "base/memory/own_memory.h"

#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <span>

namespace stalltrace {

void forget_start_up() {
  ::malloc_trim(0);
  const auto forget_pages = [](dl_phdr_info* program, size_t, void*) {
    const auto page = static_cast<uintptr_t>(::getpagesize());
    for (const ElfW(Phdr) & segment : std::span(program->dlpi_phdr, program->dlpi_phnum)) {
      if (segment.p_type == PT_LOAD && (segment.p_flags & PF_W) == 0) {
        const uintptr_t begin = (program->dlpi_addr + segment.p_vaddr) / page * page;
        const uintptr_t end = program->dlpi_addr + segment.p_vaddr + segment.p_memsz;
        ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
      }
    }
    return 1;  // the first is the program itself
  };
  ::dl_iterate_phdr(forget_pages, nullptr);
}

}  // namespace stalltrace
