// SPDX-License-Identifier: Apache-2.0
#include "capture/kernel/loader.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdarg>
#include <cstring>
#include <optional>

#include "base/clock.h"
#include "base/text.h"
#include "capture/call_table.h"
#include "capture/kernel/drop_reasons.h"
#include "capture/kernel/python_layouts.h"
#include "capture/kernel/uprobe_multi.h"
#include "stacks/nccl/comm_layout.h"

namespace stalltrace::capture {
namespace {

constexpr std::string_view kPrivilegeRemedy = "run as root, or grant CAP_BPF and CAP_PERFMON";
constexpr std::string_view kLockedMemoryRemedy =
    "before Linux 5.11 BPF maps count as locked memory, some 60 MiB: raise its limit (ulimit -l unlimited; for a "
    "container "
    "--ulimit memlock=-1, or CAP_SYS_RESOURCE)";
constexpr std::string_view kMapsRemedy =
    "the programs need some 60 MiB of kernel memory: raise the memory limit of this cgroup or container";
constexpr std::string_view kRefusedRemedy =
    "tracing needs this program: record without tracing (stalltrace run --no-trace), or use another kernel (5.10 or "
    "newer; docs/kernels.md lists those that were tried), and report the output of 'stalltrace check --programs'";

constexpr size_t kFiguresBytes = 4 << 10;
constexpr size_t kRefusalBytes =
    8 << 20;  // the reason comes last, and old kernels keep the log's start; most logs take less than 16 MiB
constexpr uint32_t kLogFigures = 4;  // BPF_LOG_STATS of the kernel's include/linux/bpf_verifier.h, since Linux 5.2
constexpr const char* kNeverAttached = "read_jiffies";

int silent(enum libbpf_print_level, const char*, va_list) { return 0; }

/// The verifier's reason: its last line before its figures.
std::string reason_in(std::string_view log) {
  std::string_view reason;
  for (const std::string_view line : split(log, '\n')) {
    if (!line.empty() && !line.starts_with("processed ") && !line.starts_with("verification time ") &&
        !line.starts_with("stack depth ")) {
      reason = line;
    }
  }
  return std::string(reason);
}

/// The number after `words` in the verifier's figures; 0 where `words` are missing.
uint64_t number_behind(std::string_view log, std::string_view words) {
  const size_t at = log.rfind(words);
  uint64_t number = 0;
  if (at != std::string_view::npos) {
    std::from_chars(log.data() + at + words.size(), log.data() + log.size(), number);
  }
  return number;
}

bool locked_memory_is_limited() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

class Loader {
 public:
  Loader(const KernelTypes& types, const KernelOptions& options, const Refusals& refused)
      : types_(types), options_(options), refused_(refused) {
    features_ = probe_kernel_features(types);
    features_.uprobe_multi = features_.uprobe_multi && !options.without_uprobe_multi && !options.without_attach_cookie;
    features_.attach_cookie = features_.attach_cookie && !options.without_attach_cookie;
    features_.task_storage = features_.task_storage && !options.without_storage;
    features_.socket_storage = features_.socket_storage && !options.without_storage;
    for (const std::string& program : options.without_programs) {
      refused_[program] = "left out on request";
    }
    choose();
  }

  Result<LoadedPrograms> load() {
    SkeletonHandle skeleton;
    while (true) {  // each round excludes at least one more program
      ST_TRY(check_required());
      ST_ASSIGN(skeleton, open(loadable()));
      const int error = stalltrace_bpf__load(skeleton.get());
      if (error == 0) {
        break;
      }
      const size_t refused_before = refused_.size();
      ST_TRY(find_refused());
      if (refused_.size() == refused_before) {
        return load_failure(error);
      }
      choose();
    }
    read_figures();
    return LoadedPrograms{.skeleton = std::move(skeleton),
                          .features = used_features(),
                          .evidence = std::move(choices_),
                          .drop_reasons = std::move(drop_reasons_),
                          .reports = std::move(reports_)};
  }

 private:
  static std::unexpected<Error> load_failure(int error) {
    const std::string what = "load the BPF programs: " + std::string(strerror(-error));
    if (error == -EPERM || error == -EACCES) {
      const bool is_root = ::geteuid() == 0;
      return fail(what, std::string(is_root && locked_memory_is_limited() ? kLockedMemoryRemedy : kPrivilegeRemedy),
                  ErrorKind::kNoPrivilege);
    }
    return fail(what, std::string(kMapsRemedy), ErrorKind::kUnsupported);
  }

  [[nodiscard]] KernelFeatures used_features() const {
    KernelFeatures used = features_;
    used.socket_storage = socket_storage_;
    return used;
  }

  void choose() {
    choices_ = choose_programs(types_, features_, refused_);
    socket_storage_ = features_.socket_storage && !uses_kernel_probes(choices_);
  }

