// SPDX-License-Identifier: Apache-2.0
#include "plugin/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "plugin/box/box_file.h"
#include "plugin/box/heartbeat.h"
#include "plugin/box/old_files.h"
#include "plugin/box/ring.h"
#include "plugin/box/slots.h"
#include "plugin/recorder/event_choice.h"
#include "plugin/recorder/marker.h"
#include "plugin/recorder/recorder.h"

namespace stalltrace::plugin {
namespace {

constexpr uint64_t kUnloadNs = 2'000'000'000;
constexpr timespec kUnloadPause{0, 1'000'000};
constexpr uint64_t kNoBox = 0xc0;  // context without a file; not NULL, which NCCL takes for "no profiler"

struct Plugin {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // for init and finalize; no event takes it
  std::atomic<Box*> active = nullptr;
  Box box;
  uint32_t communicators = 0;  // living communicators
  uint32_t nccl_mask = 0;
  bool failed = false;  // reported; no further attempt in this process
  bool fork_watched = false;
};
constinit Plugin plugin;

class Lock {
 public:
  Lock() { pthread_mutex_lock(&plugin.mutex); }
  ~Lock() { pthread_mutex_unlock(&plugin.mutex); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};

/// The child of a fork must not write into its parent's profiler file; if it uses NCCL, it gets its own. Only the
/// forking thread exists in the child, so a thread that held the mutex does not.
void forget_parent() {
  plugin.active.store(nullptr, std::memory_order_relaxed);
  forget_heartbeat();
  unmap_box(plugin.box);
  plugin.mutex = PTHREAD_MUTEX_INITIALIZER;
  plugin.communicators = 0;
  plugin.failed = false;
  forget_transfers();
  forget_connections();
  forget_thread();
}

/// Parses "512m", "1g" or plain bytes; returns `otherwise` for an invalid size.
uint64_t size_of_text(const char* text, uint64_t otherwise) {
  if (text == nullptr || *text < '0' || *text > '9') {
    return otherwise;
  }
  char* unit = nullptr;
  const uint64_t number = strtoull(text, &unit, 10);
  constexpr struct {
    const char* name;
    int shift;
  } kUnits[] = {{"", 0}, {"k", 10}, {"m", 20}, {"g", 30}};
  for (const auto& row : kUnits) {
    if (strcasecmp(unit, row.name) == 0 && number <= UINT64_MAX >> 34) {
      return number << row.shift;
    }
  }
  return otherwise;
}

/// Asks the NCCL that called, wherever it was loaded from.
int32_t version_of_nccl(const void* code) {
  Dl_info slot{};
  if (code == nullptr || dladdr(code, &slot) == 0) {
    return 0;
  }
  void* library = dlopen(slot.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) {
    return 0;
  }
  int version = 0;
  if (auto* get_version = reinterpret_cast<int (*)(int*)>(dlsym(library, "ncclGetVersion"))) {
    get_version(&version);
  }
  dlclose(library);
  return version;
}

void report_failure(const InitRequest& request, const char* path, const BoxError& error) {
  plugin.failed = true;
  if (request.logger != nullptr) {
    request.logger(nccl::kLogWarn, nccl::kSubsystemInit, "stalltrace", 0,
                   "stalltrace: not recording: %s %s: %s; set STALLTRACE_DIR to a writable folder with room",
                   error.what, path, strerror(error.error_number));
  }
}

bool open_box(const InitRequest& request, const EventMask& choice) {
  BoxOptions options;
  if (const char* folder = getenv("STALLTRACE_DIR"); folder != nullptr && *folder != '\0') {
    options.folder = folder;
  }
  options.limit_bytes = size_of_text(getenv("STALLTRACE_RING_SIZE"), options.limit_bytes);
  char path[kPathBytes] = "";
  BoxError error;
  if (!plugin.fork_watched) {  // without it a child of this process would write into this process's file
    error = {.what = "watch forks", .error_number = pthread_atfork(nullptr, nullptr, forget_parent)};
    plugin.fork_watched = error.error_number == 0;
  }
  if (!plugin.fork_watched) {
    report_failure(request, path, error);
    return false;
  }
  remove_old_files(options.folder);
  if (!create_box(options, &plugin.box, path, &error)) {
    report_failure(request, path, error);
    return false;
  }
  st_box_header& header = *plugin.box.header;
  header.interface_version = request.interface_version;
  header.nccl_version = version_of_nccl(request.nccl_code);
  header.event_mask = choice.nccl_mask;
  header.kept_mask = choice.kept_mask;
  plugin.box.kept_mask = choice.kept_mask;
  plugin.box.kernels_reported = request.interface_version >= 3 && (choice.nccl_mask & nccl::kEventKernelCh) != 0;
  if (request.logger != nullptr) {
    request.logger(nccl::kLogInfo, nccl::kSubsystemInit, "stalltrace", 0, "stalltrace: recording to %s", path);
  }
  return true;
}

/// True once a profiler file is being written.
bool ensure_recording(const InitRequest& request) {
  if (plugin.active.load(std::memory_order_relaxed) != nullptr) {
    return true;
  }
  const EventMask choice = parse_events(getenv("STALLTRACE_EVENTS"));
  if (plugin.failed || choice.nccl_mask == 0) {
    return false;
  }
  if (!choice.understood && request.logger != nullptr) {
    request.logger(nccl::kLogWarn, nccl::kSubsystemInit, "stalltrace", 0,
                   "stalltrace: STALLTRACE_EVENTS has names that are none of its events; they are left out");
  }
  const bool ready = plugin.box.header != nullptr ? reopen_box(plugin.box) : open_box(request, choice);
  if (ready) {
    plugin.nccl_mask = choice.nccl_mask;
    start_heartbeat(plugin.box);
    plugin.active.store(&plugin.box, std::memory_order_release);
  }
  return ready;
}

/// Runs at dlclose. While communicators live it runs at the end of the process instead, and NCCL's threads may still be
/// writing. A thread that holds the mutex during this (another thread in ncclCommDestroy while main returns) needs the
/// mapping, and is waited for. One that holds it for longer may wait for the dynamic linker, which waits for us:
/// everything is then left to the process's end. It tries again and again, since no lock of glibc before 2.30 has a
/// deadline by this clock.
[[gnu::destructor]] void unload() {
  const uint64_t give_up_ns = now_ns() + kUnloadNs;
  while (pthread_mutex_trylock(&plugin.mutex) != 0) {
    if (now_ns() > give_up_ns) {
      return;
    }
    nanosleep(&kUnloadPause, nullptr);
  }
  stop_heartbeat();
  if (plugin.communicators == 0) {
    plugin.active.store(nullptr, std::memory_order_relaxed);
    unmap_box(plugin.box);
  }
  pthread_mutex_unlock(&plugin.mutex);
}

}  // namespace

Box* active_box() { return plugin.active.load(std::memory_order_acquire); }

uint32_t start_communicator(const InitRequest& request, uint64_t* context) {
  const int kept_errno = errno;
  const Lock lock;
  *context = kNoBox;
  ++plugin.communicators;
  uint32_t mask = 0;
  if (ensure_recording(request)) {
    *context = add_communicator(plugin.box, request.communicator);
    store(plugin.box.header->open_communicators, plugin.communicators);
    anchor_clocks(plugin.box);
    mask = plugin.nccl_mask;
  }
  errno = kept_errno;
  return mask;
}

void finish_communicator(uint64_t context) {
  const int kept_errno = errno;
  const Lock lock;
  const bool inherited = context != kNoBox && !is_context_of(plugin.box, context);  // from before a fork
  if (plugin.communicators == 0 || inherited) {
    return;
  }
  --plugin.communicators;
  Box* box = active_box();
  if (box == nullptr) {
    return;
  }
  if (Communicator* communicator = communicator_of(*box, context)) {
    end_communicator(*communicator);
    abandon(*box, serial_of(context));
  }
  store(box->header->open_communicators, plugin.communicators);
  if (plugin.communicators == 0) {
    plugin.active.store(nullptr, std::memory_order_release);
    stop_heartbeat();
    close_box(*box);
    forget_transfers();
    forget_connections();
  }
  errno = kept_errno;
}

}  // namespace stalltrace::plugin
