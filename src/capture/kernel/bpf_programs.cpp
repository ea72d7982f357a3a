// SPDX-License-Identifier: Apache-2.0
#include "capture/kernel/bpf_programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "base/file.h"
#include "base/handle.h"
#include "base/memory/own_memory.h"
#include "base/process/procfs.h"
#include "base/process/resource_limits.h"
#include "capture/call_table.h"
#include "capture/kernel/jiffies.h"
#include "capture/kernel/kernel_types.h"
#include "capture/kernel/loader.h"
#include "capture/kernel/perf_uprobe.h"
#include "capture/kernel/task_iterator.h"
#include "capture/kernel/uprobe_multi.h"
#include "wire/python.h"
#include "wire/user_share.h"

namespace stalltrace::capture {
namespace {

constexpr size_t kRecordsARound = 100'000;
constexpr int kWatchRounds = 50;
constexpr useconds_t kRefillUs = 500;

using RingHandle = std::unique_ptr<ring_buffer, Free<ring_buffer__free>>;
/// The attach cookie: what the programs learn about the probe that called them.
uint64_t cookie_of(const ProbePoint& point) { return point.row | (point.int_handles ? ST_COOKIE_INT_HANDLES : 0); }

/// Whether a process still runs: it exists and is not a zombie.
bool is_running(pid_t pid) {
  const auto stat = read_file("/proc/" + std::to_string(pid) + "/stat", 4096);
  const size_t name_end = stat ? stat->rfind(')') : std::string::npos;
  if (name_end == std::string::npos || name_end + 2 >= stat->size()) {
    return false;
  }
  const char state = (*stat)[name_end + 2];
  return state != 'Z' && state != 'X';
}

}  // namespace

struct BpfPrograms::Object {
  SkeletonHandle skeleton;
  std::vector<ProgramReport> reports;
  std::vector<LinkHandle> hooks;
  std::map<BpfPrograms::ProbeSet, std::vector<UniqueFd>> probes;
  size_t probe_sets = 0;  // that there ever were
  std::vector<RingHandle> rings;

  ProbeSet keep(std::vector<UniqueFd> more) {
    const ProbeSet set{probe_sets++};
    probes.emplace(set, std::move(more));
    return set;
  }

