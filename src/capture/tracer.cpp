// SPDX-License-Identifier: Apache-2.0
#include "capture/tracer.h"

#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/process/resource_limits.h"
#include "base/text.h"
#include "base/version.h"
#include "blackbox/follow/follower.h"
#include "blackbox/pairing/call_pairing.h"
#include "capture/decode/call_stacks.h"
#include "capture/decode/collective/collective_tracker.h"
#include "capture/decode/collective/requests_done.h"
#include "capture/decode/tcp/network_tracker.h"
#include "capture/decode/wait_decoder.h"
#include "capture/discover/identity.h"
#include "capture/discover/job_discovery.h"
#include "capture/discover/mapping_watch.h"
#include "capture/discover/mpi_world.h"
#include "capture/host/host_sampler.h"
#include "capture/kernel/kernel.h"

namespace stalltrace::capture {
namespace {

constexpr int64_t kPollNs = 100 * kNsPerMs;    // rings are read this often when nothing wakes us earlier
constexpr int64_t kSampleNs = 250 * kNsPerMs;  // silent connections are sampled this often
constexpr int64_t kFlushNs = 500 * kNsPerMs;   // events are written this often
constexpr int64_t kProgressNs = kNsPerSecond;
constexpr int64_t kScanNs = 2 * kNsPerSecond;   // a safety net under the mapping watch ...
constexpr int64_t kScanAloneNs = kNsPerSecond;  // ... or all there is where perf events are refused
constexpr int64_t kIdleSpanNs = 5 * kNsPerMs;
constexpr uint64_t kOpenWaitNs = 5 * kNsPerMs;    // a wait that has not ended is reported at the end of the trace ...
constexpr uint64_t kLongWaitNs = 500 * kNsPerMs;  // ... or, once, while it lasts

constexpr std::array<const char*, ST_LOSS_COUNT> kLossNames{"ring:collective", "ring:network", "ring:scheduler",
                                                            "state:thread",    "state:socket", "state:sequence",
                                                            "state:drops"};

uint64_t own_netns() {
  struct stat info {};
  return ::stat("/proc/self/ns/net", &info) == 0 ? info.st_ino : 0;
}

Node describe_node(const TracerOptions& options, std::span<const EvidenceChoice> evidence) {
  Node node;
  node.name = node_name(options.node_name);
  utsname system{};
  if (::uname(&system) == 0) {
    node.hostname = system.nodename;
    node.kernel = std::string(system.release) + " " + system.machine;
  }
  node.boot_id = trim(read_file("/proc/sys/kernel/random/boot_id", 64).value_or(""));
  node.clock_offset_ns = measure_utc_offset_ns();
  node.started_ns = monotonic_now_ns() + node.clock_offset_ns;
  node.agent_version = program_version();
  node.node_id = make_node_id(node.name, node.boot_id, node.started_ns);
  std::vector<EvidenceKind> missing;
  for (const EvidenceChoice& choice : evidence) {
    if (choice.state == EvidenceState::kMissing) {
      missing.push_back(choice.kind);
    }
  }
  node.missing_evidence = keys_of(missing);
  return node;
}

/// Copies a record of the expected type and size out of the ring's bytes.
template <typename Record>
bool take(std::span<const std::byte> bytes, Record& record) {
  if (bytes.size() < sizeof record) {
    return false;
  }
  std::memcpy(&record, bytes.data(), sizeof record);
  return true;
}

class HostTracer final : public Tracer {
 public:
  HostTracer(const TracerOptions& options, EventSink& sink, Note note, std::unique_ptr<BpfPrograms> kernel)
      : options_(options),
        sink_(sink),
        note_(std::move(note)),
        kernel_(std::move(kernel)),
        node_(describe_node(options, kernel_->evidence())),
        ids_(node_.node_id),
        processes_(sink),
        pairing_(ids_, sink),
        collectives_(ids_, processes_, pairing_, node_.clock_offset_ns),
        profiler_files_(node_, procfs_, file_scope_of(options), processes_, pairing_, sink,
                        [this](const std::string& text) { log_once(text); }),
        network_(
            ids_, processes_, sink, node_.clock_offset_ns, kernel_->ticks_per_second(),
            [this](int32_t pid, int32_t tid) { return procfs_.thread_name(pid, tid); },
            [this](int32_t pid, uint64_t hash) { return communicator_facts(pid, hash); }),
        stacks_(procfs_, sink),
        host_({.sys = options.sysfs_root}, node_.node_id, sink_),
        discovery_(
            *kernel_, procfs_, scope_of(options), [this](pid_t pid, Library library) { begin_process(pid, library); },
            [this](const std::string& text) { log_once(text); }) {}

