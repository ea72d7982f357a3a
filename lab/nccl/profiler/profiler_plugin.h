// SPDX-License-Identifier: Apache-2.0
// The profiler plugin of this process, found and loaded as NCCL 2.28 does: NCCL_PROFILER_PLUGIN is a path, or NAME for
// libnccl-profiler-NAME.so, or `none`; unset means libnccl-profiler.so. Uses the library's newest interface:
// ncclProfiler_v5, else _v4. Shared by all communicators; the last one closes it. Any thread may call anything.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "plugin/abi/v4.h"
#include "plugin/abi/v5.h"

namespace lab::nccl {

namespace abi = stalltrace::nccl;

class ProfilerPlugin {
 public:
  using Descriptor = abi::v5::Descriptor;
  using StateArguments = abi::v5::StateArguments;

  /// The communicator's identity, as passed to init.
  struct Member {
    uint64_t hash;
    const char* name;  // null: the user gave none
    int nodes;
    int ranks;
    int rank;
  };

  /// Null if there is no usable plugin: the log gives the reason, and the job continues without. A process that failed
  /// to load one does not try again.
  static std::shared_ptr<ProfilerPlugin> acquire();
  ~ProfilerPlugin();
  ProfilerPlugin(const ProfilerPlugin&) = delete;
  ProfilerPlugin& operator=(const ProfilerPlugin&) = delete;

  /// The events that the plugin wants now: bits of abi::EventType. May change at any time.
  [[nodiscard]] int mask() const { return __atomic_load_n(&mask_, __ATOMIC_RELAXED); }

  /// False if the plugin refuses the communicator. Its context may be null.
  bool init(const Member& member, void** context);
  void finalize(void* context);
  /// The plugin's handle; null if it does not follow this event, or its version does not know the type.
  void* start(void* context, const Descriptor& descriptor);
  void stop(void* handle);
  void record(void* handle, abi::EventState state, StateArguments arguments);

 private:
  explicit ProfilerPlugin(void* library) : library_(library) {}
  static std::shared_ptr<ProfilerPlugin> load();
  bool find_interface();
  [[nodiscard]] const char* name() const { return v5_ != nullptr ? v5_->name : v4_->name; }

  void* library_;
  abi::v5::Profiler* v5_ = nullptr;  // one of the two is set
  abi::v4::Profiler* v4_ = nullptr;
  int mask_ = 0;  // written by the plugin
};

}  // namespace lab::nccl
