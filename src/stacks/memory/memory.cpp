// SPDX-License-Identifier: Apache-2.0
#include "stacks/memory/memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/clock.h"

namespace stalltrace::stacks {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr size_t kMostPages = 4096;  // cached pages

}  // namespace

Result<ProcessMemory> ProcessMemory::open(const Procfs& procfs, pid_t pid) {
  UniqueFd fd(::open(procfs.path(pid, "mem").c_str(), O_RDONLY | O_CLOEXEC));
  if (fd) {
    return ProcessMemory(std::move(fd));
  }
  const int error_number = errno;
  if (error_number == EACCES || error_number == EPERM) {
    return fail(fmt::format("the memory of process {} may not be read: {}", pid, std::strerror(error_number)),
                "run as root or with CAP_SYS_PTRACE: kernel.yama.ptrace_scope keeps even the process's own user out",
                ErrorKind::kNoPrivilege);
  }
  return fail(fmt::format("process {} has ended", pid), "name a process that runs", ErrorKind::kNotFound);
}

bool ProcessMemory::read(uint64_t address, std::span<std::byte> into) {
  size_t done = 0;
  while (done < into.size()) {
    const uint64_t at = address + done;
    if (at < address || at > static_cast<uint64_t>(INT64_MAX)) {
      return false;
    }
    const ssize_t got = ::pread(fd_.get(), into.data() + done, into.size() - done, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return false;
    }
    done += static_cast<size_t>(got);
  }
  return true;
}

BoundedMemory::BoundedMemory(Memory& memory, Bounds bounds)
    : memory_(memory), bounds_(bounds), begun_ns_(monotonic_now_ns()) {}

void BoundedMemory::pause() const { std::this_thread::sleep_for(std::chrono::nanoseconds(bounds_.pause_ns)); }

void BoundedMemory::forget() { pages_.clear(); }

const BoundedMemory::Page* BoundedMemory::page(uint64_t number) {
  const auto found = pages_.find(number);
  if (found != pages_.end()) {
    return found->second.empty() ? nullptr : &found->second;
  }
  bytes_ += kPageBytes;
  exhausted_ |= bytes_ > bounds_.most_bytes || monotonic_now_ns() - begun_ns_ > bounds_.most_ns;
  if (exhausted_) {
    return nullptr;
  }
  if (pages_.size() >= kMostPages) {
    pages_.clear();
  }
  Page page(kPageBytes);
  if (!memory_.read(number * kPageBytes, page)) {
    page.clear();  // cached as unreadable
  }
  const Page& kept = pages_[number] = std::move(page);
  return kept.empty() ? nullptr : &kept;
}

bool BoundedMemory::read(uint64_t address, std::span<std::byte> into) {
  if (exhausted_ || address + into.size() < address) {
    return false;
  }
  size_t done = 0;
  while (done < into.size()) {
    const uint64_t at = address + done;
    const Page* from = page(at / kPageBytes);
    if (from == nullptr) {
      return false;
    }
    const size_t offset = at % kPageBytes;
    const size_t some = std::min<size_t>(into.size() - done, kPageBytes - offset);
    std::memcpy(into.data() + done, from->data() + offset, some);
    done += some;
  }
  return true;
}

}  // namespace stalltrace::stacks
