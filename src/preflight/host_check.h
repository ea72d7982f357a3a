// SPDX-License-Identifier: Apache-2.0
// What a check of a host found. A check reads and changes nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "preflight/topology/pci_device.h"

namespace stalltrace::preflight {

enum class Outcome : uint8_t {
  kOk,
  kWarning,  // a job runs, but perhaps not as intended
  kFailed,   // a job fails, hangs or loses much of its speed
  kUnknown,  // could not be read
};
std::string_view to_text(Outcome outcome);

struct HostCheck {
  std::string check;    // stable identifier, such as "nccl_setting"; docs/preflight.md lists them
  std::string subject;  // "NCCL_ALGO", "eth0", "mlx5_0/1"; empty: the host
  Outcome outcome = Outcome::kOk;
  std::string detail;
  std::string remedy;  // empty when ok
};

/// The checks of one host, and what should be the same on all hosts of a job.
struct HostReport {
  std::string host;
  std::vector<HostCheck> checks;
  std::map<std::string, std::string> facts;  // "setting NCCL_ALGO" -> "Ring"
  Topology topology;                         // for display: parse_report leaves it out

  void add(std::string check, std::string subject, Outcome outcome, std::string detail, std::string remedy = {}) {
    checks.push_back({std::move(check), std::move(subject), outcome, std::move(detail), std::move(remedy)});
  }
  [[nodiscard]] bool failed() const;
};

/// Where the host's files are; tests replace them.
struct HostFiles {
  std::string proc = "/proc";
  std::string sys = "/sys";
  std::string etc = "/etc";
  std::string root = {};     // of the process whose settings are checked: "/proc/12/root"; empty: this one
  std::string folder = ".";  // where it runs: relative paths begin there

  /// A small file without surrounding white space; empty if it can't be read.
  [[nodiscard]] static std::string read(const std::string& path);
  /// A path as the process sees it, in a form that can be opened from here.
  [[nodiscard]] std::string of_process(const std::string& path) const {
    return path.starts_with('/') ? root + path : folder + "/" + path;
  }
};

/// A file that another user named: never waits for a FIFO or a device, and reads nothing of /proc, where reading can
/// have effects. Errors: not readable, not a plain file.
Result<std::string> read_plain_file(const std::string& path, size_t limit_bytes);

}  // namespace stalltrace::preflight
