// SPDX-License-Identifier: Apache-2.0
#include "profiler_plugin.h"

#include <dlfcn.h>
#include <link.h>
#include <strings.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>

#include "debug.h"

namespace lab::nccl {
namespace {

constexpr std::string_view kPrefix = "libnccl-profiler";

/// Opens the library; sets *absent if there is no such file, which alone is not reported.
void* open_library(const std::string& name, bool* absent) {
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = dlerror();
    const std::string_view text = error == nullptr ? "" : error;
    *absent = text.contains(name) && text.contains(std::strerror(ENOENT));
    if (!*absent) {
      info(kInit, "PROFILER/Plugin: %s: %s", name.c_str(), error == nullptr ? "" : error);
    }
  }
  return library;
}

/// A word such as "inspector", and neither a path nor the name of a library.
bool is_short_name(std::string_view name) {
  return !name.empty() && !name.contains('/') && !(name.starts_with("lib") && name.ends_with(".so"));
}

void* find_library(std::string_view asked_for) {
  std::string names[2];
  names[0] = asked_for.empty() ? std::string(kPrefix) + ".so" : asked_for;
  if (is_short_name(asked_for)) {
    names[1] = std::string(kPrefix) + "-" + std::string(asked_for) + ".so";
  }
  std::string missing;
  for (const std::string& name : names) {
    bool absent = false;
    if (name.empty()) {
      continue;
    }
    if (void* library = open_library(name, &absent); library != nullptr) {
      return library;
    }
    missing += absent ? " " + name : "";
  }
  if (!missing.empty()) {
    info(kInit, "PROFILER/Plugin: Could not find:%s", missing.c_str());
  }
  return nullptr;
}

std::string path_of(void* library) {
  link_map* map = nullptr;
  return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "";
}

/// Converts an event for a plugin of version 4, where Coll and P2p are children of the Group.
abi::v4::Descriptor to_v4(const abi::v5::Descriptor& from) {
  abi::v4::Descriptor to{};
  to.type = static_cast<uint8_t>(from.type);
  to.parent = from.parent;
  to.rank = from.rank;
  switch (from.type) {
    case abi::kEventColl:
      to.parent = from.coll.parent_group;
      to.coll = {.sequence = from.coll.sequence,
                 .function = from.coll.function,
                 .send_buffer = from.coll.send_buffer,
                 .receive_buffer = from.coll.receive_buffer,
                 .count = from.coll.count,
                 .root = from.coll.root,
                 .datatype = from.coll.datatype,
                 .channels = from.coll.channels,
                 .warps = from.coll.warps,
                 .algorithm = from.coll.algorithm,
                 .protocol = from.coll.protocol};
      break;
    case abi::kEventP2p:
      to.parent = from.p2p.parent_group;
      to.p2p = {.function = from.p2p.function,
                .buffer = from.p2p.buffer,
                .datatype = from.p2p.datatype,
                .count = from.p2p.count,
                .peer = from.p2p.peer,
                .channels = from.p2p.channels};
      break;
    case abi::kEventProxyOp:
      to.proxy_op = from.proxy_op;
      break;
    case abi::kEventProxyStep:
      to.proxy_step = from.proxy_step;
      break;
    case abi::kEventKernelCh:
      to.kernel_ch = from.kernel_ch;
      break;
    default:
      break;
  }
  return to;
}

constexpr uint64_t kKnownToV4 = abi::kEventGroup | abi::kEventColl | abi::kEventP2p | abi::kEventProxyOp |
                                abi::kEventProxyStep | abi::kEventProxyCtrl | abi::kEventKernelCh |
                                abi::kEventNetPlugin;

}  // namespace

std::shared_ptr<ProfilerPlugin> ProfilerPlugin::acquire() {
  static std::mutex mutex;
  static std::weak_ptr<ProfilerPlugin> shared;
  static bool failed = false;
  const std::lock_guard lock(mutex);
  if (failed) {
    return nullptr;
  }
  std::shared_ptr<ProfilerPlugin> plugin = shared.lock();
  if (plugin == nullptr) {
    plugin = load();
    shared = plugin;
    failed = plugin == nullptr;
  }
  return plugin;
}

std::shared_ptr<ProfilerPlugin> ProfilerPlugin::load() {
  const char* asked_for = std::getenv("NCCL_PROFILER_PLUGIN");
  if (asked_for != nullptr) {
    info(kEnv, "NCCL_PROFILER_PLUGIN set by environment to %s", asked_for);
    if (strcasecmp(asked_for, "none") == 0) {
      return nullptr;
    }
  }
  void* library = find_library(asked_for == nullptr ? "" : asked_for);
  if (library == nullptr) {
    return nullptr;
  }
  const std::string path = path_of(library);
  std::shared_ptr<ProfilerPlugin> plugin(new ProfilerPlugin(library));
  if (!plugin->find_interface()) {
    info(kInit, "External profiler plugin %s is unsupported", path.c_str());
    return nullptr;
  }
  info(kInit, "Successfully loaded external profiler plugin %s", path.c_str());
  return plugin;
}

bool ProfilerPlugin::find_interface() {
  v5_ = static_cast<abi::v5::Profiler*>(dlsym(library_, "ncclProfiler_v5"));
  if (v5_ == nullptr) {
    v4_ = static_cast<abi::v4::Profiler*>(dlsym(library_, "ncclProfiler_v4"));
  }
  if (v5_ == nullptr && v4_ == nullptr) {
    return false;
  }
  info(kInit, "PROFILER/Plugin: Loaded %s (%s)", name(), v5_ != nullptr ? "v5" : "v4");
  return true;
}

ProfilerPlugin::~ProfilerPlugin() {
  if (v5_ != nullptr || v4_ != nullptr) {
    info(kInit, "PROFILER/Plugin: Closing profiler plugin %s", name());
  }
  dlclose(library_);
}

bool ProfilerPlugin::init(const Member& member, void** context) {
  const int error = v5_ != nullptr ? v5_->init(context, member.hash, &mask_, member.name, member.nodes, member.ranks,
                                               member.rank, log_for_plugin)
                                   : v4_->init(context, &mask_, member.name, member.hash, member.nodes, member.ranks,
                                               member.rank, log_for_plugin);
  if (error != abi::kSuccess) {
    info(kInit, "Profiler init failed with error '%d': %s. Continue without profiler.", error, std::strerror(errno));
  }
  return error == abi::kSuccess;
}

void ProfilerPlugin::finalize(void* context) {
  if (context != nullptr) {
    static_cast<void>(v5_ != nullptr ? v5_->finalize(context) : v4_->finalize(context));
  }
}

void* ProfilerPlugin::start(void* context, const Descriptor& descriptor) {
  void* handle = nullptr;
  if (v5_ != nullptr) {
    Descriptor own = descriptor;
    v5_->start_event(context, &handle, &own);
  } else if ((descriptor.type & kKnownToV4) != 0) {
    abi::v4::Descriptor own = to_v4(descriptor);
    v4_->start_event(context, &handle, &own);
  }
  return handle;
}

void ProfilerPlugin::stop(void* handle) {
  if (handle != nullptr) {
    static_cast<void>(v5_ != nullptr ? v5_->stop_event(handle) : v4_->stop_event(handle));
  }
}

void ProfilerPlugin::record(void* handle, abi::EventState state, StateArguments arguments) {
  if (handle == nullptr) {
    return;
  }
  static_cast<void>(v5_ != nullptr ? v5_->record_event_state(handle, state, &arguments)
                                   : v4_->record_event_state(handle, state, &arguments));
}

}  // namespace lab::nccl