  [[nodiscard]] bpf_program* program(const char* name) const {
    return bpf_object__find_program_by_name(skeleton->obj, name);
  }
  /// The entry program that this kernel accepted.
  [[nodiscard]] const bpf_program* call_entry() const {
    const auto& programs = skeleton->progs;
    return bpf_program__fd(programs.call_entry) >= 0 ? programs.call_entry : programs.call_entry_without_atomic_fetch;
  }
  [[nodiscard]] const bpf_program* call_program(st_call_program slot) const {
    switch (slot) {
      case ST_CALL_PROGRAM_RETURN:
        return skeleton->progs.call_return;
      case ST_CALL_PROGRAM_PYTHON:
        return skeleton->progs.python_raised;
      default:
        return call_entry();
    }
  }
};

BpfPrograms::BpfPrograms() : object_(std::make_unique<Object>()) {}
BpfPrograms::~BpfPrograms() = default;

Result<std::unique_ptr<BpfPrograms>> BpfPrograms::load(const KernelOptions& options) {
  if (!Procfs().in_first_pid_namespace()) {
    return fail("processes have other numbers here than in the kernel: this is a pid namespace of its own",
                "trace from the host, or give the container the host's processes (--pid=host; hostPID: true)",
                ErrorKind::kUnsupported);
  }
  raise_limits();  // of open files: each perf event is one
  std::unique_ptr<BpfPrograms> kernel;
  {
    ST_ASSIGN(const KernelTypes types, KernelTypes::read());
    for (Refusals refused;;) {
      kernel.reset(new BpfPrograms());
      ST_ASSIGN(LoadedPrograms loaded, load_programs(types, options, refused));
      kernel->object_->skeleton = std::move(loaded.skeleton);
      kernel->object_->reports = std::move(loaded.reports);
      kernel->features_ = loaded.features;
      kernel->evidence_ = std::move(loaded.evidence);
      kernel->drop_reasons_ = std::move(loaded.drop_reasons);
      Refusals not_attached = kernel->attach_hooks();
      if (not_attached.empty()) {
        break;
      }
      refused.merge(not_attached);  // another round, in which other programs may give that evidence
    }
  }
  forget_start_up();  // the kernel's types, which we and libbpf read, are some MiB each: before the rings are mapped
  ST_TRY(kernel->fill_call_programs());
  ST_TRY(kernel->open_rings());
  const int read_jiffies = bpf_program__fd(kernel->object_->skeleton->progs.read_jiffies);
  if (read_jiffies >= 0) {
    kernel->ticks_per_second_ = measure_ticks_per_second(read_jiffies).value_or(kernel->ticks_per_second_);
  }
  return kernel;
}

/// Attaches the programs that are neither file probes nor iterators. Returns those that can't be attached.
Refusals BpfPrograms::attach_hooks() {
  constexpr std::array kNotAttachedHere{EvidenceKind::kCalls, EvidenceKind::kTransferMarks,
                                        EvidenceKind::kOpenConnections, EvidenceKind::kThreadListing,
                                        EvidenceKind::kPythonExceptions};
  Refusals refused;
  for (const EvidenceChoice& choice : evidence_) {
    if (std::find(kNotAttachedHere.begin(), kNotAttachedHere.end(), choice.kind) != kNotAttachedHere.end()) {
      continue;
    }
    for (const char* name : choice.programs) {
      LinkHandle link(bpf_program__attach(object_->program(name)));
      if (!link) {
        refused[name] = std::string("attach: ") + strerror(errno);
        continue;
      }
      object_->hooks.push_back(std::move(link));
    }
  }
  return refused;
}

/// Where probes have no cookies: fills the table of programs that their small programs tail-call.
Status BpfPrograms::fill_call_programs() {
  if (features_.attach_cookie) {
    return {};
  }
  const int map = bpf_map__fd(object_->skeleton->maps.call_programs);
  for (uint32_t slot = 0; slot < ST_CALL_PROGRAMS; ++slot) {
    const int fd = bpf_program__fd(object_->call_program(static_cast<st_call_program>(slot)));
    if (fd >= 0 && bpf_map_update_elem(map, &slot, &fd, BPF_ANY) != 0) {
      return fail_errno("link the programs of calls", errno);
    }
  }
  return {};
}

const std::vector<ProgramReport>& BpfPrograms::program_reports() const { return object_->reports; }
size_t BpfPrograms::probe_descriptors() const {
  size_t count = 0;
  for (const auto& [set, probes] : object_->probes) {
    count += probes.size();
  }
  return count;
}

Status BpfPrograms::open_rings() {
  const auto deliver = [](void* context, void* data, size_t size) {
    auto* kernel = static_cast<BpfPrograms*>(context);
    (*kernel->visitor_)({static_cast<const std::byte*>(data), size});
    return --kernel->budget_ > 0 ? 0 : -ENOBUFS;  // an error ends the round after this record
  };
  const auto& maps = object_->skeleton->maps;
  const uint32_t others = ST_OTHER_USERS;
  const st_user none{};
  if (bpf_map_update_elem(bpf_map__fd(maps.users), &others, &none, BPF_ANY) != 0) {
    return fail_errno("prepare the users' shares", errno);
  }
  for (const bpf_map* map : {maps.collective_ring, maps.network_ring, maps.scheduler_ring}) {
    RingHandle ring(ring_buffer__new(bpf_map__fd(map), deliver, this, nullptr));
    if (!ring) {
      return fail_errno("open the rings", errno);
    }
    object_->rings.push_back(std::move(ring));
  }
  return {};
}

/// One probe as a perf event.
Result<UniqueFd> BpfPrograms::probe(const std::string& path, const UprobeLocation& location, st_call_program slot,
                                    uint64_t cookie) {
  const auto& skeleton = *object_->skeleton;
  if (features_.attach_cookie) {
    return open_perf_uprobe(bpf_program__fd(object_->call_program(slot)), path, location, cookie);
  }
  ST_ASSIGN(const UniqueFd program, load_cookie_program(bpf_map__fd(skeleton.maps.call_cookie),
                                                        bpf_map__fd(skeleton.maps.call_programs), slot, cookie));
  return open_perf_uprobe(program.get(), path, location, std::nullopt);
}

Result<BpfPrograms::ProbeSet> BpfPrograms::attach_file(const std::string& path, std::span<const ProbePoint> points) {
  std::vector<ProbePoint> returning(points.begin(), points.end());
  std::erase_if(returning, [](const ProbePoint& point) { return call_table()[point.row].spec.entry_only != 0; });
  std::vector<UniqueFd> probes;  // all or none: after a retry, half of them would fire twice
  for (const bool at_return : {true, false}) {
    const std::span<const ProbePoint> at = at_return ? std::span<const ProbePoint>(returning) : points;
    if (at.empty()) {
      continue;
    }
    if (features_.uprobe_multi) {
      std::vector<uint64_t> offsets;
      std::vector<uint64_t> cookies;
      for (const ProbePoint& point : at) {
        offsets.push_back(point.offset);
        cookies.push_back(cookie_of(point));
      }
      const bpf_program* program = at_return ? object_->skeleton->progs.call_return : object_->call_entry();
      ST_ASSIGN(UniqueFd link, link_uprobe_multi(bpf_program__fd(program), path, offsets, cookies, at_return));
      probes.push_back(std::move(link));
      continue;
    }
    for (const ProbePoint& point : at) {
      ST_ASSIGN(UniqueFd link, probe(path, {.offset = point.offset, .at_return = at_return},
                                     at_return ? ST_CALL_PROGRAM_RETURN : ST_CALL_PROGRAM_ENTRY, cookie_of(point)));
      probes.push_back(std::move(link));
    }
  }
  return object_->keep(std::move(probes));
}

Result<BpfPrograms::ProbeSet> BpfPrograms::attach_python(const std::string& path, std::span<const PythonPoint> points) {
  const int program = bpf_program__fd(object_->skeleton->progs.python_raised);
  std::vector<UniqueFd> probes;
  if (program < 0) {
    return object_->keep(std::move(probes));
  }
  std::vector<uint64_t> offsets;
  std::vector<uint64_t> cookies;
  for (const PythonPoint& point : points) {
    offsets.push_back(point.offset);
    cookies.push_back(point.function | uint64_t{point.minor} << ST_PYTHON_VERSION_SHIFT |
                      uint64_t{static_cast<uint32_t>(point.runtime_distance)} << ST_PYTHON_RUNTIME_SHIFT);
  }
  if (features_.uprobe_multi) {
    ST_ASSIGN(UniqueFd link, link_uprobe_multi(program, path, offsets, cookies, false));
    probes.push_back(std::move(link));
    return object_->keep(std::move(probes));
  }
  for (size_t i = 0; i < points.size(); ++i) {
    ST_ASSIGN(UniqueFd link, probe(path, {.offset = offsets[i]}, ST_CALL_PROGRAM_PYTHON, cookies[i]));
    probes.push_back(std::move(link));
  }
  return object_->keep(std::move(probes));
}

void BpfPrograms::detach(ProbeSet probes) { object_->probes.erase(probes); }

Result<BpfPrograms::ProbeSet> BpfPrograms::attach_marker(const std::string& path, const MarkerPoint& marker) {
  const int program = bpf_program__fd(object_->skeleton->progs.step_moved);
  if (program < 0) {
    return object_->keep({});
  }
  UniqueFd link;
  if (features_.uprobe_multi) {
    const uint64_t cookie = 0;
    ST_ASSIGN(link, link_uprobe_multi(program, path, std::span(&marker.function_offset, 1), std::span(&cookie, 1),
                                      false, std::span(&marker.semaphore_offset, 1)));
  } else {
    const UprobeLocation location{.offset = marker.function_offset, .semaphore_offset = marker.semaphore_offset};
    ST_ASSIGN(link, open_perf_uprobe(program, path, location, std::nullopt));
  }
  object_->skeleton->bss->markers_probed = 1;
  std::vector<UniqueFd> probes;
  probes.push_back(std::move(link));
  return object_->keep(std::move(probes));
}

Status BpfPrograms::add_process(pid_t pid, uint64_t cgroup_id) {
  st_process process{};
  process.cgroup_id = cgroup_id;
  const auto& maps = object_->skeleton->maps;
  const auto failed = [&](int error) { return fail_errno("trace process " + std::to_string(pid), error); };
  if (!features_.task_storage) {
    const int map = bpf_map__fd(maps.processes_by_tgid);
    const auto number = static_cast<uint32_t>(pid);
    if (bpf_map_update_elem(map, &number, &process, BPF_NOEXIST) != 0 && errno != EEXIST) {
      return failed(errno);
    }
    if (!is_running(pid)) {  // its end has been handled: the entry would be taken for the next process with that pid
      bpf_map_delete_elem(map, &number);
      return {};
    }
    return watch_threads(pid);
  }
  const UniqueFd process_fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process_fd) {
    return errno == ESRCH ? Status{} : failed(errno);
  }
  const int key = process_fd.get();
  const int map = bpf_map__fd(maps.processes);
  int error = EAGAIN;  // the kernel's answer where a probe is creating the same storage at this moment
  for (int round = 0; round < kWatchRounds && (error == EAGAIN || error == EBUSY || error == ENOMEM); ++round) {
    if (round > 0) {
      ::usleep(kRefillUs);
    }
    error = bpf_map_update_elem(map, &key, &process, BPF_NOEXIST) == 0 ? 0 : errno;
  }
  if (error != 0 && error != EEXIST && error != ESRCH) {
    return failed(error);
  }
  return watch_threads(pid);
}

