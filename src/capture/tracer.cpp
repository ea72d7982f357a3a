// SPDX-License-Identifier: Apache-2.0
#include "capture/tracer.h"

#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory/own_memory.h"
#include "base/process/resource_limits.h"
#include "base/process/secrets.h"
#include "base/rights/capabilities.h"
#include "base/text.h"
#include "base/untrusted/system_call_filter.h"
#include "capture/decode/tcp/drop_decoder.h"
#include "capture/discover/identity.h"
#include "capture/discover/mpi_world.h"
#include "capture/discover/sharing_user.h"
#include "capture/privileges.h"
#include "model/events/loss_sources.h"
#include "wire/user_share.h"

namespace stalltrace::capture {
namespace {

constexpr int64_t kPollNs = 100 * kNsPerMs;    // the longest interval between reads of the rings
constexpr int64_t kSampleNs = 250 * kNsPerMs;  // sample interval of silent connections
constexpr int64_t kFlushNs = 500 * kNsPerMs;   // write interval of events
constexpr int64_t kProgressNs = kNsPerSecond;
constexpr int64_t kFirstScanNs = 5 * kNsPerSecond;  // at most, of processes that there are at the start
constexpr int64_t kDrainNs = 5 * kNsPerMs;          // between reads of new mappings while others wait
constexpr int64_t kScanNs = 2 * kNsPerSecond;       // a fallback beside the mapping watch ...
constexpr int64_t kScanAloneNs = kNsPerSecond;      // ... or the only way where perf events are refused
constexpr int64_t kIdleSpanNs = 5 * kNsPerMs;
constexpr size_t kMostNotes = 4096;
constexpr int kLargeBlockBytes = 1 << 20;
constexpr int64_t kLastReadingsNs = kNsPerSecond;  // at the end, at the processes of users whose look is not due
constexpr uint64_t kOpenWaitNs = 5 * kNsPerMs;     // minimum length of an open wait at the end of the trace ...
constexpr uint64_t kLongWaitNs = 500 * kNsPerMs;   // ... or, once, while it lasts

constexpr std::array<const char*, ST_LOSS_COUNT> kLossNames{
    kLostRingCollectives, "ring:network", "ring:scheduler",   "state:thread", "state:socket",
    kLostSequenceState,   "state:drops",  "state:connection", kLostScopeState};
constexpr std::array<const char*, ST_SHARED_LOSSES> kShareNames{
    kLostCollectiveShare, "share:network",    "share:scheduler", "share:thread",
    "share:socket",       kLostSequenceShare, "share:drops",     "share:address"};

/// 0: all namespaces.
uint64_t scope_netns(const TracerOptions& options) { return options.own_netns ? Procfs().netns(::getpid()) : 0; }

Node describe_traced_node(const TracerOptions& options, std::span<const EvidenceChoice> evidence) {
  Node node = describe_node(options.node_name);
  std::vector<EvidenceKind> missing;
  for (const EvidenceChoice& choice : evidence) {
    if (choice.state == EvidenceState::kMissing) {
      missing.push_back(choice.kind);
    }
  }
  node.missing_evidence = keys_of(missing);
  return node;
}

/// In a time namespace of its own, /proc counts from another moment than the kernel.
bool boot_time_is_shifted() {
  const std::string offsets = read_file("/proc/self/timens_offsets", 4096).value_or("");
  for (const std::string_view line : split(offsets, '\n')) {
    if (line.starts_with("boottime") && line.find_first_of("123456789") != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

/// Keeps our wake-ups from taking the CPU from a rank: the rings hold the records in the meantime. A refusal is
/// harmless.
void yield_to_the_job() {
  const sched_param none{};
  (void)::sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &none);
}

}  // namespace

Result<std::unique_ptr<Tracer>> Tracer::create(const TracerOptions& options, EventSink& sink, Note note) {
  KernelOptions kernel_options = options.kernel;
  kernel_options.only_netns = static_cast<uint32_t>(scope_netns(options));
  kernel_options.only_listed = !options.pids.empty();
  // The agent keeps no block of that size that it has freed. Without this, glibc's threshold rises with the first such
  // block (mallopt(3)), and the kernel's types or a library's names stay in the agent's memory for ever.
  ::mallopt(M_MMAP_THRESHOLD, kLargeBlockBytes);
  ST_ASSIGN(std::unique_ptr<BpfPrograms> kernel, BpfPrograms::load(kernel_options));
  std::unique_ptr<Tracer> tracer(new Tracer(options, sink, std::move(note), std::move(kernel)));
  ST_TRY(tracer->begin());
  return tracer;
}

Tracer::Tracer(const TracerOptions& options, EventSink& sink, Note note, std::unique_ptr<BpfPrograms> kernel)
    : options_(options),
      sink_(sink),
      note_(std::move(note)),
      kernel_(std::move(kernel)),
      node_(describe_traced_node(options, kernel_->evidence())),
      procfs_("/proc", options.commands),
      decoder_(node_, procfs_, sink,
               {.ticks_per_second = kernel_->ticks_per_second(),
                .profiler_files = {.only_living = !options.pids.empty(), .only_netns = scope_netns(options)},
                .on_call = [this](pid_t pid, uint32_t user) { on_call(pid, user); },
                .report = [this](const std::string& text) { report_once(text); }}),
      python_stacks_(node_, sink, [this](pid_t pid) { return decoder_.user_of(pid); }),
      open_waits_(*kernel_, node_, sink),
      host_({.sys = options.sysfs_root}, node_.node_id, sink),
      clocks_(node_, sink),
      discovery_(
          kernel_.get(), procfs_, {.only_netns = scope_netns(options), .only_listed = !options.pids.empty()},
          options.trusted_owners,
          [this](pid_t pid, Library library, uint64_t mpi_world) { return begin_process(pid, library, mpi_world); },
          [this](std::span<const pid_t> pids) { lost_exits(pids); },
          [this](const std::string& text) { report_once(text); }),
      ticks_are_ours_(!boot_time_is_shifted()) {}

Status Tracer::begin() {
  discovery_.start();
  sink_.accept(node_);
  clocks_.read();
  if (kernel_->counts_drops()) {
    host_.counts_drops();
  }
  ST_TRY(discovery_.list(options_.pids));
  if (auto watch = MappingWatch::open()) {
    mappings_ = std::move(*watch);
  } else {
    report_once("new libraries are found by polling, a job's first calls may be missed: " + watch.error().what);
  }
  discovery_.scan(JobDiscovery::Again::kNone);
  discovery_.examine(monotonic_now_ns() + kFirstScanNs, JobDiscovery::Whose::kWithinBudget, [] {});
  discovery_.wait_for_files();
  discovery_.attach_usual_libraries();
  for (const std::string& library : options_.libraries) {
    ST_TRY(discovery_.attach_library(library));
  }
  return {};
}

void Tracer::report_once(const std::string& text) {
  if (reported_.size() < kMostNotes && reported_.insert(text).second) {
    note_(reported_.size() < kMostNotes ? text : "further notes are left out: there are too many");
  }
}

/// False where its user has too many: it is tried again.
bool Tracer::begin_process(pid_t pid, Library library, uint64_t mpi_world) {
  if (decoder_.has_ended(pid) && !procfs_.exists(pid)) {
    return true;  // its end record overtook the record of its first call: they come by different rings
  }
  const uint32_t callers_user = caller_.first == pid ? caller_.second : kUnknownUser;
  const uint32_t user = sharing_user(procfs_, pid).value_or(callers_user);
  starts_[pid] = procfs_.start_ticks(pid);
  if (!decoder_.admit(pid, user, monotonic_now_ns(), starts_[pid])) {
    return false;
  }
  Process process = describe_process(procfs_, pid, node_.node_id, node_.clock_offset_ns);
  if (options_.commands == CommandLines::kRedacted) {
    hide_secrets_of_variables(process.settings);
  }
  if (const Status status = kernel_->add_process(pid, process.cgroup_id); !status) {
    report_once(status.error().what);
  }
  const auto environment = procfs_.environment(pid);
  const uint64_t key = environment ? job_key(process.job_id, *environment) : 0;
  decoder_.begin_process(std::move(process), library, {key, mpi_world});
  alive_.insert(pid);
  sample_sockets({pid}, 0);
  return true;
}

/// A process that made a call before it was found by its mappings.
void Tracer::on_call(pid_t pid, uint32_t user) {
  if (!decoder_.is_followed(pid) && starts_[pid] == procfs_.start_ticks(pid)) {
    return;  // not another one with the number of one that is not followed
  }
  caller_ = {pid, user};
  discovery_.on_call(pid);
}

void Tracer::end_processes(const std::vector<st_exit>& records) {
  for (const st_exit& record : records) {
    const auto pid = static_cast<pid_t>(record.header.tgid);
    const auto start = starts_.find(pid);
    const bool is_later_one = ticks_are_ours_ && start != starts_.end() && start->second != 0 &&
                              record.start_ticks != 0 && static_cast<uint32_t>(start->second) != record.start_ticks;
    if (is_later_one) {
      continue;  // the end of an earlier process of that number, which was noticed without its record
    }
    if (!decoder_.knows(pid)) {
      on_call(pid, record.user);
    }
    decoder_.end_process(record);
    forget_process(pid);
  }
}

void Tracer::forget_process(pid_t pid) {
  discovery_.on_exit(pid);
  alive_.erase(pid);
  starts_.erase(pid);
  some_ended_ = true;
}

/// The processes are gone, but no record shows that: there was no room for it. Thousands may end at once.
void Tracer::lost_exits(std::span<const pid_t> pids) {
  std::map<pid_t, uint64_t> gone;
  for (const pid_t pid : pids) {
    if (const auto start = starts_.find(pid); start != starts_.end()) {
      gone.insert(*start);
    }
  }
  if (!consuming_) {  // it may only wait to be read; while the rings are read, they can't be read again
    consume_with_ends();
  }
  for (const auto& [pid, start_ticks] : gone) {
    const auto start = starts_.find(pid);
    if (start == starts_.end() || start->second != start_ticks) {
      continue;  // it was read, and the next process of that number may have been, too
    }
    decoder_.end_process(pid, monotonic_now_ns());
    forget_process(pid);
  }
}

void Tracer::consume() {
  consuming_ = true;
  kernel_->consume([this](std::span<const std::byte> record) { decoder_.decode(record); });
  consuming_ = false;
}

void Tracer::consume_with_ends() {
  consume();
  if (const std::vector<st_exit> ended = decoder_.take_exits(); !ended.empty()) {
    consume();  // all its earlier records are in the rings by now
    end_processes(ended);
  }
}

void Tracer::collect() {
  consume_with_ends();
  look_for_jobs();
  decoder_.read_competitors(monotonic_now_ns(), [this] { consume(); });
}

/// Looks at what waits for that, for as long as the periodic tasks can wait. Reading a large file takes time, while the
/// rings continue to fill, and so does the kernel's buffer of new mappings.
void Tracer::look_for_jobs() {
  const int64_t end_ns = monotonic_now_ns() + kPollNs;
  int64_t now_ns = 0;
  do {
    if (mappings_) {
      lost_mappings_ +=
          mappings_->drain([this](pid_t pid, const MappedFile& file) { discovery_.on_mapping(pid, file); });
    }
    discovery_.advance();
    discovery_.examine(monotonic_now_ns() + kDrainNs, JobDiscovery::Whose::kAll, [this] { consume(); });
    now_ns = monotonic_now_ns();
  } while (!discovery_.is_idle() && now_ns < end_ns);
}

void Tracer::scan() {
  using Again = JobDiscovery::Again;
  discovery_.scan(!mappings_ ? Again::kOthers : lost_mappings_ > scanned_lost_ ? Again::kAll : Again::kNone);
  scanned_lost_ = lost_mappings_;
  look_for_jobs();
  if (std::exchange(some_ended_, false)) {
    kernel_->remove_sequences_of_the_gone();
  }
}

void Tracer::sample_sockets(const std::set<pid_t>& pids, int64_t idle_before_ns) {
  const Status listed = kernel_->list_sockets(pids, static_cast<uint64_t>(idle_before_ns),
                                              [this](const st_socket_listing& l) { decoder_.decode(l); });
  if (!listed) {
    report_once("connections from before tracing are unknown, silent ones are not sampled: " + listed.error().what);
  }
}

/// Whose processes it is time to look at; at the end the others too, after them.
Tracer::Readings Tracer::due_readings(const ReadingBudget& budget, bool last) const {
  Readings readings;
  const int64_t now_ns = monotonic_now_ns();
  for (const pid_t pid : alive_) {
    const uint32_t user = kernel_->walks_all_tasks() ? 0 : decoder_.user_of(pid);
    if (budget.is_due(user, now_ns)) {
      readings[{false, user}].insert(pid);
    } else if (last) {
      readings[{true, user}].insert(pid);
    }
  }
  return readings;
}

void Tracer::sample_all_sockets(int64_t idle_before_ns, bool last) {
  const int64_t end_ns = monotonic_now_ns() + kLastReadingsNs;
  for (const auto& [reading, pids] : due_readings(socket_readings_, last)) {
    const int64_t began_ns = monotonic_now_ns();
    if (!reading.early || began_ns < end_ns) {
      sample_sockets(pids, idle_before_ns);
      socket_readings_.was_read(reading.user, began_ns, monotonic_now_ns());
    }
  }
}

void Tracer::deliver_open_waits(uint64_t at_least_ns, bool last) {
  const int64_t end_ns = monotonic_now_ns() + kLastReadingsNs;
  for (const auto& [reading, pids] : due_readings(thread_readings_, last)) {
    const int64_t began_ns = monotonic_now_ns();
    if (reading.early && began_ns >= end_ns) {
      continue;
    }
    if (const Status delivered = open_waits_.deliver(reading.user, pids, at_least_ns); !delivered) {
      report_once("waits that have not ended are unknown: " + delivered.error().what);
    }
    thread_readings_.was_read(reading.user, began_ns, monotonic_now_ns());
  }
}

void Tracer::deliver_drops() {
  kernel_->take_drops([this](const st_drop_key& key, const st_drops& sum, const std::string& reason) {
    sink_.accept(decode_drops(key, sum, reason, node_.node_id, node_.clock_offset_ns));
  });
}

void Tracer::deliver_losses() {
  const std::vector<uint64_t> counts = kernel_->losses();
  lost_ = lost_mappings_ + decoder_.malformed();
  for (size_t source = 0; source < counts.size(); ++source) {
    lost_ += counts[source];
    if (counts[source] > 0) {
      sink_.accept(Loss{node_.node_id, kLossNames[source], counts[source]});
    }
  }
  for (const BpfPrograms::UsersLoss& loss : kernel_->users_losses()) {
    lost_ += loss.count;
    sink_.accept(Loss{node_.node_id, users_loss(kShareNames[loss.source], loss.user), loss.count});
  }
  decoder_.deliver_losses();
  for (const auto& [user, count] : discovery_.lost_mappings()) {  // their processes are looked at: excluded, too
    sink_.accept(Loss{node_.node_id, users_loss(kLostMappingShare, user), count});
  }
  if (lost_mappings_ > 0) {
    sink_.accept(Loss{node_.node_id, "perf:mappings", lost_mappings_});
  }
  for (const auto& [source, count] : discovery_.left_out()) {  // libraries, not events: excluded from lost_
    sink_.accept(Loss{node_.node_id, source, count});
  }
}

/// Before Linux 6.6 each probe is a file descriptor: warns before they run out.
void Tracer::watch_descriptors() {
  const uint64_t held = kernel_->features().uprobe_multi ? 0 : kernel_->probe_descriptors();
  if (held > descriptor_limit() / 10 * 8) {
    report_once("the probes hold " + std::to_string(held) + " of " + std::to_string(descriptor_limit()) +
                " file descriptors: libraries that appear later may not be traced; raise the hard limit (ulimit -Hn)");
  }
}

void Tracer::deliver_rest() {
  sample_all_sockets(monotonic_now_ns(), true);
  deliver_open_waits(kOpenWaitNs, true);
  collect();
  end_processes(decoder_.take_exits());
  decoder_.finish(monotonic_now_ns());
  deliver_drops();
  host_.sample(utc_now_ns(), alive_);
  clocks_.read();
  deliver_losses();
  node_.ended_ns = utc_now_ns();
  sink_.accept(node_);
}

std::vector<PeriodicTask> Tracer::periodic_tasks(int64_t started_ns, const Flush& flush, const Progress& progress) {
  return {
      {"scan processes", mappings_ ? kScanNs : kScanAloneNs,
       [this](int64_t) {
         scan();
         return Status{};
       }},
      {"sample sockets", kSampleNs,
       [this](int64_t now_ns) {
         sample_all_sockets(now_ns - kIdleSpanNs, false);
         return Status{};
       }},
      {"flush", kFlushNs,
       [this, &flush](int64_t now_ns) {
         decoder_.deliver_waiting(now_ns);
         deliver_drops();
         return flush();
       }},
      {"sample host", kProgressNs,
       [this](int64_t now_ns) {
         deliver_open_waits(kLongWaitNs, false);
         host_.sample(now_ns + node_.clock_offset_ns, alive_);
         clocks_.read_each_minute(utc_now_ns());
         deliver_losses();
         watch_descriptors();
         return Status{};
       }},
      {"report progress", kProgressNs,
       [this, &progress, started_ns](int64_t now_ns) {
         TracerStats now = stats();
         now.elapsed_ns = now_ns - started_ns;
         if (options_.duration_ns) {
           now.left_ns = std::max<int64_t>(*options_.duration_ns - now.elapsed_ns, 0);
         }
         progress(now);
         return Status{};
       }},
  };
}

void Tracer::give_up_privileges() {
  const PrivilegeNeeds needs{.uprobe_multi = kernel_->features().uprobe_multi,
                             .system_call_filters = has_system_call_filters()};
  const Capabilities kept = privileges_of_a_trace(needs);
  if (!keep_capabilities(kept)) {
    report_once("the kernel does not let capabilities go: the trace keeps all that it was started with");
  } else if (const size_t others = threads_with_more_than(kept); others > 0) {
    report_once("capabilities that the trace does not need are kept by " +
                count_of(static_cast<int64_t>(others), "other thread") + " of this process: report this");
  }
}

Status Tracer::run(const std::vector<int>& stop_descriptors, const Flush& flush, const Progress& progress) {
  yield_to_the_job();
  forget_start_up();
  std::vector<pollfd> waits;
  const auto wait_for = [&](const std::vector<int>& descriptors) {
    for (const int descriptor : descriptors) {
      waits.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
    }
  };
  wait_for(stop_descriptors);
  wait_for(kernel_->descriptors());
  if (mappings_) {
    wait_for(mappings_->descriptors());
  }
  wait_for(discovery_.descriptors());
  wait_for({-1});  // the last one: see below
  const auto stops = std::span(waits).first(stop_descriptors.size());
  const int64_t started_ns = monotonic_now_ns();
  PeriodicTasks tasks(periodic_tasks(started_ns, flush, progress), started_ns);
  for (bool stopping = false; !stopping;) {
    waits.back().fd = python_stacks_.descriptor();  // usually -1, which poll ignores
    const int64_t wait_ns = !discovery_.is_idle() ? 0 : python_stacks_.hurries() ? LateWatch::kHurriedNs : kPollNs;
    if (::poll(waits.data(), waits.size(), static_cast<int>(wait_ns / kNsPerMs)) < 0 && errno != EINTR) {
      return fail_errno("wait for events", errno);
    }
    const int64_t now_ns = monotonic_now_ns();
    stopping =
        std::ranges::any_of(stops, [](const pollfd& stop) { return (stop.revents & (POLLIN | POLLHUP)) != 0; }) ||
        (options_.duration_ns && now_ns - started_ns >= *options_.duration_ns);
    collect();
    python_stacks_.update([this] { return decoder_.standings(); }, now_ns);
    ST_TRY(tasks.run_due(now_ns));
  }
  deliver_rest();
  return flush();
}

std::vector<std::string> Tracer::missing_evidence() const {
  std::vector<std::string> lines;
  for (const EvidenceChoice& choice : kernel_->evidence()) {
    if (choice.state == EvidenceState::kMissing) {
      lines.push_back(std::string(info_of(choice.kind).title) + ": " + choice.detail);
    }
  }
  return lines;
}

TracerStats Tracer::stats() const {
  TracerStats stats;
  stats.processes = decoder_.processes();
  stats.libraries = discovery_.libraries();
  stats.calls = decoder_.calls();
  stats.retransmits = decoder_.retransmits();
  stats.lost = lost_;
  return stats;
}

}  // namespace stalltrace::capture
