// SPDX-License-Identifier: Apache-2.0
// Checks whether this host can be traced: tries everything the tracer needs, and gives a remedy for each refusal.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/untrusted/untrusted_file.h"
#include "capture/kernel/program_report.h"

namespace stalltrace::capture {

enum class CheckState {
  kOk,
  kFallback,  // same evidence, by a method that costs more or is less exact
  kMissing,   // the recording lacks something
  kRefused,   // tracing is impossible without it
};

struct CheckLine {
  CheckState state = CheckState::kOk;
  std::string key;  // stable identifier for programs; docs/kernels.md lists them
  std::string what;
  std::string detail;
  std::string remedy;  // empty when ok
  std::string since;   // the first mainline kernel that gives this in full: "5.14"; empty: it is not the kernel's
};

/// `trusted`: the owners whose libraries a trace would probe, see LibraryFiles.
std::vector<CheckLine> check_host(const TrustedOwners& trusted = {});

struct CheckedPrograms {
  std::vector<ProgramReport> programs;
  int64_t load_us = 0;  // time to choose, load and attach all programs
};

/// Loads all programs that a trace would load, and returns the verifier's figures.
Result<CheckedPrograms> check_programs();

}  // namespace stalltrace::capture