/// Begins to watch a process's threads. The kernel keeps memory for a few states ready and refills it at once.
Status BpfPrograms::watch_threads(pid_t pid) {
  if (bpf_program__fd(object_->skeleton->progs.list_threads) < 0) {
    return {};
  }
  for (int round = 0; round < kWatchRounds; ++round) {
    size_t unwatched = 0;
    ST_TRY(visit_tasks(
        object_->skeleton->progs.list_threads, "watch threads", {pid},
        std::function([&](const st_thread_listing& thread) { unwatched += thread.off_kind == ST_THREAD_UNWATCHED; })));
    if (unwatched == 0) {
      return {};
    }
    ::usleep(kRefillUs);
  }
  return fail("watch the threads of process " + std::to_string(pid) + ": no kernel memory for their states");
}

Status BpfPrograms::list_process(pid_t pid) {
  const auto key = static_cast<uint32_t>(pid);
  const uint8_t one = 1;
  if (bpf_map_update_elem(bpf_map__fd(object_->skeleton->maps.scope), &key, &one, BPF_ANY) != 0) {
    return fail_errno("list process " + std::to_string(pid), errno);
  }
  return {};
}

bool BpfPrograms::is_listed(pid_t pid) const {
  const auto key = static_cast<uint32_t>(pid);
  uint8_t value = 0;
  return bpf_map_lookup_elem(bpf_map__fd(object_->skeleton->maps.scope), &key, &value) == 0;
}

