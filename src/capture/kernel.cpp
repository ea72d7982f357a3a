// SPDX-License-Identifier: Apache-2.0
#include "capture/kernel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <iterator>

#include "base/clock.h"
#include "base/handle.h"
#include "capture/drop_reasons.h"
#include "capture/jiffies.h"
#include "capture/kernel_types.h"
#include "capture/procfs.h"
#include "capture/task_iterator.h"
#include "capture/uprobe_multi.h"
#include "wire/config.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wconversion"
#include "stalltrace.skel.h"
#pragma GCC diagnostic pop

namespace stalltrace::capture {
namespace {

constexpr std::string_view kPrivilegeRemedy = "run as root, or grant CAP_BPF and CAP_PERFMON";
constexpr std::string_view kPerfProbeRemedy = "perf uprobes need CAP_SYS_ADMIN on this kernel: run as root";
constexpr size_t kRecordsARound = 100'000;
constexpr int kWatchRounds = 50;
constexpr useconds_t kRefillUs = 500;

using RingHandle = std::unique_ptr<ring_buffer, Free<ring_buffer__free>>;
using SkeletonHandle = std::unique_ptr<stalltrace_bpf, Free<stalltrace_bpf__destroy>>;

/// A tracepoint program: which kernel tracepoint it needs, and what the recording lacks without it.
struct Tracepoint {
  const char* program;
  const char* tracepoint;
  const char* without;
  const char* needs = nullptr;  // an enumeration that came with its arguments
};
constexpr std::array kTracepoints{
    Tracepoint{"sched_switch", "sched_switch", "waiting times of threads"},
    Tracepoint{"sched_process_exit", "sched_process_exit", "exits of processes"},
    Tracepoint{"sched_process_fork", "sched_process_fork",
               "threads that a process starts later, children of listed processes"},
    Tracepoint{"sock_send_length", "sock_send_length", "send spans and owners of sockets (Linux 6.3)"},
    Tracepoint{"sock_recv_length", "sock_recv_length", "receive spans and owners of sockets (Linux 6.3)"},
    Tracepoint{"tcp_retransmit_skb", "tcp_retransmit_skb", "retransmits"},
    Tracepoint{"tcp_cong_state_set", "tcp_cong_state_set", "congestion states (Linux 5.16)"},
    Tracepoint{"tcp_send_reset", "tcp_send_reset", "resets sent"},
    Tracepoint{"tcp_receive_reset", "tcp_receive_reset", "resets received"},
    Tracepoint{"inet_sk_error_report", "inet_sk_error_report", "socket errors (Linux 5.15)"},
    Tracepoint{"inet_sock_set_state", "inet_sock_set_state", "connects and closes"},
    Tracepoint{"kfree_skb", "kfree_skb", "packets that the host dropped (Linux 5.17)", "skb_drop_reason"},
    Tracepoint{"mark_victim", "mark_victim", "which processes were killed for want of memory"},
};

int silent(enum libbpf_print_level, const char*, va_list) { return 0; }

/// What the programs learn of the probe that called them.
uint64_t cookie_of(const ProbePoint& point) { return point.row | (point.int_handles ? ST_COOKIE_INT_HANDLES : 0); }

Status load_failure(int error) {
  const std::string what = "load the BPF programs: " + std::string(strerror(-error));
  if (error == -EPERM || error == -EACCES) {
    return fail(what, std::string(kPrivilegeRemedy), ErrorKind::kNoPrivilege);
  }
  return fail(what, "run 'stalltrace check' to see what this kernel lacks", ErrorKind::kUnsupported);
}

}  // namespace

struct Kernel::Object {
  SkeletonHandle skeleton;
  std::vector<LinkHandle> links;
  std::vector<UniqueFd> multi_links;
  std::vector<RingHandle> rings;
};

Kernel::Kernel() : object_(std::make_unique<Object>()) {}
Kernel::~Kernel() = default;

Result<std::unique_ptr<Kernel>> Kernel::load(const KernelOptions& options) {
  if (!Procfs().in_first_pid_namespace()) {
    return fail("processes have other numbers here than the kernel tells: this is a pid namespace of its own",
                "trace from the host, or give the container the host's processes (--pid=host; hostPID: true)",
                ErrorKind::kUnsupported);
  }
  libbpf_set_print(silent);
  std::unique_ptr<Kernel> kernel(new Kernel());
  ST_TRY(kernel->open_object(options));
  ST_TRY(kernel->attach_tracepoints(options));
  ST_TRY(kernel->open_rings());
  const int read_jiffies = bpf_program__fd(kernel->object_->skeleton->progs.read_jiffies);
  kernel->ticks_per_second_ = measure_ticks_per_second(read_jiffies).value_or(kernel->ticks_per_second_);
  return kernel;
}

Status Kernel::open_object(const KernelOptions& options) {
  ST_ASSIGN(const KernelTypes types, KernelTypes::read());
  const std::string btf_path = kernel_btf_path();
  LIBBPF_OPTS(bpf_object_open_opts, open_options, .btf_custom_path = btf_path.c_str());
  object_->skeleton.reset(stalltrace_bpf__open_opts(&open_options));
  if (!object_->skeleton) {
    return load_failure(-errno);
  }
  stalltrace_bpf& skeleton = *object_->skeleton;
  probe_link_ = !options.force_perf_events && has_uprobe_multi() ? ProbeLink::kUprobeMulti : ProbeLink::kPerfEvent;
  if (probe_link_ == ProbeLink::kUprobeMulti) {
    bpf_program__set_expected_attach_type(skeleton.progs.call_entry, kTraceUprobeMulti);
    bpf_program__set_expected_attach_type(skeleton.progs.call_return, kTraceUprobeMulti);
    bpf_program__set_expected_attach_type(skeleton.progs.step_moved, kTraceUprobeMulti);
  }
  st_config config{};
  config.only_netns = options.only_netns;
  config.only_listed = options.only_listed;
  config.span_gap_ns = 1 * kNsPerMs;
  config.span_max_ns = 100 * kNsPerMs;
  config.sample_gap_ns = 100 * kNsPerMs;
  config.long_wait_ns = 5 * kNsPerMs;
  config.window_ns = 100 * kNsPerMs;
  config.window_min_ns = 1 * kNsPerMs;
  config.wake_bytes = 512 << 10;
  config.self_tgid = static_cast<uint32_t>(getpid());
  std::memcpy(const_cast<st_config*>(reinterpret_cast<const volatile st_config*>(&skeleton.rodata->config)), &config,
              sizeof config);
  auto* specs = reinterpret_cast<st_call_spec*>(&skeleton.rodata->calls);
  for (size_t row = 0; row < call_table().size(); ++row) {
    specs[row] = call_table()[row].spec;
  }
  for (const Tracepoint& point : kTracepoints) {
    if (!types.has_tracepoint(point.tracepoint) || (point.needs && !types.has_enum(point.needs))) {
      missing_.push_back(std::string("tracepoint ") + point.tracepoint + ": no " + point.without);
      bpf_program__set_autoload(bpf_object__find_program_by_name(skeleton.obj, point.program), false);
    }
  }
  choose_drop_reasons(types);
  if (!types.has_sched_info()) {
    missing_.emplace_back("CONFIG_SCHED_INFO: time that a thread waits for a CPU after its wake-up counts as blocked");
  }
  if (const int error = stalltrace_bpf__load(&skeleton); error != 0) {
    return load_failure(error);
  }
  return {};
}

Status Kernel::attach_tracepoints(const KernelOptions&) {
  for (const Tracepoint& point : kTracepoints) {
    bpf_program* program = bpf_object__find_program_by_name(object_->skeleton->obj, point.program);
    if (!program || bpf_program__fd(program) < 0) {
      continue;
    }
    LinkHandle link(bpf_program__attach(program));
    if (!link) {
      return fail_errno(std::string("attach tracepoint ") + point.tracepoint, errno, std::string(kPrivilegeRemedy));
    }
    object_->links.push_back(std::move(link));
  }
  return {};
}

Status Kernel::open_rings() {
  const auto deliver = [](void* context, void* data, size_t size) {
    auto* kernel = static_cast<Kernel*>(context);
    (*kernel->visitor_)({static_cast<const std::byte*>(data), size});
    return --kernel->budget_ > 0 ? 0 : -ENOBUFS;  // an error ends the round behind this record
  };
  const auto& maps = object_->skeleton->maps;
  for (const bpf_map* map : {maps.collective_ring, maps.network_ring, maps.scheduler_ring}) {
    RingHandle ring(ring_buffer__new(bpf_map__fd(map), deliver, this, nullptr));
    if (!ring) {
      return fail_errno("open the rings", errno);
    }
    object_->rings.push_back(std::move(ring));
  }
  return {};
}

/// This kernel's numbers of the reasons that are told.
void Kernel::choose_drop_reasons(const KernelTypes& types) {
  auto* told = reinterpret_cast<uint8_t*>(
      const_cast<__u8*>(reinterpret_cast<const volatile __u8*>(&object_->skeleton->rodata->told_drop_reasons)));
  for (const auto& [number, name] : types.values_of_enum("skb_drop_reason")) {
    const std::string_view reason =
        name.starts_with(kDropReasonPrefix) ? name.substr(kDropReasonPrefix.size()) : std::string_view();
    if (number < ST_DROP_REASONS && is_told_drop_reason(reason)) {
      drop_reasons_.resize(ST_DROP_REASONS);
      drop_reasons_[number] = reason;
      told[number] = 1;
    }
  }
}

Status Kernel::attach_file(const std::string& path, std::span<const ProbePoint> points) {
  const auto& programs = object_->skeleton->progs;
  std::vector<ProbePoint> returning(points.begin(), points.end());
  std::erase_if(returning, [](const ProbePoint& point) { return call_table()[point.row].spec.entry_only != 0; });
  if (probe_link_ == ProbeLink::kUprobeMulti) {
    const auto link = [&](const bpf_program* program, bool at_return, std::span<const ProbePoint> at) {
      std::vector<uint64_t> offsets;
      std::vector<uint64_t> cookies;
      for (const ProbePoint& point : at) {
        offsets.push_back(point.offset);
        cookies.push_back(cookie_of(point));
      }
      return link_uprobe_multi(bpf_program__fd(program), path, offsets, cookies, at_return);
    };
    UniqueFd at_return;
    if (!returning.empty()) {
      ST_ASSIGN(at_return, link(programs.call_return, true, returning));
    }
    ST_ASSIGN(UniqueFd at_entry, link(programs.call_entry, false, points));
    object_->multi_links.push_back(std::move(at_return));
    object_->multi_links.push_back(std::move(at_entry));
    return {};
  }
  std::vector<LinkHandle> links;  // all or none: half a file's probes would fire twice when it is tried again
  for (const bool at_return : {true, false}) {
    for (const ProbePoint& point : at_return ? std::span<const ProbePoint>(returning) : points) {
      LIBBPF_OPTS(bpf_uprobe_opts, options, .bpf_cookie = cookie_of(point), .retprobe = at_return);
      LinkHandle link(bpf_program__attach_uprobe_opts(at_return ? programs.call_return : programs.call_entry, -1,
                                                      path.c_str(), point.offset, &options));
      if (!link) {
        return fail_errno("attach " + std::string(call_table()[point.row].symbol) + " in " + path, errno,
                          std::string(kPerfProbeRemedy));
      }
      links.push_back(std::move(link));
    }
  }
  std::move(links.begin(), links.end(), std::back_inserter(object_->links));
  return {};
}

Status Kernel::attach_marker(const std::string& path, const MarkerPoint& marker) {
  const bpf_program* program = object_->skeleton->progs.step_moved;
  if (probe_link_ == ProbeLink::kUprobeMulti) {
    const uint64_t cookie = 0;
    ST_ASSIGN(UniqueFd link, link_uprobe_multi(bpf_program__fd(program), path, std::span(&marker.function_offset, 1),
                                               std::span(&cookie, 1), false, std::span(&marker.semaphore_offset, 1)));
    object_->multi_links.push_back(std::move(link));
  } else {
    LIBBPF_OPTS(bpf_uprobe_opts, options, .ref_ctr_offset = marker.semaphore_offset);
    LinkHandle link(bpf_program__attach_uprobe_opts(program, -1, path.c_str(), marker.function_offset, &options));
    if (!link) {
      return fail_errno("attach the marker in " + path, errno, std::string(kPerfProbeRemedy));
    }
    object_->links.push_back(std::move(link));
  }
  object_->skeleton->bss->markers_probed = 1;
  return {};
}

Status Kernel::add_process(pid_t pid, uint64_t cgroup_id) {
  const UniqueFd process_fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process_fd) {
    return errno == ESRCH ? Status{} : fail_errno("trace process " + std::to_string(pid), errno);
  }
  const int key = process_fd.get();
  st_process process{};
  process.cgroup_id = cgroup_id;
  const int map = bpf_map__fd(object_->skeleton->maps.processes);
  int error = EAGAIN;  // as the kernel says where a probe makes the same storage this moment
  for (int round = 0; round < kWatchRounds && (error == EAGAIN || error == EBUSY || error == ENOMEM); ++round) {
    if (round > 0) {
      ::usleep(kRefillUs);
    }
    error = bpf_map_update_elem(map, &key, &process, BPF_NOEXIST) == 0 ? 0 : errno;
  }
  if (error != 0 && error != EEXIST && error != ESRCH) {
    return fail_errno("trace process " + std::to_string(pid), error);
  }
  return watch_threads(pid);
}

