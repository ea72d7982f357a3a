// SPDX-License-Identifier: Apache-2.0
// A file that names no host: it is a node itself.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "model/events/job.h"

namespace stalltrace::import {

/// When the file was last written, in UTC ns; now, if that can't be read.
int64_t modified_ns(const std::string& path);

/// Nodes of different files have different ids, which depend on nothing but their paths and times.
class FileNodes {
 public:
  /// The file, or a host that it names: with name, id and the file's time as start and end. `format`: its
  /// agent_version.
  Node make(const std::string& path, std::string_view format, const std::string& host = {});

 private:
  std::set<NodeId> taken_;
};

}  // namespace stalltrace::import
