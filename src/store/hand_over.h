// SPDX-License-Identifier: Apache-2.0
// A recording's way into a folder that collects those of many nodes, such as one on a file server.
#pragma once

#include <string>

#include "base/files/own_folder.h"
#include "base/result.h"

namespace stalltrace::store {

struct HandedOver {
  std::string path;
  bool was_there = false;  // a copy with the same bytes
};

/// Copies the recording at `path` into `folder`, as `NODE-STARTED.db` by its first node and the start of its agent;
/// where another recording has that name, with a number behind it. One that is being written is copied as it is now.
/// The copy appears complete and stored or not at all, and may be read by `readers`. Errors: no recording, no folder,
/// no room.
Result<HandedOver> hand_over(const std::string& path, const std::string& folder, Readers readers = Readers::kOwner);

}  // namespace stalltrace::store
