// SPDX-License-Identifier: Apache-2.0
// Errors are values. Every fallible function returns Result<T>; a boundary adds its context with `with_context`; only
// cli/ turns an Error into an exit code and a line on stderr.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace stalltrace {

enum class ErrorKind {
  kFailed,       // exit code 1
  kUsage,        // exit code 2: the command line is wrong
  kNoPrivilege,  // exit code 1: the remedy names the capability
  kUnsupported,  // exit code 1: this kernel or host can't; optional features degrade on it
  kNotFound,     // exit code 1
  kCorrupt,      // exit code 1: bytes in an invalid format
  kInterrupted,  // exit code 1: a time limit or a signal ended the work
};

/// The error and its remedy. `what` reads "outer: inner: cause"; `remedy` is a full clause for the operator, or empty.
struct Error {
  ErrorKind kind = ErrorKind::kFailed;
  std::string what;
  std::string remedy;
};

template <typename T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

inline std::unexpected<Error> fail(std::string what, std::string remedy = {}, ErrorKind kind = ErrorKind::kFailed) {
  return std::unexpected(Error{kind, std::move(what), std::move(remedy)});
}

/// Failure of a system call: appends strerror(error_number).
std::unexpected<Error> fail_errno(std::string_view what, int error_number, std::string remedy = {});

/// Passes an error on with "context: " before it.
inline std::unexpected<Error> with_context(std::string_view context, Error error) {
  error.what = std::string(context) + ": " + error.what;
  return std::unexpected(std::move(error));
}

/// Returns from the enclosing function with the error of `expression`, if it has one.
#define ST_TRY(expression)                                  \
  do {                                                      \
    if (auto st_status = (expression); !st_status) {        \
      return std::unexpected(std::move(st_status.error())); \
    }                                                       \
  } while (false)

/// `ST_ASSIGN(auto x, f())`: x becomes the value, or the enclosing function returns the error.
#define ST_CONCAT_INNER(a, b) a##b
#define ST_CONCAT(a, b) ST_CONCAT_INNER(a, b)
#define ST_ASSIGN(target, expression) ST_ASSIGN_IMPL(ST_CONCAT(st_result_, __LINE__), target, expression)
#define ST_ASSIGN_IMPL(temporary, target, expression)     \
  auto temporary = (expression);                          \
  if (!temporary) {                                       \
    return std::unexpected(std::move(temporary.error())); \
  }                                                       \
  target = std::move(*temporary)

}  // namespace stalltrace
