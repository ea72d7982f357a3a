// SPDX-License-Identifier: Apache-2.0
// A recording's way into a folder that collects those of many nodes, such as one on a file server.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/files/new_file.h"
#include "base/files/own_folder.h"
#include "base/result.h"

namespace stalltrace::store {

/// "node7-20261123T213001Z": what such a copy is called, by its first node and the start of its agent. Of any text it
/// makes a name of a file.
std::string recording_name(std::string_view node, int64_t started_ns);

struct HandedOver {
  std::string path;
  bool was_there = false;  // a copy with the same bytes
};

/// Copies the recording at `path` into `folder`, as `NODE-STARTED.db` by its first node and the start of its agent;
/// where another recording has that name, with a number behind it. One that is being written is copied as it is now.
/// The copy appears complete and stored or not at all, and may be read by `readers`. Errors: no recording, no folder,
/// no room.
Result<HandedOver> hand_over(const std::string& path, const std::string& folder, Readers readers = Readers::kOwner);

/// The same for a recording that was received into `file`, which is in `folder`, is complete, and has a random
/// name until then: it is checked, and gets its own. Errors: it is no recording (ErrorKind::kCorrupt), or as above.
/// Without a name, or where a copy is there, it is removed with `file`.
Result<HandedOver> take_over(NewFile& file, const std::string& folder);

}  // namespace stalltrace::store
