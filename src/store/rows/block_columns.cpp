// SPDX-License-Identifier: Apache-2.0
#include "store/rows/block_columns.h"

#include <fmt/format.h>

namespace stalltrace::store {

std::unexpected<Error> bad_rows(std::string_view table, std::string_view what) {
  return fail(fmt::format("the rows of {} that it sends are {}", table, what),
              "use the same version of stalltrace on both sides, and ask again", ErrorKind::kCorrupt);
}

void BlockColumns::add(std::string name, IntegerForm form, bool microseconds) {
  using Part = Column::Part;
  const Part part = name == "timestamp_ns"   ? Part::kBegin
                    : name == "duration_ns"  ? Part::kDuration
                    : name == "seq"          ? Part::kSequence
                    : name == "comm_id_hash" ? Part::kCommunicator
                                             : Part::kOther;
  columns.push_back({.name = std::move(name), .form = form, .microseconds = microseconds, .part = part});
}

}  // namespace stalltrace::store
