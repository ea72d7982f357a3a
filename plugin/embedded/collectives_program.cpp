// SPDX-License-Identifier: Apache-2.0
#include "plugin/embedded/collectives_program.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>

#include "base/io/write_all.h"

extern "C" {
extern const char st_embedded_collectives_program[];
extern const char st_embedded_collectives_program_end[];
}

namespace stalltrace {
namespace {

constexpr unsigned kMayExecute = 0x10;  // MFD_EXEC, since Linux 6.3; an older kernel knows no files that may not
constexpr const char* kRemedy = "sysctl vm.memfd_noexec has to be 0 or 1 for this test";

}  // namespace

std::string_view collectives_program() {
  return {st_embedded_collectives_program,
          static_cast<size_t>(st_embedded_collectives_program_end - st_embedded_collectives_program)};
}

Result<UniqueFd> open_collectives_program() {
  UniqueFd made(::memfd_create("st-collectives", MFD_CLOEXEC | kMayExecute));
  if (!made && errno == EINVAL) {
    made = UniqueFd(::memfd_create("st-collectives", MFD_CLOEXEC));
  }
  if (!made) {
    return fail_errno("make a program in memory", errno, kRemedy);
  }
  UniqueFd high(::fcntl(made.get(), F_DUPFD_CLOEXEC, kFirstDescriptor));
  if (!high || !write_all(high.get(), collectives_program())) {
    return fail_errno("write a program in memory", errno);
  }
  return high;
}

}  // namespace stalltrace