/// Begins to watch the threads that a process has. Memory for their states comes in small portions, refilled at once.
Status Kernel::watch_threads(pid_t pid) {
  for (int round = 0; round < kWatchRounds; ++round) {
    size_t unwatched = 0;
    ST_TRY(visit_task(
        object_->skeleton->progs.list_threads, "watch threads", pid,
        std::function([&](const st_thread_listing& thread) { unwatched += thread.off_kind == ST_THREAD_UNWATCHED; })));
    if (unwatched == 0) {
      return {};
    }
    ::usleep(kRefillUs);
  }
  return fail("watch the threads of process " + std::to_string(pid) + ": no kernel memory for their states");
}

Status Kernel::list_process(pid_t pid) {
  const auto key = static_cast<uint32_t>(pid);
  const uint8_t one = 1;
  if (bpf_map_update_elem(bpf_map__fd(object_->skeleton->maps.scope), &key, &one, BPF_ANY) != 0) {
    return fail_errno("list process " + std::to_string(pid), errno);
  }
  return {};
}

bool Kernel::is_listed(pid_t pid) const {
  const auto key = static_cast<uint32_t>(pid);
  uint8_t value = 0;
  return bpf_map_lookup_elem(bpf_map__fd(object_->skeleton->maps.scope), &key, &value) == 0;
}

