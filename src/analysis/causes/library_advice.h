// SPDX-License-Identifier: Apache-2.0
// Advice that differs by the library of the calls: its variables, its calls, and whether devices take part.
#pragma once

#include <cstdint>
#include <string_view>

#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

struct LibraryAdvice {
  std::string_view interface_setting;  // what chooses the network interface
  std::string_view address;            // what else the ranks find each other by, as "MASTER_ADDR and MASTER_PORT, "
  std::string_view inside;             // where to look if all ranks are inside a call and no data move
  std::string_view all_recorded;       // where to look if no evidence is missing
  std::string_view reading;            // what makes a process read slowly what it receives, after "its"
  std::string_view group_calls;        // how Sends and Recvs that depend on each other are put together
};

const LibraryAdvice& advice_for(Library library);
/// The library that made the group's calls.
Library library_of(const Timeline& timeline, uint32_t group);

}  // namespace stalltrace::analysis
