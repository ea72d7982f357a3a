// SPDX-License-Identifier: Apache-2.0
// A test's stand-in for NCCL: loads the library as NCCL does, and calls one version's functions.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "plugin/abi/profiler.h"
#include "plugin/testing/box_view.h"

namespace stalltrace::plugin::testing {

template <int Number, typename TheDescriptor, typename TheArguments, typename TheProfiler>
struct Version {
  static constexpr int kNumber = Number;
  using Descriptor = TheDescriptor;
  using Arguments = TheArguments;
  using Profiler = TheProfiler;
};
using V1 = Version<1, nccl::v1::Descriptor, nccl::v1::StateArguments, nccl::v1::Profiler>;
using V2 = Version<2, nccl::v2::Descriptor, nccl::v2::StateArguments, nccl::v2::Profiler>;
using V3 = Version<3, nccl::v3::Descriptor, nccl::v3::StateArguments, nccl::v3::Profiler>;
using V4 = Version<4, nccl::v4::Descriptor, nccl::v4::StateArguments, nccl::v4::Profiler>;
using V5 = Version<5, nccl::v5::Descriptor, nccl::v5::StateArguments, nccl::v5::Profiler>;
using V6 = Version<6, nccl::v6::Descriptor, nccl::v6::StateArguments, nccl::v6::Profiler>;

/// A folder for profiler files and the environment that names it; both go away with the object.
class BoxFolder {
 public:
  BoxFolder() {
    char name[] = "/dev/shm/stalltrace-test-XXXXXX";
    path_ = mkdtemp(name);
    setenv("STALLTRACE_DIR", path_.c_str(), 1);
    setenv("STALLTRACE_RING_SIZE", "8m", 1);
    unsetenv("STALLTRACE_EVENTS");
  }
  ~BoxFolder() {
    std::filesystem::remove_all(path_);
    unsetenv("STALLTRACE_DIR");
    unsetenv("STALLTRACE_RING_SIZE");
    unsetenv("STALLTRACE_EVENTS");
  }
  BoxFolder(const BoxFolder&) = delete;
  BoxFolder& operator=(const BoxFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::vector<std::string> boxes() const { return find_boxes(path_); }

  /// Reads the only file in the folder.
  [[nodiscard]] BoxView read() const {
    const auto files = boxes();
    EXPECT_EQ(files.size(), 1U);
    return read_box(files.at(0));
  }

 private:
  std::string path_;
};

/// The library, loaded for the object's lifetime.
class Library {
 public:
  Library() : handle_(dlopen(STALLTRACE_PLUGIN, RTLD_NOW | RTLD_LOCAL)) { EXPECT_NE(handle_, nullptr) << dlerror(); }
  ~Library() { dlclose(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  template <typename V>
  [[nodiscard]] const typename V::Profiler& table() const {
    const std::string name = "ncclProfiler_v" + std::to_string(V::kNumber);
    return *static_cast<const typename V::Profiler*>(dlsym(handle_, name.c_str()));
  }

 private:
  void* handle_;
};

/// A test of the loaded library, with a folder for its profiler files.
class LibraryTest : public ::testing::Test {
 protected:
  BoxFolder folder_;
  Library library_;
};

struct CollCall {
  uint64_t sequence = 0;
  size_t count = 1024;
  int root = 0;
  uint8_t channels = 2;
};

/// One communicator. Every function must return success; the handle may be null.
template <typename V>
class Job {
 public:
  using Descriptor = typename V::Descriptor;
  using Arguments = typename V::Arguments;

  explicit Job(const Library& library, uint64_t hash = 0xabcd, int ranks = 4, int rank = 1)
      : table_(library.table<V>()), hash_(hash), rank_(rank) {
    int result = -1;
    if constexpr (V::kNumber <= 3) {
      result = table_.init(&context_, &mask_);
    } else if constexpr (V::kNumber == 4) {
      result = table_.init(&context_, &mask_, "world", hash, 2, ranks, rank, nullptr);
    } else {
      result = table_.init(&context_, hash, &mask_, "world", 2, ranks, rank, nullptr);
    }
    EXPECT_EQ(result, 0);
    EXPECT_NE(context_, nullptr);
  }
  ~Job() { finish(); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  void finish() {
    if (context_ != nullptr) {
      EXPECT_EQ(table_.finalize(context_), 0);
    }
    context_ = nullptr;
  }

  [[nodiscard]] int mask() const { return mask_; }
  [[nodiscard]] void* context() const { return context_; }

  Descriptor descriptor(uint64_t type, void* parent) const {
    Descriptor result{};
    result.type = static_cast<decltype(result.type)>(type);
    result.parent = parent;
    result.rank = rank_;
    return result;
  }

  void* start(Descriptor descriptor) {
    void* handle = &descriptor;  // NCCL's variable may have any value
    EXPECT_EQ(table_.start_event(context_, &handle, &descriptor), 0);
    return handle;
  }

  void* group() { return start(descriptor(nccl::kEventGroup, nullptr)); }

  void* coll(void* parent, const CollCall& call) {
    Descriptor event = descriptor(nccl::kEventColl, parent);
    auto& coll = event.coll;
    coll.sequence = call.sequence;
    coll.count = call.count;
    coll.root = call.root;
    coll.channels = call.channels;
    if constexpr (V::kNumber <= 3) {
      coll.comm_hash = hash_;
    }
    if constexpr (V::kNumber == 1) {
      coll.function = 4;  // AllReduce
      coll.datatype = 7;
      coll.algorithm = 1;
      coll.protocol = 2;
    } else {
      coll.function = "AllReduce";
      coll.datatype = "ncclFloat32";
      coll.algorithm = "RING";
      coll.protocol = "SIMPLE";
    }
    return start(event);
  }

  void* p2p(void* parent, bool send, int peer, size_t count) {
    Descriptor event = descriptor(nccl::kEventP2p, parent);
    auto& p2p = event.p2p;
    p2p.count = count;
    p2p.peer = peer;
    if constexpr (V::kNumber <= 3) {
      p2p.comm_hash = hash_;
    }
    if constexpr (V::kNumber == 1) {
      p2p.function = send ? 6 : 7;
      p2p.datatype = 0;
    } else {
      p2p.function = send ? "Send" : "Recv";
      p2p.datatype = "ncclInt8";
    }
    return start(event);
  }

  void* op(void* parent, bool send, int peer, int channel = 0, pid_t pid = getpid()) {
    Descriptor event = descriptor(nccl::kEventProxyOp, parent);
    event.proxy_op = {pid, static_cast<uint8_t>(channel), peer, 4, 65536, send ? 1 : 0};
    return start(event);
  }

  void* step(void* parent, int number) {
    Descriptor event = descriptor(nccl::kEventProxyStep, parent);
    event.proxy_step.step = number;
    return start(event);
  }

  /// From v3 on.
  void* kernel(void* parent, int channel, uint64_t gpu_timer_ns) {
    Descriptor event = descriptor(nccl::kEventKernelCh, parent);
    if constexpr (V::kNumber >= 3) {
      event.kernel_ch.channel = static_cast<uint8_t>(channel);
    }
    if constexpr (V::kNumber >= 4) {
      event.kernel_ch.gpu_timer_ns = gpu_timer_ns;
    }
    return start(event);
  }

  void stop(void* handle) { EXPECT_EQ(table_.stop_event(handle), 0); }

  void state(void* handle, int state, size_t bytes = 0) {
    Arguments arguments{};
    if constexpr (V::kNumber <= 3) {
      arguments.proxy_op = {bytes, 1};
    } else {
      arguments.proxy_step = {bytes};
    }
    EXPECT_EQ(table_.record_event_state(handle, state, &arguments), 0);
  }

  void kernel_stop(void* handle, uint64_t gpu_timer_ns) {
    if constexpr (V::kNumber >= 4) {
      Arguments arguments{};
      arguments.kernel_ch = {gpu_timer_ns};
      EXPECT_EQ(table_.record_event_state(handle, nccl::kStateKernelChStop, &arguments), 0);
    }
    stop(handle);
  }

  const typename V::Profiler& table() const { return table_; }

 private:
  const typename V::Profiler& table_;
  void* context_ = nullptr;
  int mask_ = 0;
  uint64_t hash_;
  int rank_;
};

}  // namespace stalltrace::plugin::testing
