// SPDX-License-Identifier: Apache-2.0
#include "serve/http_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "serve/json/json.h"

namespace stalltrace::serve {
namespace {

constexpr size_t kLongestTarget = 4096;

int status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
      return 400;
    case ErrorKind::kNotFound:
      return 404;
    case ErrorKind::kInterrupted:
      return 504;
    default:
      return 500;
  }
}

int digit(char c) {
  const bool letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  return c >= '0' && c <= '9' ? c - '0' : letter ? (c | 0x20) - 'a' + 10 : -1;
}

/// Nothing if it has a wrong escape or a control character.
std::optional<std::string> decoded(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return std::nullopt;
      }
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      return std::nullopt;
    }
    plain += c;
  }
  return plain;
}

}  // namespace

HttpAnswer answer_of_error(int status, std::string_view what, std::string_view remedy) {
  HttpAnswer answer{.status = status};
  answer.body = Json::object({{"error", what}, {"remedy", remedy}}).dump() + "\n";
  return answer;
}

HttpAnswer answer_of_error(const Error& error) {
  return answer_of_error(status_of(error.kind), error.what, error.remedy);
}

Status read_target(std::string_view target, HttpRequest& request) {
  const auto refuse = [] {
    return fail("the request's target is not a path of this API", "docs/serve.md lists them", ErrorKind::kUsage);
  };
  const size_t mark = target.find('?');
  auto path = decoded(target.substr(0, mark));
  if (target.size() > kLongestTarget || !path || !path->starts_with('/')) {
    return refuse();
  }
  request.path = *std::move(path);
  if (mark == std::string_view::npos) {
    return {};
  }
  for (const std::string_view pair : split(target.substr(mark + 1), '&')) {
    const size_t equals = pair.find('=');
    auto key = decoded(pair.substr(0, equals));
    auto value = decoded(equals == std::string_view::npos ? "" : pair.substr(equals + 1));
    if (!key || !value) {
      return refuse();
    }
    request.query[*key] = *std::move(value);
  }
  return {};
}

std::string percent_encoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '-' || c == '.' ||
                       c == '_' || c == '~';
    encoded += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned different = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    const char other = b.empty() ? '\0' : b[i % b.size()];
    different |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(other);
  }
  return static_cast<volatile unsigned&>(different) == 0;
}

}  // namespace stalltrace::serve
