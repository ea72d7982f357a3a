// SPDX-License-Identifier: Apache-2.0
// One communicator's reports to the profiler plugin. A communicator without a plugin has no Profiler; the only cost is
// then the test for a null pointer. The calling thread reports calls and launches (profile_launch.h), the proxy thread
// transfers (profile_proxy.h); each operation carries a TaskProfile between them.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "operation.h"
#include "profiler_plugin.h"

namespace lab::nccl {

class Profiler {
 public:
  struct Member {
    uint64_t hash = 0;
    std::string name;  // empty: the user gave none
    int nodes = 0;
    int ranks = 0;
    int rank = 0;
  };

  /// Null when there is no plugin or it refuses.
  static std::unique_ptr<Profiler> open(const Member& member);
  /// Finalizes the plugin's context.
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  [[nodiscard]] int mask() const { return plugin_->mask(); }
  [[nodiscard]] int rank() const { return rank_; }

  /// Handles may be null; their owner stops each at most once.
  void* start(const abi::v5::Descriptor& descriptor) { return plugin_->start(context_, descriptor); }
  void stop(void* handle) { plugin_->stop(handle); }
  void record(void* handle, abi::EventState state, abi::v5::StateArguments arguments = {}) {
    plugin_->record(handle, state, arguments);
  }

  /// Counts each function's operations with NCCL's numbering. For the launching thread.
  uint64_t next_sequence(Function function) { return sequence_[static_cast<size_t>(function)]++; }

 private:
  Profiler(std::shared_ptr<ProfilerPlugin> plugin, void* context, int rank)
      : plugin_(std::move(plugin)), context_(context), rank_(rank) {}

  std::shared_ptr<ProfilerPlugin> plugin_;
  void* context_;
  int rank_;
  std::array<uint64_t, kFunctions> sequence_{};
};

}  // namespace lab::nccl
