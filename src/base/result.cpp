// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <cerrno>
#include <system_error>

namespace stalltrace {

std::unexpected<Error> fail_errno(std::string_view what, int error_number, std::string remedy) {
  const ErrorKind kind = (error_number == EPERM || error_number == EACCES) ? ErrorKind::kNoPrivilege
                         : error_number == ENOENT                          ? ErrorKind::kNotFound
                                                                           : ErrorKind::kFailed;
  return fail(std::string(what) + ": " + std::generic_category().message(error_number), std::move(remedy), kind);
}

}  // namespace stalltrace
