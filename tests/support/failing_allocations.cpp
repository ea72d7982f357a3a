// SPDX-License-Identifier: Apache-2.0
// Linked into a program with --wrap=malloc and the like: one allocation of it fails. STALLTRACE_FAILING_ALLOCATION is
// the number of that one, from 1, in all processes of the program together; "3+" is the third and all later ones, 0
// none. STALLTRACE_ALLOCATIONS names a file of 16 bytes, which gets the number of allocations and of those that failed.
// Counted from the first instruction of main() on: before, the C++ library takes what it throws exceptions with.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

struct Counts {
  std::atomic<uint64_t> allocations;
  std::atomic<uint64_t> failed;
};
static_assert(sizeof(Counts) == 16);

Counts* counts = nullptr;  // null: none is counted
uint64_t first = 0;
bool later_too = false;

bool fails() {
  if (counts == nullptr) {
    return false;
  }
  const uint64_t number = ++counts->allocations;
  if (first == 0 || number < first || (number > first && !later_too)) {
    return false;
  }
  ++counts->failed;
  errno = ENOMEM;
  return true;
}

}  // namespace

extern "C" {

int __real_main(int argc, char** argv);
void* __real_malloc(size_t size);
void* __real_calloc(size_t count, size_t size);
void* __real_realloc(void* memory, size_t size);
void* __real_aligned_alloc(size_t alignment, size_t size);
void* __real_memalign(size_t alignment, size_t size);
int __real_posix_memalign(void** memory, size_t alignment, size_t size);

void* __wrap_malloc(size_t size) { return fails() ? nullptr : __real_malloc(size); }
void* __wrap_calloc(size_t count, size_t size) { return fails() ? nullptr : __real_calloc(count, size); }
void* __wrap_realloc(void* memory, size_t size) { return fails() ? nullptr : __real_realloc(memory, size); }
void* __wrap_aligned_alloc(size_t alignment, size_t size) {
  return fails() ? nullptr : __real_aligned_alloc(alignment, size);
}
void* __wrap_memalign(size_t alignment, size_t size) { return fails() ? nullptr : __real_memalign(alignment, size); }
int __wrap_posix_memalign(void** memory, size_t alignment, size_t size) {
  return fails() ? ENOMEM : __real_posix_memalign(memory, alignment, size);
}

int __wrap_main(int argc, char** argv) {
  const char* which = getenv("STALLTRACE_FAILING_ALLOCATION");
  const char* file = getenv("STALLTRACE_ALLOCATIONS");
  if (which != nullptr && file != nullptr) {
    const int fd = open(file, O_RDWR | O_CLOEXEC);
    void* memory = mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED) {
      return 125;
    }
    first = std::strtoull(which, nullptr, 10);
    later_too = std::strchr(which, '+') != nullptr;
    counts = static_cast<Counts*>(memory);
  }
  return __real_main(argc, argv);
}

}  // extern "C"
