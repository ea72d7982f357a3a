// SPDX-License-Identifier: Apache-2.0
#include "copy_engine.h"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace lab::nccl {

CopyEngine::CopyEngine() {
  if (const char* path = std::getenv("LAB_SLOW_COPY"); path != nullptr) {
    path_ = path;
  }
}

void CopyEngine::refresh() {
  double megabytes_per_second = 0;
  if (!path_.empty()) {
    std::ifstream(path_) >> megabytes_per_second;
  }
  bytes_per_second_ = megabytes_per_second * 1e6;
}

void CopyEngine::copy(size_t bytes) const {
  if (bytes_per_second_ > 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(static_cast<double>(bytes) / bytes_per_second_));
  }
}

}  // namespace lab::nccl
