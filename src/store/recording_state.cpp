// SPDX-License-Identifier: Apache-2.0
#include "store/recording_state.h"

#include "store/schema/open_recording.h"
#include "store/sqlite/open.h"

namespace stalltrace::store {

Status check_recording(const std::string& path) { return check_recording(path, path); }

Status check_recording(const std::string& path, const std::string& name) {
  ST_TRY(open_for_reading(path, name, ReaderKind::kSubcommand, 0));
  return {};
}

bool is_recording_written(const std::string& path) { return is_being_written(path); }

}  // namespace stalltrace::store
