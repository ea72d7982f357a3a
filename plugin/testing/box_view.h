// SPDX-License-Identifier: Apache-2.0
// A profiler file as a reader sees it, by the rules of docs/profiler_file.md; for tests, which trust the file's layout.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plugin/wire/blackbox.h"

namespace stalltrace::plugin::testing {

struct BoxView {
  st_box_header header{};
  std::vector<st_box_communicator> communicators;
  std::vector<st_box_event> open;   // slots that are OPEN, ENDED or CLOSING
  std::vector<st_box_event> quiet;  // collectives that are over unless a late part comes
  std::vector<st_box_event> ended;  // the ring, oldest first
  uint64_t unreadable = 0;          // incomplete records of the ring

  /// The last record of each id.
  [[nodiscard]] std::map<uint64_t, st_box_event> latest() const;

  /// The latest records of one type.
  [[nodiscard]] std::vector<st_box_event> of_type(st_box_type type) const;
};

/// Reads the file once.
BoxView read_box(const std::string& path);

/// The .profiler files of a folder, sorted.
std::vector<std::string> find_boxes(const std::string& folder);

}  // namespace stalltrace::plugin::testing