  Status begin();
  Status run(const std::vector<int>& stop_descriptors, const Flush& flush, const Progress& progress) override;
  [[nodiscard]] TracerStats stats() const override;
  [[nodiscard]] const Node& node() const override { return node_; }
  [[nodiscard]] std::vector<std::string> missing_evidence() const override;

  static blackbox::ProfilerFileFinder::Scope file_scope_of(const TracerOptions& options) {
    return {.only_living = !options.pids.empty(), .only_netns = options.own_netns ? own_netns() : 0};
  }
  static JobDiscovery::Scope scope_of(const TracerOptions& options) {
    return {.only_netns = options.own_netns ? own_netns() : 0, .only_listed = !options.pids.empty()};
  }

 private:
  void log_once(const std::string& text) {
    if (reported_.insert(text).second) {
      note_(text);
    }
  }
  [[nodiscard]] CommunicatorInfo communicator_facts(int32_t pid, uint64_t nccl_comm_hash) const;
  Status list_descendants();
  void begin_process(pid_t pid, Library library);
  void end_process(const st_exit& record);
  void end_processes(const std::vector<st_exit>& records);
  void note_stack(const st_call_stack& record);
  void dispatch(std::span<const std::byte> record);
  void collect();
  void sample_sockets(const std::set<pid_t>& pids, int64_t idle_before_ns);
  void deliver_open_waits(uint64_t at_least_ns);
  void deliver_drops();
  void deliver_losses();
  void watch_descriptors();
  void deliver_rest();

