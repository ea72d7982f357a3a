// SPDX-License-Identifier: Apache-2.0
// The exported functions of the CUDA stand-in. Devices are numbers: LAB_CUDA_DEVICES of them, 8 when unset.
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda_runtime.h"
#include "lab_kernel.h"
#include "stream.h"

struct CUstream_st {
  int device = 0;
  lab::cuda::Stream stream;
};

struct CUevent_st {
  lab::cuda::Event event;
};

struct labKernel_st {
  std::shared_ptr<lab::cuda::Mark> end = std::make_shared<lab::cuda::Mark>();
};

namespace {

constexpr int kDefaultDevices = 8;

int device_count() {
  static const int count = [] {
    const char* text = std::getenv("LAB_CUDA_DEVICES");
    int value = 0;
    if (text != nullptr) {
      const std::string_view view(text);
      std::from_chars(view.begin(), view.end(), value);
    }
    return value > 0 ? value : kDefaultDevices;
  }();
  return count;
}

struct ThreadState {
  int device = 0;
  cudaError_t last_error = cudaSuccess;
};

ThreadState& this_thread() {
  thread_local ThreadState state;
  return state;
}

/// Stores a failure for cudaGetLastError; cudaErrorNotReady is an answer, not a failure.
cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) {
    this_thread().last_error = error;
  }
  return error;
}

/// All streams of the process, for cudaDeviceSynchronize and the default streams. Never destroyed: worker threads and
/// exit handlers may still use streams while the process ends.
class Registry {
 public:
  static Registry& instance() {
    static auto* registry = new Registry;
    return *registry;
  }

  cudaStream_t create(int device) {
    auto stream = std::make_shared<CUstream_st>();
    stream->device = device;
    const std::lock_guard lock(mutex_);
    streams_.emplace(stream.get(), stream);
    return stream.get();
  }

  bool destroy(cudaStream_t handle) {
    const std::lock_guard lock(mutex_);
    return streams_.erase(handle) == 1;
  }

  /// The stream behind a handle, the current device's default stream for 0; null for a handle that is no stream.
  std::shared_ptr<CUstream_st> find(cudaStream_t handle) {
    const std::lock_guard lock(mutex_);
    if (handle == nullptr) {
      std::shared_ptr<CUstream_st>& stream = defaults_[this_thread().device];
      if (stream == nullptr) {
        stream = std::make_shared<CUstream_st>();
        stream->device = this_thread().device;
      }
      return stream;
    }
    const auto found = streams_.find(handle);
    return found == streams_.end() ? nullptr : found->second;
  }

  std::vector<std::shared_ptr<CUstream_st>> of_device(int device) {
    std::vector<std::shared_ptr<CUstream_st>> found;
    const std::lock_guard lock(mutex_);
    for (const auto& [handle, stream] : streams_) {
      if (stream->device == device) {
        found.push_back(stream);
      }
    }
    if (const auto own = defaults_.find(device); own != defaults_.end()) {
      found.push_back(own->second);
    }
    return found;
  }

 private:
  std::mutex mutex_;
  std::map<cudaStream_t, std::shared_ptr<CUstream_st>> streams_;
  std::map<int, std::shared_ptr<CUstream_st>> defaults_;
};