void BpfPrograms::consume(const RecordVisitor& visit) {
  visitor_ = &visit;
  for (const RingHandle& ring : object_->rings) {
    budget_ = kRecordsARound;
    ring_buffer__consume(ring.get());
  }
  visitor_ = nullptr;
}

std::vector<int> BpfPrograms::descriptors() const {
  std::vector<int> descriptors;
  for (const RingHandle& ring : object_->rings) {
    descriptors.push_back(ring_buffer__epoll_fd(ring.get()));
  }
  return descriptors;
}

void BpfPrograms::remove_sequences_of_the_gone() {
  constexpr uint32_t kAtOnce = 4096;
  const auto& maps = object_->skeleton->maps;
  const int map = bpf_map__fd(maps.sequences);
  std::vector<st_sequence_key> keys(kAtOnce);
  std::vector<st_sequence> values(kAtOnce);
  std::map<uint32_t, bool> gone;  // by process
  std::vector<std::pair<st_sequence_key, uint32_t>> left;
  uint32_t location = 0;
  LIBBPF_OPTS(bpf_map_batch_opts, options);
  for (bool first = true, more = true; more; first = false) {
    uint32_t count = kAtOnce;
    more = bpf_map_lookup_batch(map, first ? nullptr : &location, &location, keys.data(), values.data(), &count,
                                &options) == 0;
    if (!more && errno != ENOENT) {
      return;
    }
    for (uint32_t i = 0; i < count; ++i) {
      const auto [known, fresh] = gone.try_emplace(keys[i].tgid, false);
      if (fresh) {
        known->second = ::kill(static_cast<pid_t>(keys[i].tgid), 0) != 0 && errno == ESRCH;
      }
      if (known->second) {
        left.emplace_back(keys[i], values[i].user);
      }
    }
  }
  std::map<uint32_t, uint64_t> removed;
  for (const auto& [key, user] : left) {
    removed[user] += bpf_map_delete_elem(map, &key) == 0;
  }
  const int counts = bpf_map__fd(maps.removed_sequences);
  for (const auto& [user, count] : removed) {
    uint64_t sum = 0;
    (void)bpf_map_lookup_elem(counts, &user, &sum);  // stays 0 for a user's first
    sum += count;
    (void)bpf_map_update_elem(counts, &user, &sum, BPF_ANY);
  }
}

