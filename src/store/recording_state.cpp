// SPDX-License-Identifier: Apache-2.0
#include "store/recording_state.h"

#include "store/sqlite/open.h"

namespace stalltrace::store {

Status check_recording(const std::string& path) {
  ST_TRY(open_for_reading(path));
  return {};
}

bool is_recording_written(const std::string& path) { return is_being_written(path); }

}  // namespace stalltrace::store
