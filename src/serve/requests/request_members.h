// SPDX-License-Identifier: Apache-2.0
// Reads a request's body: a JSON object whose members are all known, of the right type and within limits.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "serve/json/json.h"

namespace stalltrace::serve {

/// Errors (kUsage): no JSON object within the limits.
Result<Json> request_object(std::string_view body, const JsonLimits& limits);

std::unexpected<Error> no_valid_member(std::string_view member);

/// Reads the members one by one; the first that is not as it has to be is the error. `object` outlives it.
class RequestMembers {
 public:
  explicit RequestMembers(const Json& object) : object_(object) {}

  int64_t number(std::string_view name, int64_t low, int64_t high);
  bool boolean(std::string_view name);
  std::string text(std::string_view name, size_t longest);
  /// The elements, of which there are `low` to `high`.
  Json::Array array(std::string_view name, size_t low, size_t high);
  std::string text_of(const Json& value, std::string_view name, size_t longest);
  void refuse(std::string_view name);
  /// After all were read: those that nothing asked for are refused too.
  Status status();

 private:
  const Json* take(std::string_view name);
  std::string refused(std::string_view name);

  const Json& object_;
  std::set<std::string> taken_;
  std::string wrong_;
};

}  // namespace stalltrace::serve
