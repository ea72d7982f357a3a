// SPDX-License-Identifier: Apache-2.0
// Each allocation that the C library makes for the plugin fails once: the job goes on, and what it did is in the file.
// The plugin itself allocates nothing. This program's malloc is the one that the C library calls, too.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>

#include "plugin/testing/host.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they have a malloc of their own

namespace {

struct Allocations {
  std::atomic<uint64_t> made = 0;
  std::atomic<uint64_t> failed = 0;
};
std::atomic<Allocations*> allocations = nullptr;  // null: none is counted
std::atomic<uint64_t> failing = 0;                // the number of the one that fails, from 1

bool fails() {
  Allocations* counts = allocations.load();
  if (counts == nullptr || ++counts->made != failing) {
    return false;
  }
  ++counts->failed;
  errno = ENOMEM;
  return true;
}

}  // namespace

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) { return fails() ? nullptr : __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return fails() ? nullptr : __libc_calloc(count, size); }
void* realloc(void* memory, size_t size) { return fails() ? nullptr : __libc_realloc(memory, size); }
void* memalign(size_t alignment, size_t size) { return fails() ? nullptr : __libc_memalign(alignment, size); }
void* aligned_alloc(size_t alignment, size_t size) { return fails() ? nullptr : __libc_memalign(alignment, size); }
int posix_memalign(void** memory, size_t alignment, size_t size) {
  *memory = fails() ? nullptr : __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
}

namespace stalltrace::plugin::testing {
namespace {

class FailingAllocations : public ::testing::Test {
 protected:
  FailingAllocations()
      : counts_(new (::mmap(nullptr, sizeof(Allocations), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                    Allocations) {}
  ~FailingAllocations() override { ::munmap(counts_, sizeof(Allocations)); }

  /// A job of two collectives, in a process of its own, whose n-th allocation fails. Whether it ended well.
  bool play(uint64_t number) {
    counts_->made = 0;
    counts_->failed = 0;
    const pid_t child = ::fork();
    if (child == 0) {
      const Library library;
      failing = number;
      allocations = counts_;
      {
        Job<V5> job(library);
        for (const uint64_t sequence : {7, 8}) {
          void* group = job.group();
          void* call = job.coll(group, {.sequence = sequence});
          job.stop(call);
          job.stop(group);
        }
      }
      allocations = nullptr;
      ::_exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  BoxFolder folder_;
  Allocations* counts_;
};

TEST_F(FailingAllocations, TheJobGoesOnAndItsCallsAreRecorded) {
  constexpr uint64_t kMost = 200;
  ASSERT_TRUE(play(0));
  const uint64_t usual = counts_->made;
  ASSERT_GT(usual, 0U) << "the C library allocates: a folder is listed, a thread is started";
  ASSERT_LT(usual, kMost);
  for (uint64_t number = 1; number <= usual; ++number) {
    SCOPED_TRACE("allocation " + std::to_string(number) + " of " + std::to_string(usual));
    BoxFolder folder;
    EXPECT_TRUE(play(number));
    EXPECT_EQ(counts_->failed, 1U);
    const BoxView box = folder.read();
    EXPECT_EQ(box.of_type(ST_BOX_COLL).size(), 2U);
  }
}

}  // namespace
}  // namespace stalltrace::plugin::testing

#endif
