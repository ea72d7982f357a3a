// SPDX-License-Identifier: Apache-2.0
// Ownership of C handles: `unique_ptr<T, Free<f>>` for pointers, UniqueFd for file descriptors.
#pragma once

#include <unistd.h>

#include <memory>
#include <utility>

namespace stalltrace {

/// A deleter that calls one C function; costs no space.
template <auto fn>
struct Free {
  template <typename T>
  void operator()(T* pointer) const noexcept {
    fn(pointer);
  }
};

/// Owns one file descriptor; -1 is empty.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  void reset() noexcept {
    if (fd_ >= 0) {
      ::close(std::exchange(fd_, -1));
    }
  }

 private:
  int fd_ = -1;
};

}  // namespace stalltrace