cudaError_t enqueue(cudaStream_t handle, std::function<void()> work) {
  const auto stream = Registry::instance().find(handle);
  if (stream == nullptr) {
    return result(cudaErrorInvalidResourceHandle);
  }
  stream->stream.enqueue(std::move(work));
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) {
    return result(cudaErrorInvalidValue);
  }
  *count = device_count();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= device_count()) {
    return result(cudaErrorInvalidDevice);
  }
  this_thread().device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) {
    return result(cudaErrorInvalidValue);
  }
  *device = this_thread().device;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  for (const auto& stream : Registry::instance().of_device(this_thread().device)) {
    stream->stream.synchronize();
  }
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** devPtr, size_t size) {
  if (devPtr == nullptr) {
    return result(cudaErrorInvalidValue);
  }
  constexpr size_t kAlignment = 256;  // guaranteed by the real cudaMalloc
  *devPtr = nullptr;
  if (size == 0) {
    return cudaSuccess;
  }
  if (size > SIZE_MAX - kAlignment) {
    return result(cudaErrorMemoryAllocation);
  }
  *devPtr = std::aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
  return *devPtr == nullptr ? result(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t cudaFree(void* devPtr) {
  cudaDeviceSynchronize();  // as in the real library: queued work may still use the memory
  std::free(devPtr);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t count, cudaMemcpyKind, cudaStream_t stream) {
  if (count > 0 && (dst == nullptr || src == nullptr)) {
    return result(cudaErrorInvalidValue);
  }
  return enqueue(stream, [=] {
    if (count > 0) {
      std::memmove(dst, src, count);
    }
  });
}

cudaError_t cudaMemcpy(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
  const cudaError_t error = cudaMemcpyAsync(dst, src, count, kind, nullptr);
  return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
}

cudaError_t cudaMemsetAsync(void* devPtr, int value, size_t count, cudaStream_t stream) {
  if (count > 0 && devPtr == nullptr) {
    return result(cudaErrorInvalidValue);
  }
  return enqueue(stream, [=] {
    if (count > 0) {
      std::memset(devPtr, value, count);
    }
  });
}

cudaError_t cudaMemset(void* devPtr, int value, size_t count) {
  const cudaError_t error = cudaMemsetAsync(devPtr, value, count, nullptr);
  return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* pStream, unsigned int flags) {
  if (pStream == nullptr || (flags & ~static_cast<unsigned int>(cudaStreamNonBlocking)) != 0) {
    return result(cudaErrorInvalidValue);
  }
  *pStream = Registry::instance().create(this_thread().device);
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* pStream) { return cudaStreamCreateWithFlags(pStream, cudaStreamDefault); }

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return stream != nullptr && Registry::instance().destroy(stream) ? cudaSuccess
                                                                   : result(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const auto stream = Registry::instance().find(handle);
  if (stream == nullptr) {
    return result(cudaErrorInvalidResourceHandle);
  }
  stream->stream.synchronize();
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const auto stream = Registry::instance().find(handle);
  if (stream == nullptr) {
    return result(cudaErrorInvalidResourceHandle);
  }
  return stream->stream.idle() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  if (event == nullptr) {
    return result(cudaErrorInvalidResourceHandle);
  }
  if (flags != 0) {
    return result(cudaErrorInvalidValue);
  }
  const auto waiting = Registry::instance().find(stream);
  if (waiting == nullptr) {
    return result(cudaErrorInvalidResourceHandle);
  }
  if (auto mark = event->event.latest(); mark != nullptr) {
    waiting->stream.wait_for(std::move(mark));
  }
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void* userData) {
  if (fn == nullptr) {
    return result(cudaErrorInvalidValue);
  }
  return enqueue(stream, [=] { fn(userData); });
}

cudaError_t labLaunchKernel(cudaStream_t handle, labKernelStart_t start, void* userData) {
  const auto stream = Registry::instance().find(handle);
  if (stream == nullptr) {
    return result(cudaErrorInvalidResourceHandle);
  }
  auto* kernel = new labKernel_st;
  const auto end = kernel->end;  // the kernel may be gone as soon as it has started
  stream->stream.enqueue_short([=] { start(userData, kernel); });
  stream->stream.wait_for(end);
  return cudaSuccess;
}

void labKernelEnd(labKernel_t kernel) {
  kernel->end->reach();
  delete kernel;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  constexpr unsigned int kKnown = cudaEventBlockingSync | cudaEventDisableTiming;
  if (event == nullptr || (flags & ~kKnown) != 0) {
    return result(cudaErrorInvalidValue);
  }
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) {
    return result(cudaErrorInvalidResourceHandle);
  }
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  const auto stream = Registry::instance().find(handle);
  if (event == nullptr || stream == nullptr) {
    return result(cudaErrorInvalidResourceHandle);
  }
  event->event.record(stream->stream);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event == nullptr) {
    return result(cudaErrorInvalidResourceHandle);
  }
  if (const auto mark = event->event.latest(); mark != nullptr) {
    mark->wait();
  }
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (event == nullptr) {
    return result(cudaErrorInvalidResourceHandle);
  }
  const auto mark = event->event.latest();
  return mark == nullptr || mark->reached() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  if (ms == nullptr || start == nullptr || end == nullptr) {
    return result(cudaErrorInvalidValue);
  }
  const auto from = start->event.latest();
  const auto to = end->event.latest();
  if (from == nullptr || to == nullptr) {
    return result(cudaErrorInvalidResourceHandle);
  }
  if (!from->reached() || !to->reached()) {
    return cudaErrorNotReady;
  }
  *ms = std::chrono::duration<float, std::milli>(to->time() - from->time()).count();
  return cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
  }
  return "unrecognized error code";
}

cudaError_t cudaGetLastError() {
  ThreadState& state = this_thread();
  const cudaError_t error = state.last_error;
  state.last_error = cudaSuccess;
  return error;
}
