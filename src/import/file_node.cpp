// SPDX-License-Identifier: Apache-2.0
#include "import/file_node.h"

#include <sys/stat.h>

#include "base/clock.h"
#include "base/text.h"

namespace stalltrace::import {

int64_t modified_ns(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? int64_t{status.st_mtim.tv_sec} * kNsPerSecond + status.st_mtim.tv_nsec
                                            : utc_now_ns();
}

Node FileNodes::make(const std::string& path, std::string_view format, const std::string& host) {
  Node node{.name = host.empty() ? std::string(base_name(path)) : host,
            .hostname = host,
            .agent_version = std::string(format)};
  node.started_ns = modified_ns(path);
  node.ended_ns = node.started_ns;
  node.node_id = make_node_id(path + host, format, node.started_ns);
  while (!taken_.insert(node.node_id).second) {
    node.node_id = node.node_id % ((1U << kNodeIdBits) - 1) + 1;
  }
  return node;
}

}  // namespace stalltrace::import
