// SPDX-License-Identifier: Apache-2.0
// What the server decides by a request's header alone. For the server: it brings Beast's headers.
#pragma once

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/system/error_code.hpp>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http_message.h"

namespace stalltrace::serve {

using RequestHeader = boost::beast::http::request_header<>;

/// Why a request is refused before its body is read; nothing: it is not. `token`: that requests have to bring; empty:
/// none, and the request has to name this host as an address of loopback.
std::optional<HttpAnswer> refusal(const RequestHeader& header, const std::string& token);
/// Of bytes that are no request.
HttpAnswer answer_of_parser(const boost::system::error_code& error);
/// Those of kKeptHeaders; several of one name are joined with ", ".
std::map<std::string, std::string> kept_headers(const RequestHeader& header);
/// Whether the client sends the body only once the server asks for it.
bool asks_to_go_on(const RequestHeader& header);
/// The path of a target, as far as it is one. Points into the header.
std::string_view path_of(const RequestHeader& header);

}  // namespace stalltrace::serve
