// SPDX-License-Identifier: Apache-2.0
// The configuration file of a node, which replaces flags that every command line would need. TOML:
//
//     node = "rack7-node3"                       # this node's name in recordings
//     libraries = ["/opt/site/lib/libnccl.so.2"]  # probed at once, in addition to the usual folders
//     trusted_owners = ["1200"]                   # as --trust-owner
//     nodes = ["gpu[001-128]:7700"]               # what `--nodes config` stands for
//
// A flag overrides the file. A library that this node lacks is no error: all nodes may use one file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stalltrace::cli {

struct Config {
  std::string node;
  std::vector<std::string> libraries;
  std::vector<std::string> trusted_owners;
  std::vector<std::string> nodes;  // items of a node list (fleet/node_list.h)
};

/// The file that is used without --config.
inline constexpr const char* kConfigPath = "/etc/stalltrace/stalltrace.toml";

/// Reads `path`; empty: kConfigPath, which may be missing. Errors name the line: bad TOML, an unknown key, a value of
/// the wrong type.
Result<Config> load_config(const std::string& path);

/// The same for a text; `path` is for error messages.
Result<Config> parse_config(std::string_view text, const std::string& path);

}  // namespace stalltrace::cli
