// SPDX-License-Identifier: Apache-2.0
// No recordings: for what does not depend on them.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "serve/recordings.h"

namespace stalltrace::serve {

class NoRecordings : public Recordings {
 public:
  std::vector<Info> list() override { return {}; }
  Result<std::shared_ptr<Snapshot>> snapshot(std::string_view /*name*/) override { return fail("there is nothing"); }
  Result<std::shared_ptr<Snapshot>> own_snapshot(std::string_view /*name*/) override {
    return fail("there is nothing");
  }
  Status query(std::string_view /*name*/, std::string_view /*sql*/, const QueryEnd& /*end*/,
               RowSink& /*sink*/) override {
    return fail("there is nothing");
  }
  Result<UniqueFd> open_copy(std::string_view /*name*/, const std::string& /*folder*/) override {
    return fail("there is nothing");
  }
};

}  // namespace stalltrace::serve
