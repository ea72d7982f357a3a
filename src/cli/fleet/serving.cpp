// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/serving.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <thread>
#include <utility>

#include "base/files/disposable_folder.h"
#include "base/text.h"
#include "cli/fleet/autopsy/autopsy_work.h"
#include "cli/fleet/preflight/preflight_tests.h"
#include "cli/framework/confined_reading.h"
#include "cli/framework/exit_code.h"
#include "cli/stop_signals.h"
#include "report/report_json.h"
#include "serve/http/api.h"
#include "serve/http/token.h"
#include "serve/recordings.h"
#include "store/recording_state.h"

namespace stalltrace::cli {
namespace {

/// Until `end` is readable.
void keep_silent(UniqueFd listener, Silence silence, int end) {
  SilentNodes node;
  node.add(std::move(listener), silence);
  const std::jthread taking([&node](const std::stop_token& stop) { node.run(stop); });
  pollfd ended{.fd = end, .events = POLLIN, .revents = 0};
  while (::poll(&ended, 1, -1) < 0 && errno == EINTR) {
  }
}

}  // namespace

std::vector<Flag> Serving::flags() {
  return {text_flag("--token-file", "FILE",
                    "its first line is the token that requests need; without it STALLTRACE_TOKEN is", &token_file_),
          text_flag("--tls-cert", "FILE", "a certificate in PEM, with those that signed it", &certificate_),
          text_flag("--tls-key", "FILE", "its private key in PEM", &key_),
          switch_flag("--allow-preflight",
                      "let clients with the token have this node test the network: it opens ports, and sends to others",
                      &allow_preflight_),
          switch_flag("--allow-autopsy",
                      "let clients with the token have this node look at the jobs that run on it, as `autopsy` does",
                      &allow_autopsy_),
          hidden(text_flag("--node-fault", "FAULT", "fail on purpose, as `lab run --node-fault` has it", &fault_))};
}

std::vector<Flag> Serving::accept_flags() {
  return {text_flag("--accept", "DIR",
                    "let clients with the token push recordings and findings into this folder (`stalltrace push`)",
                    &accept_),
          size_limit_flag("--accept-limit", "how much that folder may hold; a recording may have 4g at most",
                          &accept_limits_.most_bytes)};
}

Status Serving::prepare(const std::string& listen) {
  if (!fault_.empty()) {
    trouble_ = node_trouble_named(fault_).value_or(NodeTrouble::kDown);
    if (trouble_ == NodeTrouble::kDown) {
      return fail(fmt::format("--node-fault: '{}' is nothing that a server does", printable(fault_)),
                  "give hangs, slow, refuses, garbage, bad-rows or version", ErrorKind::kUsage);
    }
  }
  ST_ASSIGN(where_, serve::parse_listen_address(listen));
  // Before anything secret is in this process's memory, of which its children have a copy.
  if (allow_preflight_) {
    ST_ASSIGN(preflight_, RequestHelper::start(preflight_work()));
  }
  if (allow_autopsy_) {
    ST_ASSIGN(autopsy_, RequestHelper::start(autopsy_work()));
  }
  ST_ASSIGN(options_.token, serve::load_token(token_file_));
  if (!where_.loopback && options_.token.empty()) {
    return fail(fmt::format("at {} every client that reaches this host could ask", where_.address),
                "give --token-file, or listen at 127.0.0.1", ErrorKind::kUsage);
  }
  if (allow_preflight_ && options_.token.empty()) {
    return fail("with --allow-preflight every user of this host could have it send to others",
                "give --token-file; it is needed on loopback too", ErrorKind::kUsage);
  }
  if (allow_autopsy_ && options_.token.empty()) {
    return fail("with --allow-autopsy every user of this host could look at the jobs of others",
                "give --token-file; it is needed on loopback too", ErrorKind::kUsage);
  }
  if (accepts() && options_.token.empty()) {
    return fail("with --accept every user of this host could fill that folder",
                "give --token-file; it is needed on loopback too", ErrorKind::kUsage);
  }
  if (certificate_.empty() != key_.empty()) {
    return fail("a certificate and its key belong together", "give both --tls-cert and --tls-key", ErrorKind::kUsage);
  }
  if (!certificate_.empty()) {
    ST_ASSIGN(options_.tls, serve::load_tls_identity(certificate_, key_));
  } else if (!where_.loopback) {
    ST_ASSIGN(options_.tls, serve::make_tls_identity());
  }
  if (accepts()) {
    auto accepted = serve::AcceptedFolder::open(accept_, accept_limits_);
    if (!accepted) {
      return with_context("--accept", std::move(accepted.error()));
    }
    accepted_ = *std::move(accepted);
  }
  ST_ASSIGN(listener_, serve::listen_at(where_));
  return {};
}

std::string_view Serving::allows() const {
  return allow_preflight_ ? preflight_work().flag : allow_autopsy_ ? autopsy_work().flag : "";
}

void Serving::leave_to_child() {
  for (const auto* helper : {&preflight_, &autopsy_}) {
    if (*helper) {
      (*helper)->leave_to_child();
    }
  }
}

std::vector<std::string> Serving::announcement() const {
  std::vector<std::string> lines{fmt::format("serving at {}://{}", options_.tls ? "https" : "http",
                                             serve::format_address(where_.address, listener_.port))};
  if (options_.tls) {
    lines.push_back(fmt::format("the certificate's fingerprint, for --tls-fingerprint: {}", options_.tls->fingerprint));
  }
  if (accepted_) {
    lines.push_back("taking in what is pushed, into " + accepted_->path());
  }
  return lines;
}

Status Serving::serve(const std::vector<std::string>& files, Served which, int stop,
                      const std::function<void(const std::string&)>& announce) {
  ST_ASSIGN(const DisposableFolder copies, DisposableFolder::make("stalltrace-serve-"));
  std::vector<std::string> written{copies.path() + "/"};
  if (accepted_) {
    written.push_back(accepted_->path() + "/");
  }
  confine_to_reading(files, written);
  for (const std::string& file : files) {
    if (which == Served::kRecordings) {
      ST_TRY(store::check_recording(file));
    }
  }
  const auto recordings = serve::recordings_in_files(files);
  serve::ApiOptions api_options{.copies_folder = copies.path(), .report_to_json = report::report_to_json};
  if (preflight_) {
    api_options.preflight = [this](const serve::PreflightRequest& request) {
      return request.only_ready ? preflight_->ready() : preflight_->answer(serve::to_json(request));
    };
  }
  if (autopsy_) {
    api_options.autopsy = [this](const serve::AutopsyRequest& request) {
      return autopsy_->answer(serve::to_json(request));
    };
  }
  api_options.accepted = accepted_.get();
  serve::Api api(*recordings, std::move(api_options));
  const auto answer = [this, &api](const serve::HttpRequest& request) { return answer_with(trouble_, api, request); };
  options_.uploads = {.path = std::string(serve::Api::kUploadPath),
                      .begin = [&api](const serve::HttpRequest& request) { return api.begin_upload(request); }};
  const std::vector<std::string> lines = announcement();
  std::optional<StopSignals> signals;
  if (stop < 0) {
    signals.emplace();  // before the server's threads, which inherit that they are blocked
    if (signals->descriptor() < 0) {
      return fail_errno("serve", errno, "raise the limit of open files (ulimit -n)");
    }
  }
  const int end = signals ? signals->descriptor() : stop;
  if (const auto silence = silence_of(trouble_)) {
    std::ranges::for_each(lines, announce);
    keep_silent(std::move(listener_.socket), *silence, end);
    return {};
  }
  ST_ASSIGN(const auto server, serve::HttpServer::create(std::move(listener_.socket), answer, std::move(options_)));
  std::ranges::for_each(lines, announce);
  ST_TRY(server->run(end));
  if (signals) {
    // Nothing is open that would have to be finished: an answer that is being computed ends with us.
    ::_exit(kExitDone);
  }
  return {};
}

}  // namespace stalltrace::cli
