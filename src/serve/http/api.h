// SPDX-License-Identifier: Apache-2.0
// The HTTP API over recordings (docs/serve.md, docs/openapi.json): which requests there are, and their answers. Nothing
// is changed by one, and no request names a file: recordings are asked for by the names that they are served under.
// Where the operator allows it, requests do more than read: `preflight` has this node send to others, `autopsy` has it
// look at the jobs that run on it, and what agents hand over is kept in a folder of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "model/finding.h"
#include "serve/accept/accepted_folder.h"
#include "serve/host_clock.h"
#include "serve/http/row_lines.h"
#include "serve/http_message.h"
#include "serve/mcp/server.h"
#include "serve/recordings.h"
#include "serve/requests/autopsy_request.h"
#include "serve/requests/preflight_request.h"
#include "serve/rows/spool.h"

namespace stalltrace::serve {

/// The version of the API: of paths, parameters and what answers mean.
inline constexpr int kApiVersion = 1;

/// The answer to a request for what a version of the API has not. It names the version: a client of another one shows
/// this as the reason why a node failed.
HttpAnswer nothing_at_this_path(int api_version);

struct ApiOptions {
  RowLimits rows;                              // of one answer
  int64_t longest_query_ns = 60'000'000'000;   // more is not given, whatever is asked for
  int64_t query_limit_ns = 30'000'000'000;     // unless asked for
  std::string copies_folder;                   // for copies of recordings that are being written; empty: none are made
  int64_t most_rows_bytes = int64_t{4} << 30;  // of all answers with rows that are made and not yet sent
  /// The report as `explain --json` prints it.
  std::function<std::string(const Report&)> report_to_json;
  std::function<HostClock()> clock = read_host_clock;
  /// Takes part in tests between nodes; by several threads at once. Null: the operator does not allow it.
  std::function<HttpAnswer(const PreflightRequest&)> preflight = {};
  /// Looks at the jobs that run on this host; by several threads at once. Null: the operator does not allow it.
  std::function<HttpAnswer(const AutopsyRequest&)> autopsy = {};
  /// What agents hand over is kept there. Null: the operator does not allow it.
  AcceptedFolder* accepted = nullptr;
};

class Api {
 public:
  struct Route {
    std::string_view method;
    std::string_view path;
    std::string_view summary;
    HttpAnswer (Api::*handler)(const HttpRequest&);
  };
  static std::span<const Route> routes();

  Api(Recordings& recordings, ApiOptions options)
      : recordings_(recordings),
        options_(std::move(options)),
        room_for_rows_(std::make_shared<SpoolRoom>(options_.most_rows_bytes)) {}

  /// May take long (a query, an analysis). Any thread, several at once.
  HttpAnswer answer(const HttpRequest& request);

  /// Of the request whose body does not have to fit into memory: where the body goes.
  static constexpr std::string_view kUploadPath = "/v1/recordings";
  Upload begin_upload(const HttpRequest& request);

 private:
  HttpAnswer clock(const HttpRequest& request);
  HttpAnswer node(const HttpRequest& request);
  HttpAnswer query(const HttpRequest& request);
  HttpAnswer findings(const HttpRequest& request);
  HttpAnswer accept_findings(const HttpRequest& request);
  HttpAnswer recording(const HttpRequest& request);
  HttpAnswer accept_recording(const HttpRequest& request);
  HttpAnswer rows(const HttpRequest& request);
  HttpAnswer preflight(const HttpRequest& request);
  HttpAnswer autopsy(const HttpRequest& request);
  HttpAnswer mcp(const HttpRequest& request);

  Recordings& recordings_;
  ApiOptions options_;
  std::shared_ptr<SpoolRoom> room_for_rows_;  // its answers may be sent after this object is gone
  std::timed_mutex analysis_;                 // one at a time: Recordings::snapshot
  std::once_flag mcp_made_;
  std::unique_ptr<mcp::Server> mcp_;  // once it was asked: of thousands of nodes in one process few are
};

}  // namespace stalltrace::serve
