// SPDX-License-Identifier: Apache-2.0
// `stalltrace serve`: recordings of this node over HTTP.
#include <fmt/format.h>
#include <unistd.h>

#include <optional>

#include "base/files/disposable_folder.h"
#include "cli/framework/confined_reading.h"
#include "cli/framework/exit_code.h"
#include "cli/verbs/verbs.h"
#include "report/report_json.h"
#include "serve/http/api.h"
#include "serve/http/listener.h"
#include "serve/http/server.h"
#include "serve/http/token.h"
#include "store/recording_state.h"

namespace stalltrace::cli {
namespace {

class ServeVerb final : public Subcommand {
 public:
  [[nodiscard]] VerbInfo info() const override {
    return {.name = "serve",
            .summary = "answer questions about this node's recordings over HTTP",
            .example = "stalltrace serve node0.db --listen 127.0.0.1:7700",
            .details =
                "For query, explain and nodes with --nodes, and for any HTTP client (docs/serve.md has the API).\n"
                "A recording may still be written: each answer is of its current state. Nothing is changed.\n"
                "At an address of loopback every user of this host may ask. At any other, requests need the token,\n"
                "and TLS is on: with your certificate, or with one that is made now, whose fingerprint is printed."};
  }
  std::vector<Flag> flags() override {
    return {
        arguments("FILE", "recordings", &files_),
        text_flag("--listen", "ADDR:PORT", "where to listen; port 0: any that is free", &listen_),
        text_flag("--token-file", "FILE", "its first line is the token; without it STALLTRACE_TOKEN is", &token_file_),
        text_flag("--tls-cert", "FILE", "a certificate in PEM, with those that signed it", &certificate_),
        text_flag("--tls-key", "FILE", "its private key in PEM", &key_)};
  }
  Result<int> run(Console& console) override {
    ST_ASSIGN(const serve::ListenAddress where, serve::parse_listen_address(listen_));
    serve::ServerOptions options;
    ST_ASSIGN(options.token, serve::load_token(token_file_));
    if (!where.loopback && options.token.empty()) {
      return fail(fmt::format("at {} everybody who reaches this host could ask", where.address),
                  "give --token-file, or listen at 127.0.0.1", ErrorKind::kUsage);
    }
    ST_ASSIGN(options.tls, identity(where));
    ST_ASSIGN(serve::Listener listener, serve::listen_at(where));
    ST_ASSIGN(const DisposableFolder copies, DisposableFolder::make("stalltrace-serve-"));
    confine_to_reading(files_, copies.path() + "/");
    for (const std::string& file : files_) {
      ST_TRY(store::check_recording(file));
    }
    const auto recordings = serve::recordings_in_files(files_);
    serve::Api api(*recordings, {.copies_folder = copies.path(), .report_to_json = report::report_to_json});
    const auto answer = [&api](const serve::HttpRequest& request) { return api.answer(request); };
    const bool tls = options.tls.has_value();
    const std::string fingerprint = tls ? options.tls->fingerprint : "";
    ST_ASSIGN(const auto server, serve::HttpServer::create(std::move(listener.socket), answer, std::move(options)));
    console.note(
        fmt::format("serving at {}://{}", tls ? "https" : "http", serve::format_address(where.address, listener.port)));
    if (tls) {
      console.note(fmt::format("the certificate's fingerprint, for --tls-fingerprint: {}", fingerprint));
    }
    server->run(true);
    return kExitDone;
  }

 private:
  /// None on loopback, unless a certificate is given.
  Result<std::optional<serve::TlsIdentity>> identity(const serve::ListenAddress& where) const {
    if (certificate_.empty() != key_.empty()) {
      return fail("a certificate and its key belong together", "give both --tls-cert and --tls-key", ErrorKind::kUsage);
    }
    if (certificate_.empty() && where.loopback) {
      return std::nullopt;
    }
    auto made = certificate_.empty() ? serve::make_tls_identity() : serve::load_tls_identity(certificate_, key_);
    if (!made) {
      return std::unexpected(std::move(made.error()));
    }
    return std::optional(*std::move(made));
  }

  std::vector<std::string> files_;
  std::string listen_ = "127.0.0.1:7700";
  std::string token_file_;
  std::string certificate_;
  std::string key_;
};

}  // namespace

std::unique_ptr<Subcommand> make_serve_verb() { return std::make_unique<ServeVerb>(); }

}  // namespace stalltrace::cli
