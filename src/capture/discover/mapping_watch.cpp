// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/mapping_watch.h"

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

namespace stalltrace::capture {
namespace {

/// A PyTorch rank maps 380 files within about 100 ms, 150 bytes each here, and ranks that start together on few CPUs
/// leave this process no CPU time then. perf uses the same size, which is also what an unprivileged user may lock for
/// each CPU (kernel.perf_event_mlock_kb). With many CPUs, fewer ranks share one.
constexpr size_t kMostRingBytes = 512 << 10;
constexpr size_t kLeastRingBytes = 64 << 10;
constexpr size_t kAllRingsBytes = 32 << 20;

size_t page_size() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

/// A power of two, as the kernel requires.
size_t ring_bytes(long cpus) {
  const size_t share = std::bit_floor(kAllRingsBytes / static_cast<size_t>(std::max(cpus, 1L)));
  return std::clamp(share, kLeastRingBytes, kMostRingBytes);
}

/// The fixed part of PERF_RECORD_MMAP2 (linux/perf_event.h); the file name follows.
struct Mmap2Record {
  perf_event_header header;
  uint32_t pid, tid;
  uint64_t address, length, page_offset;
  uint32_t major, minor;
  uint64_t inode, inode_generation;
  uint32_t protection, flags;
};
struct LostRecord {
  perf_event_header header;
  uint64_t id, lost;
};

int open_on_cpu(int cpu) {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_DUMMY;
  attributes.mmap = 1;  // executable mappings only; data mappings would need mmap_data
  attributes.mmap2 = 1;
  attributes.watermark = 1;
  attributes.wakeup_watermark = 1;
  return static_cast<int>(syscall(SYS_perf_event_open, &attributes, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC));
}

}  // namespace

struct MappingWatch::Ring {
  UniqueFd fd;
  void* memory = nullptr;  // one control page, then the data
  size_t data_bytes = 0;

  Ring(UniqueFd descriptor, void* mapped, size_t bytes)
      : fd(std::move(descriptor)), memory(mapped), data_bytes(bytes) {}
  Ring(Ring&& other) noexcept
      : fd(std::move(other.fd)), memory(std::exchange(other.memory, nullptr)), data_bytes(other.data_bytes) {}
  Ring& operator=(Ring&&) = delete;
  ~Ring() {
    if (memory) {
      ::munmap(memory, page_size() + data_bytes);
    }
  }

  /// Maps a smaller ring where the limit of locked memory requires it.
  static Result<Ring> map(UniqueFd fd, size_t data_bytes) {
    for (size_t bytes = data_bytes;; bytes /= 2) {
      void* memory = ::mmap(nullptr, page_size() + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
      if (memory != MAP_FAILED) {
        return Ring(std::move(fd), memory, bytes);
      }
      if (bytes <= kLeastRingBytes) {
        return fail_errno("map the perf ring", errno);
      }
    }
  }
};

MappingWatch::MappingWatch(std::vector<Ring> rings) : rings_(std::move(rings)) {}
MappingWatch::~MappingWatch() = default;

Result<std::unique_ptr<MappingWatch>> MappingWatch::open() {
  std::vector<Ring> rings;
  const long cpus = sysconf(_SC_NPROCESSORS_CONF);
  for (int cpu = 0; cpu < cpus; ++cpu) {
    UniqueFd fd(open_on_cpu(cpu));
    if (!fd) {
      if (errno == ENODEV) {
        continue;  // CPU is offline
      }
      return fail_errno("perf_event_open for file mappings", errno, "run as root, or grant CAP_PERFMON");
    }
    ST_ASSIGN(Ring ring, Ring::map(std::move(fd), ring_bytes(cpus)));
    rings.push_back(std::move(ring));
  }
  return std::unique_ptr<MappingWatch>(new MappingWatch(std::move(rings)));
}

std::vector<int> MappingWatch::descriptors() const {
  std::vector<int> result;
  for (const Ring& ring : rings_) {
    result.push_back(ring.fd.get());
  }
  return result;
}

uint64_t MappingWatch::drain(const Visitor& visit) {
  uint64_t lost = 0;
  std::vector<std::byte> record;
  for (const Ring& ring : rings_) {
    auto* control = static_cast<perf_event_mmap_page*>(ring.memory);
    const auto* data = static_cast<const std::byte*>(ring.memory) + page_size();
    const uint64_t size = ring.data_bytes;
    const uint64_t head = __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE);
    uint64_t tail = control->data_tail;
    const auto copy = [&](uint64_t from, size_t length, void* to) {  // a record may wrap around
      for (size_t i = 0; i < length; ++i) {
        static_cast<std::byte*>(to)[i] = data[(from + i) % size];
      }
    };
    while (tail < head) {
      perf_event_header header;
      copy(tail, sizeof header, &header);
      if (header.size < sizeof header) {
        break;
      }
      record.resize(header.size + 1U);
      copy(tail, header.size, record.data());
      record.back() = std::byte{0};
      tail += header.size;
      if (header.type == PERF_RECORD_MMAP2 && header.size > sizeof(Mmap2Record)) {
        Mmap2Record mapping;
        std::memcpy(&mapping, record.data(), sizeof mapping);
        const char* name = reinterpret_cast<const char*>(record.data() + sizeof mapping);
        if (mapping.inode != 0 && name[0] == '/') {
          visit(static_cast<pid_t>(mapping.pid), MappedFile{.start = mapping.address,
                                                            .end = mapping.address + mapping.length,
                                                            .device_major = mapping.major,
                                                            .device_minor = mapping.minor,
                                                            .inode = mapping.inode,
                                                            .path = name});
        }
      } else if (header.type == PERF_RECORD_LOST && header.size >= sizeof(LostRecord)) {
        LostRecord loss;
        std::memcpy(&loss, record.data(), sizeof loss);
        lost += loss.lost;
      }
    }
    __atomic_store_n(&control->data_tail, tail, __ATOMIC_RELEASE);
  }
  return lost;
}

}  // namespace stalltrace::capture