Status BpfPrograms::list_sockets(const std::set<pid_t>& pids, uint64_t idle_before_ns,
                                 const std::function<void(const st_socket_listing&)>& visit) {
  if (bpf_program__fd(object_->skeleton->progs.list_sockets) < 0) {
    return {};
  }
  object_->skeleton->bss->idle_before_ns = idle_before_ns;
  return visit_tasks(object_->skeleton->progs.list_sockets, "list sockets", pids, visit);
}

Status BpfPrograms::list_threads(const std::set<pid_t>& pids,
                                 const std::function<void(const st_thread_listing&)>& visit) {
  if (bpf_program__fd(object_->skeleton->progs.list_threads) < 0) {
    return {};
  }
  return visit_tasks(object_->skeleton->progs.list_threads, "list threads", pids,
                     std::function([&](const st_thread_listing& thread) {
                       if (thread.off_kind != ST_THREAD_UNWATCHED) {
                         visit(thread);
                       }
                     }));
}

bool BpfPrograms::walks_all_tasks() const { return object_->skeleton->rodata->config.walks_all_tasks != 0; }

void BpfPrograms::take_drops(
    const std::function<void(const st_drop_key& key, const st_drops& sum, const std::string& reason)>& visit) {
  ++object_->skeleton->bss->drops_round;
  const int map = bpf_map__fd(object_->skeleton->maps.drops);
  std::vector<st_drop_key> keys;
  st_drop_key key{};
  for (bool more = bpf_map_get_next_key(map, nullptr, &key) == 0; more;
       more = bpf_map_get_next_key(map, &key, &key) == 0) {
    keys.push_back(key);
  }
  for (const st_drop_key& counted : keys) {
    st_drops sum{};
    if (counted.reason < drop_reasons_.size() && bpf_map_lookup_and_delete_elem(map, &counted, &sum) == 0) {
      visit(counted, sum, drop_reasons_[counted.reason]);
    }
  }
}

std::vector<uint64_t> BpfPrograms::losses() const {
  const int map = bpf_map__fd(object_->skeleton->maps.losses);
  const int cpus = libbpf_num_possible_cpus();
  std::vector<uint64_t> per_cpu(cpus > 0 ? static_cast<size_t>(cpus) : 1);
  std::vector<uint64_t> result(ST_LOSS_COUNT);
  for (uint32_t source = 0; source < ST_LOSS_COUNT; ++source) {
    if (bpf_map_lookup_elem(map, &source, per_cpu.data()) == 0) {
      for (const uint64_t count : per_cpu) {
        result[source] += count;
      }
    }
  }
  return result;
}

std::vector<BpfPrograms::UsersLoss> BpfPrograms::users_losses() const {
  const int map = bpf_map__fd(object_->skeleton->maps.users);
  std::vector<UsersLoss> losses;
  uint32_t user = 0;
  for (bool more = bpf_map_get_next_key(map, nullptr, &user) == 0; more;
       more = bpf_map_get_next_key(map, &user, &user) == 0) {
    st_user share{};
    if (bpf_map_lookup_elem(map, &user, &share) != 0) {
      continue;
    }
    for (size_t source = 0; source < ST_SHARED_LOSSES; ++source) {
      if (share.lost[source] > 0) {
        losses.push_back({user, source, share.lost[source]});
      }
    }
  }
  return losses;
}

}  // namespace stalltrace::capture
