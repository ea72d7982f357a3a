// SPDX-License-Identifier: Apache-2.0
// Can this host be traced? Each thing the tracer needs, tried for real, with the remedy where it is refused.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/untrusted/untrusted_file.h"
#include "capture/kernel/program_report.h"

namespace stalltrace::capture {

enum class CheckState {
  kOk,
  kFallback,  // the same evidence by a way that costs more, or is less exact
  kMissing,   // something is missing from the recording
  kRefused,   // tracing is impossible without it
};

struct CheckLine {
  CheckState state = CheckState::kOk;
  std::string key;  // stable, for programs: docs/kernels.md lists them
  std::string what;
  std::string detail;
  std::string remedy;  // empty when ok
};

/// `trusted`: whose libraries a trace would probe, see LibraryFiles.
std::vector<CheckLine> check_host(const TrustedOwners& trusted = {});

struct CheckedPrograms {
  std::vector<ProgramReport> programs;
  int64_t load_us = 0;  // until everything is loaded and attached, the choice of programs included
};

/// Loads all programs that a trace would load, with the verifier's figures.
Result<CheckedPrograms> check_programs();

}  // namespace stalltrace::capture
