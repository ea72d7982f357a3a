// SPDX-License-Identifier: Apache-2.0
#include "plugin/collectives/libraries.h"

#include <dlfcn.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace stalltrace::collectives {
namespace {

/// Names of CUDA 11 to 13.
constexpr const char* kRuntimes[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};
/// From the folder of NCCL's file: of a lab or an own installation, of PyTorch's packages before CUDA 13 and with it.
constexpr const char* kBeside[] = {"", "../../cuda_runtime/lib/", "../../cu13/lib/"};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

bool find_nccl(void* library, Nccl& nccl, Failure& failure) {
  nccl.get_last_error = reinterpret_cast<const char* (*)(Comm)>(::dlsym(library, "ncclGetLastError"));
#define ST_FIND(member, name)                                            \
  if (!find(library, name, nccl.member)) {                               \
    return failure.set("NCCL's library has no %s, which 2.7 has", name); \
  }
  ST_FIND(get_version, "ncclGetVersion")
  ST_FIND(get_unique_id, "ncclGetUniqueId")
  ST_FIND(comm_init_rank, "ncclCommInitRank")
  ST_FIND(comm_get_async_error, "ncclCommGetAsyncError")
  ST_FIND(get_error_string, "ncclGetErrorString")
  ST_FIND(all_reduce, "ncclAllReduce")
  ST_FIND(all_gather, "ncclAllGather")
  ST_FIND(reduce_scatter, "ncclReduceScatter")
  ST_FIND(broadcast, "ncclBroadcast")
  ST_FIND(reduce, "ncclReduce")
  ST_FIND(send, "ncclSend")
  ST_FIND(recv, "ncclRecv")
  ST_FIND(group_start, "ncclGroupStart")
  ST_FIND(group_end, "ncclGroupEnd")
#undef ST_FIND
  return true;
}

bool find_cuda(void* library, Cuda& cuda) {
  return find(library, "cudaGetDeviceCount", cuda.get_device_count) &&
         find(library, "cudaSetDevice", cuda.set_device) && find(library, "cudaMalloc", cuda.malloc) &&
         find(library, "cudaMemset", cuda.memset) && find(library, "cudaMemcpy", cuda.memcpy) &&
         find(library, "cudaStreamCreateWithFlags", cuda.stream_create) &&
         find(library, "cudaStreamQuery", cuda.stream_query) &&
         find(library, "cudaDeviceSynchronize", cuda.device_synchronize) &&
         find(library, "cudaGetErrorString", cuda.get_error_string);
}

void* open_by_linker(int flags) {
  for (const char* name : kRuntimes) {
    if (void* library = ::dlopen(name, flags)) {
      return library;
    }
  }
  return nullptr;
}

/// Beside NCCL's file is the one that it was installed with; a host may have other versions, for other drivers.
void* open_beside(const char* nccl_path) {
  const char* slash = std::strrchr(nccl_path, '/');
  const int folder = slash == nullptr ? 0 : static_cast<int>(slash + 1 - nccl_path);
  for (const char* beside : kBeside) {
    for (const char* name : kRuntimes) {
      char path[1024];
      std::snprintf(path, sizeof path, "%.*s%s%s", folder, nccl_path, beside, name);
      if (void* library = std::strchr(path, '/') == nullptr ? nullptr : ::dlopen(path, RTLD_NOW)) {
        return library;
      }
    }
  }
  return nullptr;
}

void* open_runtime(const char* nccl_path) {
  void* library = open_by_linker(RTLD_NOW | RTLD_NOLOAD);
  library = library != nullptr ? library : open_beside(nccl_path);
  return library != nullptr ? library : open_by_linker(RTLD_NOW);
}

}  // namespace

bool Failure::set(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  for (char* at = text; *at != '\0'; ++at) {
    if (*at == '\n' || *at == '\r') {
      *at = ' ';
    }
  }
  return false;
}

bool Libraries::load(const char* wanted, Failure& failure) {
  void* library = ::dlopen(wanted == nullptr ? "libnccl.so.2" : wanted, RTLD_NOW);
  if (library == nullptr) {
    return failure.set("%s", ::dlerror());
  }
  if (!find_nccl(library, nccl, failure)) {
    return false;
  }
  Dl_info info{};
  const bool known = ::dladdr(reinterpret_cast<void*>(nccl.get_version), &info) != 0 && info.dli_fname != nullptr;
  std::snprintf(path, sizeof path, "%s", known ? info.dli_fname : "libnccl.so.2");
  void* runtime = open_runtime(path);
  if (runtime == nullptr) {
    return failure.set("no CUDA runtime (%s, %s or %s) is found, by LD_LIBRARY_PATH or beside %s", kRuntimes[0],
                       kRuntimes[1], kRuntimes[2], path);
  }
  if (!find_cuda(runtime, cuda)) {
    return failure.set("the CUDA runtime lacks a function: %s", ::dlerror());
  }
  return nccl_done(nccl.get_version(&version), "ncclGetVersion", failure);
}

bool Libraries::nccl_done(int result, const char* call, Failure& failure) const {
  if (result == kSuccess) {
    return true;
  }
  const char* last = nccl.get_last_error == nullptr ? nullptr : nccl.get_last_error(nullptr);
  const bool more = last != nullptr && *last != '\0';
  return failure.set("%s: %s%s%s%s", call, nccl.get_error_string(result), more ? " (" : "", more ? last : "",
                     more ? ")" : "");
}

bool Libraries::cuda_done(int error, const char* call, Failure& failure) const {
  return error == kSuccess || failure.set("%s: %s", call, cuda.get_error_string(error));
}

}  // namespace stalltrace::collectives
