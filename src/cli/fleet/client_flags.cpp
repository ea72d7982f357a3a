// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/client_flags.h"

#include <fmt/format.h>

#include <utility>

#include "base/file.h"
#include "serve/http/tls.h"
#include "serve/http/token.h"

namespace stalltrace::cli {

Flag ClientFlags::token_flag() {
  return text_flag("--token-file", "FILE", "its first line is the servers' token; without it STALLTRACE_TOKEN is",
                   &token_file_);
}

std::vector<Flag> ClientFlags::certificate_flags() {
  return {
      texts_flag("--tls-fingerprint", "SHA256", "take servers with this certificate", &fingerprints_),
      text_flag("--tls-ca", "FILE", "take servers whose certificate one of these (PEM) signed", &authorities_file_)};
}

Result<fleet::ClientOptions> ClientFlags::load(const std::string& token_file) const {
  fleet::ClientOptions client;
  ST_ASSIGN(client.token, serve::load_token(token_file));
  client.plain_token = token_file.empty() ? "" : client.token;
  for (const std::string& text : fingerprints_) {
    auto fingerprint = serve::parse_fingerprint(text);
    if (!fingerprint) {
      return with_context("--tls-fingerprint", std::move(fingerprint.error()));
    }
    client.fingerprints.push_back(*std::move(fingerprint));
  }
  if (!authorities_file_.empty()) {
    auto authorities = read_file(authorities_file_);
    if (!authorities) {
      return with_context("--tls-ca", std::move(authorities.error()));
    }
    client.authorities = *std::move(authorities);
    if (client.authorities.find("-----BEGIN ") == std::string::npos) {
      return fail(fmt::format("--tls-ca: {} has no certificate in PEM", authorities_file_),
                  "give the certificate of the authority that signed those of the nodes", ErrorKind::kUsage);
    }
  }
  return client;
}

}  // namespace stalltrace::cli
