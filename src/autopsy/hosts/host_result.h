// SPDX-License-Identifier: Apache-2.0
// What `stalltrace autopsy` saw on one host, as a part of its JSON (docs/autopsy.md), and back: the evidence of several
// hosts is judged together later. A file may be hostile: sizes, depth and numbers are bounded, texts are printable.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "autopsy/snapshot.h"
#include "base/result.h"

namespace stalltrace::autopsy {

inline constexpr int kResultSchema = 1;
inline constexpr size_t kLargestResult = size_t{32} << 20;  // bytes of a file

struct HostResult {
  std::string file;                 // where it was read; for messages
  std::string node;                 // name of the host
  std::vector<Snapshot> snapshots;  // the first and the last, in UTC
  Traced traced;
  std::vector<RasAccount> ras;
  std::vector<std::string> problems;  // of asking RAS: why some answers are missing
};

/// The member `evidence` of the result.
nlohmann::ordered_json evidence_json(const HostResult& host);

/// Of a whole result; `file` is left empty. Errors, of kind kCorrupt: no result, one of another version, one of several
/// hosts, or cut off. They read behind "FILE: ".
Result<HostResult> read_result(std::string_view json);

}  // namespace stalltrace::autopsy
