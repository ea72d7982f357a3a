// SPDX-License-Identifier: Apache-2.0
#include "base/process/descriptor_limit.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

namespace stalltrace {

Status allow_open_files(size_t files, std::string_view what, std::string_view other_remedy) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return fail_errno("the limit of open files", errno);
  }
  if (files <= limit.rlim_cur) {
    return {};
  }
  if (files > limit.rlim_max) {
    return fail(fmt::format("{} need {} open files, the limit is {}", what, files, limit.rlim_max),
                fmt::format("raise it (ulimit -Hn {}, as root), or {}", files, other_remedy));
  }
  limit.rlim_cur = files;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? Status() : fail_errno("the limit of open files", errno);
}

size_t raise_open_files(size_t files) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return 0;
  }
  const rlim_t before = limit.rlim_cur;
  if (files <= before) {
    return before;
  }
  limit.rlim_cur = std::min<rlim_t>(files, limit.rlim_max);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

}  // namespace stalltrace