  [[nodiscard]] std::vector<std::string> loadable() const {
    std::vector<std::string> programs;
    if (!refused_.contains(std::string_view(kNeverAttached))) {
      programs.emplace_back(kNeverAttached);
    }
    for (const EvidenceChoice& choice : choices_) {
      programs.insert(programs.end(), choice.programs.begin(), choice.programs.end());
    }
    return programs;
  }

  /// Opens the object with its constants set; only `programs` will be loaded.
  Result<SkeletonHandle> open(const std::vector<std::string>& programs, size_t log_bytes = kFiguresBytes) {
    const std::string btf_path = kernel_btf_path();
    LIBBPF_OPTS(bpf_object_open_opts, open_options, .btf_custom_path = btf_path.c_str());
    SkeletonHandle skeleton(stalltrace_bpf__open_opts(&open_options));
    if (!skeleton) {
      return load_failure(-errno);
    }
    logs_.clear();
    bpf_program* program = nullptr;
    bpf_object__for_each_program(program, skeleton->obj) {
      const std::string name = bpf_program__name(program);
      const bool wanted = std::find(programs.begin(), programs.end(), name) != programs.end();
      bpf_program__set_autoload(program, wanted);
      if (wanted) {
        auto& log = logs_.emplace_back(name, std::vector<char>(log_bytes)).second;
        bpf_program__set_log_buf(program, log.data(), log.size());
        bpf_program__set_log_level(program, options_.report_programs ? kLogFigures : 0);
      }
    }
    if (features_.uprobe_multi) {
      for (bpf_program* probe :
           {skeleton->progs.call_entry, skeleton->progs.call_entry_without_atomic_fetch, skeleton->progs.call_return,
            skeleton->progs.step_moved, skeleton->progs.python_raised}) {
        bpf_program__set_expected_attach_type(probe, kTraceUprobeMulti);
      }
    }
    leave_out_maps(*skeleton);
    fill_constants(*skeleton);
    return skeleton;
  }

  void leave_out_maps(const stalltrace_bpf& skeleton) const {
    const auto& maps = skeleton.maps;
    for (bpf_map* map : {maps.processes, maps.threads, maps.calls_in_flight, maps.waits, maps.last_transfers}) {
      bpf_map__set_autocreate(map, features_.task_storage);
    }
    for (bpf_map* map : {maps.threads_by_tid, maps.waits_by_tid, maps.last_transfers_by_tid}) {
      bpf_map__set_autocreate(map, !features_.task_storage);
    }
    bpf_map__set_autocreate(maps.sockets, socket_storage_);
    bpf_map__set_autocreate(maps.sockets_by_address, !socket_storage_);
    bpf_map__set_autocreate(maps.socket_calls, !socket_storage_);
    bpf_map__set_autocreate(maps.call_programs, !features_.attach_cookie);
    if (!features_.uprobe_multi) {
      // Before Linux 6.1, a probe's program with a table that allocates at run time makes the kernel log a warning, and
      // is refused on PREEMPT_RT.
      constexpr uint32_t kSequences = 65536;
      bpf_map__set_map_flags(maps.sequences, 0);
      bpf_map__set_max_entries(maps.sequences, kSequences);
    }
    if (features_.task_storage) {  // spares only
      constexpr uint32_t kSpares = 1024;
      bpf_map__set_max_entries(maps.processes_by_tgid, kSpares);
      bpf_map__set_max_entries(maps.calls_in_flight_by_tid, kSpares);
    }
  }

