// SPDX-License-Identifier: Apache-2.0
#include "autopsy/native/stack_reader.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <memory>
#include <span>
#include <thread>

#include "base/clock.h"
#include "base/handle.h"

namespace stalltrace::autopsy {
namespace {

using stacks::StackContent;

// Of a sample. A sample's size is 16 bits, and the stack's a multiple of 8.
constexpr uint32_t kSampledBytes = 16U << 10;
constexpr size_t kRingPages = 16;
constexpr size_t kMostSamples = 3;
constexpr int64_t kSamplesPerSecond = 200;

// arch/*/include/uapi/asm/perf_regs.h
#if defined(__x86_64__)
constexpr uint64_t kSp = 7;
constexpr uint64_t kIp = 8;
#else
constexpr uint64_t kSp = 31;
constexpr uint64_t kIp = 32;
#endif

/// A mapped ring of the kernel's samples.
class Ring {
 public:
  explicit Ring(int fd) : at_(::mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) {}
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() {
    if (*this) {
      ::munmap(at_, size());
    }
  }
  explicit operator bool() const { return at_ != MAP_FAILED; }

  /// The whole samples so far.
  std::vector<StackContent> take() {
    auto* page = static_cast<perf_event_mmap_page*>(at_);
    const uint64_t head = std::atomic_ref(page->data_head).load(std::memory_order_acquire);
    std::vector<StackContent> samples;
    for (uint64_t tail = page->data_tail; tail + sizeof(perf_event_header) <= head;) {
      perf_event_header header{};
      copy(tail, std::as_writable_bytes(std::span(&header, 1)));
      if (header.size < sizeof header) {
        break;
      }
      if (header.type == PERF_RECORD_SAMPLE) {
        std::vector<uint64_t> words((header.size - sizeof header) / sizeof(uint64_t));
        copy(tail + sizeof header, std::as_writable_bytes(std::span(words)));
        if (auto content = parse(words)) {
          samples.push_back(std::move(*content));
        }
      }
      tail += header.size;
    }
    return samples;
  }

 private:
  [[nodiscard]] size_t size() const { return (kRingPages + 1) * page_bytes_; }
  void copy(uint64_t from, std::span<std::byte> into) const {
    const auto* data = static_cast<const std::byte*>(at_) + page_bytes_;
    for (size_t i = 0; i < into.size(); ++i) {
      into[i] = data[(from + i) % (kRingPages * page_bytes_)];
    }
  }

  /// PERF_SAMPLE_REGS_USER (ABI, SP, IP) and PERF_SAMPLE_STACK_USER (size, bytes, size in use).
  static std::optional<StackContent> parse(std::span<const uint64_t> words) {
    constexpr size_t kBeforeStack = 4;
    if (words.size() <= kBeforeStack || words[0] == 0) {  // no user registers: a kernel thread
      return std::nullopt;
    }
    const uint64_t stack_words = words[3] / sizeof(uint64_t);
    if (stack_words == 0 || words.size() < kBeforeStack + stack_words + 1) {
      return std::nullopt;
    }
    const uint64_t used = std::min(words[kBeforeStack + stack_words] / sizeof(uint64_t), stack_words);
    const auto stack = words.subspan(kBeforeStack, used);
    return StackContent{words[2], {stack.begin(), stack.end()}};
  }

  size_t page_bytes_ = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* at_;
};

/// The clock never expires in a thread that gives up its CPU all the time, as MPI's waits do: its switches show it.
enum class SampleAt : uint64_t { kClock = PERF_COUNT_SW_CPU_CLOCK, kSwitches = PERF_COUNT_SW_CONTEXT_SWITCHES };

UniqueFd open_event(pid_t tid, SampleAt at, bool kernel_too) {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = static_cast<uint64_t>(at);
  attributes.sample_period = at == SampleAt::kClock ? kNsPerSecond / kSamplesPerSecond : 1;
  attributes.sample_type = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
  attributes.sample_regs_user = (1ULL << kSp) | (1ULL << kIp);
  attributes.sample_stack_user = kSampledBytes;
  attributes.exclude_kernel = kernel_too ? 0 : 1;  // samples in the kernel take privilege
  attributes.exclude_hv = 1;
  return UniqueFd(static_cast<int>(::syscall(SYS_perf_event_open, &attributes, tid, -1, -1, PERF_FLAG_FD_CLOEXEC)));
}

/// An event of a thread that samples its stack.
class Sampler {
 public:
  static Result<Sampler> open(pid_t tid, SampleAt at) {
    UniqueFd fd = open_event(tid, at, true);
    if (!fd && (errno == EACCES || errno == EPERM)) {
      fd = open_event(tid, at, false);
    }
    if (!fd) {
      const int error_number = errno;
      return fail("sample a running thread: " + std::string(std::strerror(error_number)), "",
                  error_number == EACCES || error_number == EPERM ? ErrorKind::kNoPrivilege
                  : error_number == ESRCH                         ? ErrorKind::kNotFound
                                                                  : ErrorKind::kUnsupported);
    }
    auto ring = std::make_unique<Ring>(fd.get());
    if (!*ring) {
      return fail_errno("map the samples of a running thread", errno);
    }
    return Sampler(std::move(fd), std::move(ring));
  }

  /// All so far.
  [[nodiscard]] std::vector<StackContent> take() const { return ring_->take(); }

 private:
  Sampler(UniqueFd fd, std::unique_ptr<Ring> ring) : fd_(std::move(fd)), ring_(std::move(ring)) {}

  UniqueFd fd_;
  std::unique_ptr<Ring> ring_;
};

}  // namespace

Result<std::vector<StackContent>> sample_running(pid_t tid, int64_t most_ns) {
  ST_ASSIGN(const Sampler clock, Sampler::open(tid, SampleAt::kClock));
  ST_ASSIGN(const Sampler switches, Sampler::open(tid, SampleAt::kSwitches));
  const int64_t until_ns = monotonic_now_ns() + most_ns;
  constexpr auto kTurn = std::chrono::milliseconds(5);
  std::vector<StackContent> samples;
  do {
    std::this_thread::sleep_for(kTurn);
    samples = clock.take();
    std::ranges::move(switches.take(), std::back_inserter(samples));
  } while (samples.size() < kMostSamples && monotonic_now_ns() < until_ns);
  return samples;
}

}  // namespace stalltrace::autopsy