  TracerOptions options_;
  EventSink& sink_;
  Note note_;
  std::unique_ptr<BpfPrograms> kernel_;
  Node node_;
  Procfs procfs_;
  EventIds ids_;
  ProcessRegistry processes_;
  blackbox::CallPairing pairing_;
  CollectiveTracker collectives_;
  blackbox::ProfilerFollower profiler_files_;
  NetworkTracker network_;
  CallStacks stacks_;
  HostSampler host_;
  JobDiscovery discovery_;
  std::unique_ptr<MappingWatch> mappings_;
  std::set<pid_t> alive_;
  std::vector<st_exit> exits_;                   // of processes whose last records may be in another ring yet
  std::map<uint32_t, uint64_t> reported_waits_;  // by thread: the start of the wait that was reported while it lasted
  std::set<std::string> reported_;
  uint64_t lost_mappings_ = 0;
  uint64_t scanned_lost_ = 0;  // lost_mappings_ at the last scan
  uint64_t malformed_ = 0;
  uint64_t lost_ = 0;
};

Status HostTracer::begin() {
  sink_.accept(node_);
  if (kernel_->counts_drops()) {
    host_.counts_drops();
  }
  for (const int32_t pid : options_.pids) {
    if (!procfs_.exists(pid)) {
      return fail("no process " + std::to_string(pid), "name a running process with --pid", ErrorKind::kNotFound);
    }
    ST_TRY(kernel_->list_process(pid));
  }
  ST_TRY(list_descendants());
  if (auto watch = MappingWatch::open()) {
    mappings_ = std::move(*watch);
  } else {
    log_once("new libraries are found by polling, a job's first calls may be missed: " + watch.error().what);
  }
  discovery_.scan(false);
  discovery_.attach_usual_libraries();
  for (const std::string& library : options_.libraries) {
    ST_TRY(discovery_.attach_library(library));
  }
  return {};
}

/// The hash of a communicator whose unique id the probes did not see comes from calls that were paired with the
/// profiler file's.
CommunicatorInfo HostTracer::communicator_facts(int32_t pid, uint64_t nccl_comm_hash) const {
  CommunicatorInfo facts{.hash = collectives_.comm_of_nccl_hash(pid, nccl_comm_hash),
                         .nodes = profiler_files_.nodes_of(pid, nccl_comm_hash)};
  if (const Communicator* known = pairing_.find(pid, nccl_comm_hash)) {
    facts.hash = facts.hash != 0 ? facts.hash : known->comm_id_hash;
    facts.is_part = known->parent_hash != 0 || known->split_color;
  }
  return facts;
}

/// Children that are there already; those to come are listed by the kernel side. A second walk that finds nothing new
/// leaves no gap between the two.
Status HostTracer::list_descendants() {
  if (options_.pids.empty()) {
    return {};
  }
  for (bool found = true; found;) {
    found = false;
    for (const pid_t pid : procfs_.pids()) {
      if (!kernel_->is_listed(pid) && kernel_->is_listed(procfs_.parent(pid))) {
        ST_TRY(kernel_->list_process(pid));
        found = true;
      }
    }
  }
  return {};
}

void HostTracer::begin_process(pid_t pid, Library library) {
  if (const Process* known = processes_.find(pid); known && known->exit_ns && !procfs_.exists(pid)) {
    return;  // the record of its end overtook that of its first call: they come by different rings
  }
  Process process = describe_process(procfs_, pid, node_.node_id, node_.clock_offset_ns);
  if (const Status status = kernel_->add_process(pid, process.cgroup_id); !status) {
    log_once(status.error().what);
  }
  const auto environment = procfs_.environment(pid);
  const uint64_t key = environment ? job_key(process.job_id, *environment) : 0;
  processes_.add(std::move(process));
  collectives_.set_library(pid, library);
  profiler_files_.add_process(pid);
  collectives_.set_job(pid, {key, mpi_world_handle(procfs_, pid)});
  alive_.insert(pid);
  sample_sockets({pid}, 0);
}

void HostTracer::end_process(const st_exit& record) {
  const auto pid = static_cast<pid_t>(record.header.tgid);
  if (!processes_.find(pid)) {
    discovery_.on_call(pid);
  }
  collectives_.on_exit(pid);
  network_.on_exit(pid);
  profiler_files_.end_process(pid);
  processes_.exited(pid, static_cast<int64_t>(record.header.time_ns) + node_.clock_offset_ns, record.exit_code);
  discovery_.on_exit(pid);
  stacks_.on_exit(pid);
  kernel_->forget_sequences(pid);
  alive_.erase(pid);
}

void HostTracer::end_processes(const std::vector<st_exit>& records) {
  for (const st_exit& record : records) {
    end_process(record);
  }
}

/// Not of a process whose end came first, by another ring: nothing would ever forget it.
void HostTracer::note_stack(const st_call_stack& record) {
  const Process* known = processes_.find(static_cast<pid_t>(record.header.tgid));
  if (!known || !known->exit_ns) {
    stacks_.note(record);
  }
}

void HostTracer::dispatch(std::span<const std::byte> bytes) {
  st_header header;
  if (!take(bytes, header) || header.version != ST_WIRE_VERSION || header.size > bytes.size()) {
    ++malformed_;
    return;
  }
  const auto with = [&]<typename Record>(Record record, const auto& handle) {
    if (take(bytes, record)) {
      handle(record);
    } else {
      ++malformed_;
    }
  };
  const int64_t offset = node_.clock_offset_ns;
  switch (header.type) {
    case ST_RECORD_CALL_ENTRY:
      return with(st_call_entry{}, [&](const auto& record) {
        collectives_.on_entry(record, stacks_.id_of(static_cast<pid_t>(record.header.tgid), record.place));
      });
    case ST_RECORD_CALL_STACK:
      return with(st_call_stack{}, [&](const auto& record) { note_stack(record); });
    case ST_RECORD_CALL_RETURN:
      return with(st_call_return{}, [&](const auto& record) { collectives_.on_return(record); });
    case ST_RECORD_COMM_INIT:
      return with(st_comm_init{}, [&](const auto& record) { collectives_.on_comm_init(record); });
    case ST_RECORD_SYNC:
      return with(st_sync{}, [&](const auto& record) { collectives_.on_sync(record); });
    case ST_RECORD_REQUESTS_DONE:
      return with(st_requests_done{}, [&](const auto& record) {
        for_each_request(record, [&](const st_sync& sync) { collectives_.on_sync(sync); });
      });
    case ST_RECORD_PROCESS:
      return discovery_.on_call(static_cast<pid_t>(header.tgid));
    case ST_RECORD_TCP_EVENT:
      return with(st_tcp_event{}, [&](const auto& record) { network_.on_event(record); });
    case ST_RECORD_TCP_SAMPLE:
      return with(st_tcp_sample{}, [&](const auto& record) { network_.on_sample(record); });
    case ST_RECORD_NET_SPAN:
      return with(st_net_span{}, [&](const auto& record) { network_.on_span(record); });
    case ST_RECORD_STEP_MARK:
      return with(st_step_mark{}, [&](const auto& record) { network_.on_step_mark(record); });
    case ST_RECORD_SOCKET:
      return with(st_socket_seen{}, [&](const auto& record) { network_.on_socket(record); });
    case ST_RECORD_WAIT:
      return with(st_wait{}, [&](const auto& r) { sink_.accept(decode_wait(r, node_.node_id, offset)); });
    case ST_RECORD_EXIT:
      return with(st_exit{}, [&](const auto& record) { exits_.push_back(record); });
    case ST_RECORD_OOM_KILL:
      return processes_.oom_killed(static_cast<pid_t>(header.tgid));
    default:
      ++malformed_;
  }
}

void HostTracer::collect() {
  const auto consume = [this] { kernel_->consume([this](std::span<const std::byte> record) { dispatch(record); }); };
  consume();
  if (!exits_.empty()) {
    const std::vector<st_exit> ended = std::exchange(exits_, {});
    consume();  // all that they did before is in the rings by now
    end_processes(ended);
  }
  if (mappings_) {
    lost_mappings_ += mappings_->drain([&](pid_t pid, const MappedFile& file) {
      discovery_.on_mapping(pid, file);
      consume();  // looking into a large file takes its time, and the rings go on filling
    });
  }
}

void HostTracer::sample_sockets(const std::set<pid_t>& pids, int64_t idle_before_ns) {
  const Status listed = kernel_->list_sockets(pids, static_cast<uint64_t>(idle_before_ns),
                                              [this](const st_socket_listing& l) { network_.on_listing(l); });
  if (!listed) {
    log_once("connections from before tracing are unknown, silent ones are not sampled: " + listed.error().what);
  }
}

/// A rank that hangs makes no more calls: what its threads wait for is recorded while the wait lasts.
void HostTracer::deliver_open_waits(uint64_t at_least_ns) {
  std::map<uint32_t, uint64_t> waiting;
  const Status listed = kernel_->list_threads(alive_, [&](const st_thread_listing& thread) {
    if (thread.header.time_ns - thread.off_ns < at_least_ns) {
      return;
    }
    const auto reported = reported_waits_.find(thread.header.tid);
    if (reported == reported_waits_.end() || reported->second != thread.off_ns) {
      sink_.accept(decode_open_wait(thread, node_.node_id, node_.clock_offset_ns));
    }
    waiting[thread.header.tid] = thread.off_ns;
  });
  if (!listed) {
    log_once("waits that have not ended are unknown: " + listed.error().what);
  }
  reported_waits_ = std::move(waiting);
}

void HostTracer::deliver_drops() {
  kernel_->take_drops([this](const st_drop_key& key, const st_drops& sum, const std::string& reason) {
    PacketDrop row{.node_id = node_.node_id, .cookie = key.cookie, .incoming = key.incoming != 0, .netns = key.netns};
    row.timestamp_ns = static_cast<int64_t>(sum.first_ns) + node_.clock_offset_ns;
    row.duration_ns = static_cast<int64_t>(sum.last_ns - sum.first_ns);
    row.pid = static_cast<int32_t>(sum.tgid);
    row.reason = reason;
    row.packets = sum.packets;
    row.bytes = sum.bytes;
    sink_.accept(std::move(row));
  });
}

void HostTracer::deliver_losses() {
  const std::vector<uint64_t> counts = kernel_->losses();
  lost_ = lost_mappings_ + malformed_;
  for (size_t source = 0; source < counts.size(); ++source) {
    lost_ += counts[source];
    if (counts[source] > 0) {
      sink_.accept(Loss{node_.node_id, kLossNames[source], counts[source]});
    }
  }
  profiler_files_.deliver_losses();
  if (lost_mappings_ > 0) {
    sink_.accept(Loss{node_.node_id, "perf:mappings", lost_mappings_});
  }
  if (malformed_ > 0) {
    sink_.accept(Loss{node_.node_id, "ring:malformed", malformed_});
  }
}

/// Before Linux 6.6 each probe is a file descriptor: says so before they run out.
void HostTracer::watch_descriptors() {
  const uint64_t held = kernel_->features().uprobe_multi ? 0 : kernel_->probe_descriptors();
  if (held > descriptor_limit() / 10 * 8) {
    log_once("the probes hold " + std::to_string(held) + " of " + std::to_string(descriptor_limit()) +
             " file descriptors: libraries that appear later may not be traced; raise the hard limit (ulimit -Hn)");
  }
}

void HostTracer::deliver_rest() {
  sample_sockets(alive_, monotonic_now_ns());
  deliver_open_waits(kOpenWaitNs);
  collect();
  end_processes(std::exchange(exits_, {}));
  collectives_.deliver_open();
  profiler_files_.finish(monotonic_now_ns());
  network_.settle_rest();
  deliver_drops();
  host_.sample(utc_now_ns(), alive_);
  deliver_losses();
  node_.ended_ns = utc_now_ns();
  sink_.accept(node_);
}

/// A wake-up of ours must not take the CPU from a rank: the rings hold what comes in the meantime. Where it is refused,
/// we go on.
void yield_to_the_job() {
  const sched_param none{};
  (void)::sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &none);
}

Status HostTracer::run(const std::vector<int>& stop_descriptors, const Flush& flush, const Progress& progress) {
  yield_to_the_job();
  std::vector<pollfd> waits;
  for (const int descriptor : stop_descriptors) {
    waits.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
  }
  const size_t stops = waits.size();
  for (const int descriptor : kernel_->descriptors()) {
    waits.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
  }
  if (mappings_) {
    for (const int descriptor : mappings_->descriptors()) {
      waits.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
    }
  }
  const int64_t started_ns = monotonic_now_ns();
  int64_t sampled_ns = started_ns;
  int64_t flushed_ns = started_ns;
  int64_t reported_ns = started_ns;
  int64_t scanned_ns = started_ns;
  bool stopping = false;
  while (!stopping) {
    if (::poll(waits.data(), waits.size(), kPollNs / kNsPerMs) < 0 && errno != EINTR) {
      return fail_errno("wait for events", errno);
    }
    const int64_t now_ns = monotonic_now_ns();
    for (size_t i = 0; i < stops; ++i) {
      stopping |= (waits[i].revents & (POLLIN | POLLHUP)) != 0;
    }
    stopping |= options_.duration_ns && now_ns - started_ns >= *options_.duration_ns;
    collect();
    if (now_ns - scanned_ns >= (mappings_ ? kScanNs : kScanAloneNs)) {
      scanned_ns = now_ns;
      discovery_.scan(!mappings_ || lost_mappings_ > scanned_lost_);
      scanned_lost_ = lost_mappings_;
    }
    if (now_ns - sampled_ns >= kSampleNs) {
      sampled_ns = now_ns;
      sample_sockets(alive_, now_ns - kIdleSpanNs);
    }
    if (now_ns - flushed_ns >= kFlushNs) {
      flushed_ns = now_ns;
      collectives_.deliver_open();
      profiler_files_.round(now_ns);
      network_.settle_rest();
      deliver_drops();
      ST_TRY(flush());
    }
    if (now_ns - reported_ns >= kProgressNs) {
      reported_ns = now_ns;
      deliver_open_waits(kLongWaitNs);
      host_.sample(now_ns + node_.clock_offset_ns, alive_);
      deliver_losses();
      watch_descriptors();
      TracerStats now = stats();
      now.elapsed_ns = now_ns - started_ns;
      if (options_.duration_ns) {
        now.left_ns = std::max<int64_t>(*options_.duration_ns - now.elapsed_ns, 0);
      }
      progress(now);
    }
  }
  deliver_rest();
  return flush();
}

std::vector<std::string> HostTracer::missing_evidence() const {
  std::vector<std::string> lines;
  for (const EvidenceChoice& choice : kernel_->evidence()) {
    if (choice.state == EvidenceState::kMissing) {
      lines.push_back(std::string(info_of(choice.kind).title) + ": " + choice.detail);
    }
  }
  return lines;
}

TracerStats HostTracer::stats() const {
  TracerStats stats;
  stats.processes = processes_.size();
  stats.libraries = discovery_.libraries();
  stats.calls = collectives_.calls();
  stats.retransmits = network_.retransmits();
  stats.lost = lost_;
  return stats;
}

}  // namespace

Result<std::unique_ptr<Tracer>> Tracer::create(const TracerOptions& options, EventSink& sink, Note note) {
  const JobDiscovery::Scope scope = HostTracer::scope_of(options);
  KernelOptions kernel_options = options.kernel;
  kernel_options.only_netns = static_cast<uint32_t>(scope.only_netns);
  kernel_options.only_listed = scope.only_listed;
  ST_ASSIGN(std::unique_ptr<BpfPrograms> kernel, BpfPrograms::load(kernel_options));
  auto tracer = std::make_unique<HostTracer>(options, sink, std::move(note), std::move(kernel));
  ST_TRY(tracer->begin());
  return tracer;
}

}  // namespace stalltrace::capture