  void fill_constants(stalltrace_bpf& skeleton) {
    st_config config{};
    config.only_netns = options_.only_netns;
    config.only_listed = options_.only_listed;
    config.span_gap_ns = 1 * kNsPerMs;
    config.span_max_ns = 100 * kNsPerMs;
    config.sample_gap_ns = 100 * kNsPerMs;
    config.long_wait_ns = 5 * kNsPerMs;
    config.window_ns = 100 * kNsPerMs;
    config.window_min_ns = 1 * kNsPerMs;
    config.wake_bytes = 512 << 10;
    config.self_tgid = static_cast<uint32_t>(getpid());
    config.task_storage = features_.task_storage;
    config.socket_storage = socket_storage_;
    config.attach_cookie = features_.attach_cookie;
    config.congestion_by_ack = std::any_of(choices_.begin(), choices_.end(), [](const EvidenceChoice& choice) {
      return choice.kind == EvidenceKind::kCongestionStates && choice.state == EvidenceState::kFallback;
    });
    config.walks_all_tasks = !types_.has_member("bpf_iter_link_info", "task");
    const uint32_t sequences = bpf_map__max_entries(skeleton.maps.sequences);
    config.most_sequences_of_user = sequences / 2;
    config.most_sequences_of_process = sequences / 8;
    config.recvmsg_arguments = types_.parameters_of("tcp_recvmsg");
    std::memcpy(const_cast<st_config*>(reinterpret_cast<const volatile st_config*>(&skeleton.rodata->config)), &config,
                sizeof config);
    auto* specs = reinterpret_cast<st_call_spec*>(&skeleton.rodata->calls);
    for (size_t row = 0; row < call_table().size(); ++row) {
      specs[row] = call_table()[row].spec;
    }
    auto* layouts = const_cast<st_python_layout*>(
        reinterpret_cast<const volatile st_python_layout*>(&skeleton.rodata->python_layouts));
    for (uint32_t minor = 0; minor < ST_PYTHON_VERSIONS; ++minor) {
      layouts[minor] = python_layout(minor);
    }
    auto* communicators =
        const_cast<st_nccl_layout*>(reinterpret_cast<const volatile st_nccl_layout*>(&skeleton.rodata->nccl_layouts));
    static_assert(stacks::kMostCommLayouts <= ST_NCCL_LAYOUTS && stacks::kNcclMagic == ST_NCCL_MAGIC &&
                  stacks::kCountedOperations.size() == ST_NCCL_OPERATIONS);
    for (size_t i = 0; i < stacks::comm_layouts().size(); ++i) {
      const stacks::CommLayout& layout = stacks::comm_layouts()[i];
      communicators[i] = {.identity = layout.identity,
                          .end = layout.end,
                          .counters = layout.counters,
                          .operations = static_cast<uint32_t>(layout.counter_words())};
    }
    auto* reported = reinterpret_cast<uint8_t*>(
        const_cast<__u8*>(reinterpret_cast<const volatile __u8*>(&skeleton.rodata->recorded_drop_reasons)));
    drop_reasons_.clear();
    for (const auto& [number, name] : types_.values_of_enum("skb_drop_reason")) {
      const std::string_view reason =
          name.starts_with(kDropReasonPrefix) ? name.substr(kDropReasonPrefix.size()) : std::string_view();
      if (number < ST_DROP_REASONS && is_recorded_drop_reason(reason)) {
        drop_reasons_.resize(ST_DROP_REASONS);
        drop_reasons_[number] = reason;
        reported[number] = 1;
      }
    }
  }

  /// Finds which programs the kernel refuses: loads each alone, since the kernel stops at the first refusal.
  Status find_refused() {
    Refusals refused;
    const std::vector<std::string> programs = loadable();
    for (const std::string& program : programs) {
      ST_ASSIGN(const SkeletonHandle skeleton, open({program}, kRefusalBytes));
      const int error = stalltrace_bpf__load(skeleton.get());
      if (error == 0) {
        continue;
      }
      if (error == -EPERM || error == -EACCES) {
        // Without privilege every program is refused; with it, the verifier's EACCES and EPERM come with its log.
        if (logs_.front().second.front() == '\0') {
          return load_failure(error);
        }
      }
      const std::string reason = reason_in(logs_.front().second.data());
      refused[program] = std::string(strerror(-error)) + (reason.empty() ? "" : " (" + reason + ")");
    }
    // The maps are made before the programs: if all fail alike, the cause is not in the programs.
    const bool is_silent = logs_.front().second.front() == '\0';
    if (refused.size() < programs.size() || !is_silent) {
      refused_.merge(refused);
    }
    return {};
  }

  [[nodiscard]] Status check_required() const {
    for (const EvidenceChoice& choice : choices_) {
      if (choice.kind == EvidenceKind::kCalls && choice.state == EvidenceState::kMissing) {
        return fail(choice.detail, std::string(kRefusedRemedy), ErrorKind::kUnsupported);
      }
    }
    return {};
  }

  void read_figures() {
    if (!options_.report_programs) {
      return;
    }
    for (const auto& [name, log] : logs_) {
      reports_.push_back({.program = name,
                          .loaded = true,
                          .instructions = number_behind(log.data(), "processed "),
                          .verified_us = number_behind(log.data(), "verification time ")});
    }
    for (const auto& [name, reason] : refused_) {
      reports_.push_back({.program = name, .detail = reason});
    }
  }

  const KernelTypes& types_;
  const KernelOptions& options_;
  KernelFeatures features_;
  bool socket_storage_ = false;
  Refusals refused_;
  std::vector<EvidenceChoice> choices_;
  std::vector<std::string> drop_reasons_;
  std::vector<std::pair<std::string, std::vector<char>>> logs_;  // of the programs to load, in the object's order
  std::vector<ProgramReport> reports_;
};

}  // namespace

Result<LoadedPrograms> load_programs(const KernelTypes& types, const KernelOptions& options, const Refusals& refused) {
  libbpf_set_print(silent);
  return Loader(types, options, refused).load();
}

}  // namespace stalltrace::capture
