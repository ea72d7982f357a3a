// SPDX-License-Identifier: Apache-2.0
#include "profiler.h"

namespace lab::nccl {

std::unique_ptr<Profiler> Profiler::open(const Member& member) {
  std::shared_ptr<ProfilerPlugin> plugin = ProfilerPlugin::acquire();
  if (plugin == nullptr) {
    return nullptr;
  }
  void* context = nullptr;
  const ProfilerPlugin::Member reported{.hash = member.hash,
                                        .name = member.name.empty() ? nullptr : member.name.c_str(),
                                        .nodes = member.nodes,
                                        .ranks = member.ranks,
                                        .rank = member.rank};
  if (!plugin->init(reported, &context)) {
    return nullptr;
  }
  return std::unique_ptr<Profiler>(new Profiler(std::move(plugin), context, member.rank));
}

Profiler::~Profiler() { plugin_->finalize(context_); }

}  // namespace lab::nccl