void Kernel::consume(const RecordVisitor& visit) {
  visitor_ = &visit;
  for (const RingHandle& ring : object_->rings) {
    budget_ = kRecordsARound;
    ring_buffer__consume(ring.get());
  }
  visitor_ = nullptr;
}

std::vector<int> Kernel::descriptors() const {
  std::vector<int> descriptors;
  for (const RingHandle& ring : object_->rings) {
    descriptors.push_back(ring_buffer__epoll_fd(ring.get()));
  }
  return descriptors;
}

void Kernel::forget_sequences(pid_t pid) {
  const int map = bpf_map__fd(object_->skeleton->maps.sequences);
  std::vector<st_sequence_key> gone;
  st_sequence_key key{};
  for (bool more = bpf_map_get_next_key(map, nullptr, &key) == 0; more;
       more = bpf_map_get_next_key(map, &key, &key) == 0) {
    if (key.tgid == static_cast<uint32_t>(pid)) {
      gone.push_back(key);
    }
  }
  for (const st_sequence_key& old : gone) {
    bpf_map_delete_elem(map, &old);
  }
}

Status Kernel::list_sockets(pid_t pid, uint64_t idle_before_ns,
                            const std::function<void(const st_socket_listing&)>& visit) {
  object_->skeleton->bss->idle_before_ns = idle_before_ns;
  return visit_task(object_->skeleton->progs.list_sockets, "list sockets", pid, visit);
}

Status Kernel::list_threads(pid_t pid, const std::function<void(const st_thread_listing&)>& visit) {
  return visit_task(object_->skeleton->progs.list_threads, "list threads", pid,
                    std::function([&](const st_thread_listing& thread) {
                      if (thread.off_kind != ST_THREAD_UNWATCHED) {
                        visit(thread);
                      }
                    }));
}

void Kernel::take_drops(
    const std::function<void(const st_drop_key& key, const st_drops& sum, const std::string& reason)>& visit) {
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

std::vector<uint64_t> Kernel::losses() const {
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

}  // namespace stalltrace::capture
