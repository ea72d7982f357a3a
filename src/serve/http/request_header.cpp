// SPDX-License-Identifier: Apache-2.0
#include "serve/http/request_header.h"

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>

#include "base/net/loopback.h"
#include "base/text.h"

namespace stalltrace::serve {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// "127.0.0.1:7700", "localhost", "[::1]:7700": names that only this host gives itself. A page of a browser that
/// reaches us under a name of its own (DNS rebinding) comes with that name.
bool is_own_host(std::string_view host) {
  const size_t bracket = host.find(']');
  const size_t colon = host.find(':', host.starts_with('[') && bracket != std::string_view::npos ? bracket : 0);
  if (colon != std::string_view::npos && !is_digits(host.substr(colon + 1))) {
    return false;
  }
  const std::string_view name = host.substr(0, colon);
  const bool in_brackets = name.starts_with('[') && name.ends_with(']');
  return is_localhost(name) || is_loopback(std::string(in_brackets ? name.substr(1, name.size() - 2) : name));
}

/// Of a browser, for a page of another site; its fetches without CORS have no Origin.
bool is_of_other_site(const RequestHeader& header) {
  const auto site = header["Sec-Fetch-Site"];
  return !site.empty() && site != "none" && site != "same-origin";
}

}  // namespace

std::optional<HttpAnswer> refusal(const RequestHeader& header, const std::string& token) {
  if (header.find(http::field::transfer_encoding) != header.end()) {
    // Also what makes a proxy and us disagree about a request's end: chunks in HTTP/1.0, and both kinds of length.
    return answer_of_error(411, "a request's body needs a Content-Length", "send it without Transfer-Encoding");
  }
  if (header.count(http::field::host) > 1 || header.count(http::field::authorization) > 1 ||
      header.count(http::field::content_length) > 1 ||
      (header.version() >= 11 && header.count(http::field::host) == 0)) {
    return answer_of_error(400, "a header is missing or given twice", "send Host once");
  }
  const auto length = header.find(http::field::content_length);
  if (length != header.end() && !is_digits({length->value().data(), length->value().size()})) {
    return answer_of_error(400, "Content-Length is not one number", "send it once");
  }
  if (header.find(http::field::origin) != header.end() || is_of_other_site(header)) {
    return answer_of_error(403, "this API is not for pages in a browser", "ask it with a program");
  }
  if (token.empty()) {
    const auto host = header.find(http::field::host);
    if (host != header.end() && !is_own_host({host->value().data(), host->value().size()})) {
      return answer_of_error(403, "the Host header is not an address of this host", "ask 127.0.0.1 or localhost");
    }
    return std::nullopt;
  }
  constexpr std::string_view kScheme = "bearer ";
  const auto given = header[http::field::authorization];
  const std::string_view authorization(given.data(), given.size());
  const bool bearer = beast::iequals(authorization.substr(0, kScheme.size()), kScheme);
  if (!bearer || !equal_in_constant_time(trim(authorization.substr(kScheme.size())), token)) {
    HttpAnswer answer = answer_of_error(401, bearer ? "the token is wrong" : "a token is needed",
                                        "give --token-file, or set STALLTRACE_TOKEN, as the server has it");
    answer.headers.emplace_back("WWW-Authenticate", "Bearer");
    return answer;
  }
  return std::nullopt;
}

HttpAnswer answer_of_parser(const boost::system::error_code& error) {
  if (error == http::error::header_limit) {
    return answer_of_error(431, "the request's header is too large", "");
  }
  return answer_of_error(400, "not a request in HTTP/1.1: " + error.message(), "");
}

std::map<std::string, std::string> kept_headers(const RequestHeader& header) {
  std::map<std::string, std::string> kept;
  for (const std::string_view name : kKeptHeaders) {
    const auto [first, end] = header.equal_range(name);
    for (auto field = first; field != end; ++field) {
      const std::string value(field->value().data(), field->value().size());
      const auto [known, fresh] = kept.try_emplace(std::string(name), value);
      known->second += fresh ? "" : ", " + value;
    }
  }
  return kept;
}

bool asks_to_go_on(const RequestHeader& header) {
  return header.version() >= 11 && beast::iequals(header[http::field::expect], "100-continue");
}

std::string_view path_of(const RequestHeader& header) {
  const auto target = header.target();
  return std::string_view(target.data(), target.size()).substr(0, target.find('?'));
}

}  // namespace stalltrace::serve
