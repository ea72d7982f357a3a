// SPDX-License-Identifier: Apache-2.0
// The shapes of jobs by name, and faults as text: "late_rank:rank=5,ms=80". Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "lab/simulation/job_options.h"

namespace stalltrace::simulation {

struct Shape {
  std::string_view name;
  std::string_view summary;
  /// Sets all but size, seed, faults and how it is recorded. The size is known.
  void (*apply)(JobOptions& options);
};

std::span<const Shape> shapes();

/// ErrorKind::kUsage where there is no such shape, or where the job's size does not fit it.
Status apply_shape(std::string_view name, JobOptions& options);
/// "tp=2,pp=2,dp=4", for tp-pp-dp. ErrorKind::kUsage where that is not the number of ranks.
Status apply_parallel(std::string_view text, JobOptions& options);

/// ErrorKind::kUsage with what is wrong, and the keys that the fault has.
Result<Fault> parse_fault(std::string_view text, const JobOptions& options);
/// "late_rank"
std::string_view cause_of(FaultKind kind);
/// True where a node's network interface is to blame and not one rank.
bool is_of_node(FaultKind kind);
/// True where the ports of an InfiniBand fabric count it.
bool is_of_fabric(FaultKind kind);
/// True where it costs each step alike, and no step much.
bool is_in_each_step(const Fault& fault);
/// True where ranks call two communicators one after the other that could be crossed.
bool has_crossing_groups(const JobOptions& options);
/// One line for each shape, and for each fault with its keys: for the help page.
std::string shape_help();
std::string fault_help();

}  // namespace stalltrace::simulation
