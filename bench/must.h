// SPDX-License-Identifier: Apache-2.0
// For benchmarks: an error ends the program with one line.
#pragma once

#include <errno.h>
#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "base/result.h"

namespace stalltrace {

[[noreturn]] inline void die(const Error& error) {
  fmt::print(stderr, "{}: {}\n", ::program_invocation_short_name, error.what);
  std::exit(1);
}
template <typename T>
T must(Result<T> result) {
  if (!result) {
    die(result.error());
  }
  return std::move(*result);
}
inline void must(const Status& status) {
  if (!status) {
    die(status.error());
  }
}

}  // namespace stalltrace
