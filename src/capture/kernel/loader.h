// SPDX-License-Identifier: Apache-2.0
// Loads the BPF programs that this kernel accepts. A refused program costs its evidence; tracing needs only the entry
// and return programs of calls. Internal to capture/kernel, since its users see libbpf.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "capture/kernel/kernel_features.h"
#include "capture/kernel/kernel_options.h"
#include "capture/kernel/program_report.h"
#include "capture/kernel/programs.h"
#include "wire/collective.h"
#include "wire/config.h"
#include "wire/host_drops.h"
#include "wire/python.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wconversion"
#include "stalltrace.skel.h"
#pragma GCC diagnostic pop

namespace stalltrace::capture {

struct DestroySkeleton {
  void operator()(stalltrace_bpf* skeleton) const noexcept { stalltrace_bpf__destroy(skeleton); }
};
using SkeletonHandle = std::unique_ptr<stalltrace_bpf, DestroySkeleton>;

struct LoadedPrograms {
  SkeletonHandle skeleton;
  KernelFeatures features;  // as used: without those that the options exclude
  std::vector<EvidenceChoice> evidence;
  std::vector<std::string> drop_reasons;  // by number; empty: not recorded, or no such reason
  std::vector<ProgramReport> reports;     // with KernelOptions::report_programs
};

/// Loads all programs but those in `refused`. kNoPrivilege or kUnsupported where the kernel lets us load nothing, or
/// refuses a required program.
Result<LoadedPrograms> load_programs(const KernelTypes& types, const KernelOptions& options, const Refusals& refused);

}  // namespace stalltrace::capture
