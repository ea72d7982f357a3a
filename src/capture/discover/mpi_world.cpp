// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/mpi_world.h"

#include "base/hash.h"

namespace stalltrace::capture {

uint64_t job_key(std::string_view job_id, const Environment& environment) {
  const std::string_view port = value_of(environment, "MASTER_PORT");
  if (job_id.empty() && port.empty()) {
    return 0;
  }
  return splitmix64_text(port, splitmix64_text(job_id));
}

}  // namespace stalltrace::capture
