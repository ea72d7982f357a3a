// SPDX-License-Identifier: Apache-2.0
#include "serve/http/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/text.h"
#include "base/version.h"
#include "model/events/loss_sources.h"
#include "serve/http/compressed_file.h"
#include "serve/json/json.h"
#include "serve/mcp/http.h"
#include "serve/rows/rows_answer.h"

namespace stalltrace::serve {
namespace {

constexpr std::chrono::seconds kWaitForAnalysis{20};
constexpr int64_t kInfoLimitNs = 5 * kNsPerSecond;
constexpr size_t kNodesListed = 64;  // of one recording

/// All rows of a statement of ours.
class Rows final : public RowSink {
 public:
  Status columns(const std::vector<std::string>& /*names*/) override { return {}; }
  Result<bool> row(std::span<const Value> values) override {
    rows.emplace_back(values.begin(), values.end());
    return rows.size() < kNodesListed;
  }
  std::vector<std::vector<Value>> rows;
};

Json json_of(const Value& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    return *integer;
  }
  if (const auto* real = std::get_if<double>(&value)) {
    return *real;
  }
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? Json() : Json(*text);
}

/// Rows as objects with `names` as keys; null if they can't be read, as in a recording of an older schema.
Json objects(Recordings& recordings, std::string_view recording, std::string_view sql,
             std::span<const std::string_view> names) {
  Rows found;
  if (!recordings.query(recording, sql, {.time_limit_ns = kInfoLimitNs}, found)) {
    return {};
  }
  Json all = Json::array();
  for (const auto& row : found.rows) {
    Json one = Json::object();
    for (size_t i = 0; i < names.size() && i < row.size(); ++i) {
      one.set(names[i], json_of(row[i]));
    }
    all.push_back(std::move(one));
  }
  return all;
}

Json first_of(Json rows) { return rows.size() == 0 ? Json() : (*rows.values())[0]; }

/// The sum that a report has; null where the losses can't be read.
Json lost_events(const Json& losses) {
  if (losses.values() == nullptr) {
    return {};
  }
  int64_t sum = 0;
  for (const Json& loss : *losses.values()) {
    const std::string* source = loss.find("source")->text();
    const int64_t* count = loss.find("count")->integer();
    if (source != nullptr && count != nullptr && loses_events(*source)) {
      sum += *count;
    }
  }
  return sum;
}

/// The nodes' names, and what distinguishes their runs from all others.
struct NodeTexts {
  std::vector<std::string> names;
  std::vector<std::string> runs;
};

NodeTexts node_texts(Recordings& recordings, std::string_view recording) {
  Rows found;
  NodeTexts texts;
  constexpr std::string_view kSql =
      "SELECT name, node_id || ' ' || started_ns || ' ' || ifnull(boot_id, '') FROM node ORDER BY node_id";
  if (recordings.query(recording, kSql, {.time_limit_ns = kInfoLimitNs}, found)) {
    for (const auto& row : found.rows) {
      const auto* name = std::get_if<std::string>(row.data());
      const auto* run = std::get_if<std::string>(&row[1]);
      texts.names.push_back(name == nullptr ? "" : *name);
      texts.runs.push_back(run == nullptr ? "" : *run);
    }
  }
  return texts;
}

/// The parameter as a number within [1, most]; `usual` if it is not given.
Result<int64_t> number_of(const HttpRequest& request, const std::string& name, int64_t usual, int64_t most) {
  const auto given = request.query.find(name);
  if (given == request.query.end()) {
    return usual;
  }
  const auto number = parse_integer(given->second);
  if (!number || *number < 1) {
    return fail(fmt::format("{} is a whole number above 0", name), {}, ErrorKind::kUsage);
  }
  return std::min(*number, most);
}

/// The parameter `recording`; every recording without it.
Result<std::vector<std::string>> recordings_meant(Recordings& recordings, const HttpRequest& request) {
  const auto given = request.query.find("recording");
  std::vector<std::string> meant;
  for (const Recordings::Info& info : recordings.list()) {
    if (given == request.query.end() || given->second == info.name) {
      meant.push_back(info.name);
    }
  }
  if (meant.empty()) {
    return fail("no recording of that name is served here", "GET /v1/node lists them", ErrorKind::kNotFound);
  }
  return meant;
}

Result<std::string> one_recording_meant(Recordings& recordings, const HttpRequest& request) {
  ST_ASSIGN(std::vector<std::string> meant, recordings_meant(recordings, request));
  if (meant.size() > 1) {
    return fail("several recordings are served: name one", "?recording=NAME; GET /v1/node lists them",
                ErrorKind::kUsage);
  }
  return std::move(meant.front());
}

HttpAnswer takes_nothing() {
  return answer_of_error(403, "this server takes nothing in", "start it with --accept DIR if agents may push to it");
}

}  // namespace

HttpAnswer nothing_at_this_path(int api_version) {
  return answer_of_error(404, fmt::format("there is nothing at this path in version {} of the API", api_version),
                         "use the same version of stalltrace on both sides; docs/serve.md lists what there is");
}

std::span<const Api::Route> Api::routes() {
  static constexpr std::array<Route, 11> kRoutes{
      {{"GET", "/v1/clock", "this host's clock now", &Api::clock},
       {"GET", "/v1/node", "versions, and the recordings that are served", &Api::node},
       {"POST", "/v1/query", "runs one SELECT on each recording", &Api::query},
       {"GET", "/v1/findings", "the report of all recordings together", &Api::findings},
       {"POST", "/v1/findings", "takes in findings of an agent", &Api::accept_findings},
       {"GET", "/v1/recording", "one recording as it is now", &Api::recording},
       {"POST", Api::kUploadPath, "takes in a recording", &Api::accept_recording},
       {"POST", "/v1/rows", "rows of one recording, for an analysis elsewhere", &Api::rows},
       {"POST", "/v1/preflight", "takes part in tests of the network between nodes", &Api::preflight},
       {"POST", "/v1/autopsy", "looks at the jobs that run on this host", &Api::autopsy},
       {"POST", "/mcp", "a message of the Model Context Protocol", &Api::mcp}}};
  return kRoutes;
}

HttpAnswer Api::answer(const HttpRequest& request) {
  bool known = false;
  for (const Route& route : routes()) {
    if (route.path != request.path) {
      continue;
    }
    known = true;
    if (route.method == request.method) {
      return (this->*route.handler)(request);
    }
  }
  if (!known) {
    return nothing_at_this_path(kApiVersion);
  }
  HttpAnswer answer = answer_of_error(405, "this path takes another method", "docs/serve.md lists what there is");
  std::string methods;
  for (const Route& route : routes()) {
    if (route.path == request.path) {
      methods += fmt::format("{}{}", methods.empty() ? "" : ", ", route.method);
    }
  }
  answer.headers.emplace_back("Allow", std::move(methods));
  return answer;
}

HttpAnswer Api::clock(const HttpRequest& /*request*/) {
  const HostClock clock = options_.clock();
  return {.body = Json::object({{"api", kApiVersion},
                                {"now_ns", clock.now_ns},
                                {"monotonic_ns", clock.monotonic_ns},
                                {"boot_id", clock.boot_id}})
                      .dump() +
                  "\n"};
}

HttpAnswer Api::node(const HttpRequest& /*request*/) {
  constexpr std::array<std::string_view, 6> kOfNode{"node_id", "name", "hostname", "boot_id", "kernel", "started_ns"};
  constexpr std::array<std::string_view, 3> kOfRange{"from_ns", "to_ns", "collectives"};
  constexpr std::array<std::string_view, 2> kOfLoss{"source", "count"};
  Json all = Json::array();
  for (const Recordings::Info& info : recordings_.list()) {
    Json one = Json::object({{"name", info.name}, {"being_written", info.being_written}, {"bytes", info.size_bytes}});
    if (info.problem) {
      one.set("problem", info.problem->what);
      all.push_back(std::move(one));
      continue;
    }
    const auto ask = [&](std::string_view sql, std::span<const std::string_view> names) {
      return objects(recordings_, info.name, sql, names);
    };
    one.set("nodes",
            ask("SELECT node_id, name, hostname, boot_id, kernel, started_ns FROM node ORDER BY node_id", kOfNode));
    one.set("range", first_of(ask("SELECT min(timestamp_ns), max(timestamp_ns), count(*) FROM collective", kOfRange)));
    one.set("lost_events", lost_events(ask("SELECT source, sum(count) FROM loss GROUP BY source", kOfLoss)));
    all.push_back(std::move(one));
  }
  Json answer = Json::object({{"api", kApiVersion}, {"version", program_version()}});
  const HostClock clock = options_.clock();
  answer.set("now_ns", clock.now_ns);
  answer.set("utc_error_ns", clock.utc_error_ns ? Json(*clock.utc_error_ns) : Json());
  answer.set("recordings", std::move(all));
  return {.body = answer.dump() + "\n"};
}

HttpAnswer Api::query(const HttpRequest& request) {
  const auto meant = recordings_meant(recordings_, request);
  const auto most = number_of(request, "limit", options_.rows.rows, options_.rows.rows);
  const auto limit_ms = number_of(request, "timeout_ms", options_.query_limit_ns / kNsPerMs, INT32_MAX);
  for (const Error* error :
       {meant ? nullptr : &meant.error(), most ? nullptr : &most.error(), limit_ms ? nullptr : &limit_ms.error()}) {
    if (error != nullptr) {
      return answer_of_error(*error);
    }
  }
  const int64_t deadline_ns = monotonic_now_ns() + std::min(*limit_ms * kNsPerMs, options_.longest_query_ns);
  RowLines lines({.rows = *most, .bytes = options_.rows.bytes});
  for (const std::string& name : *meant) {
    NodeTexts nodes = node_texts(recordings_, name);
    lines.begin_recording(name, std::move(nodes.names), std::move(nodes.runs));
    const int64_t left_ns = std::max<int64_t>(deadline_ns - monotonic_now_ns(), 1);
    const Recordings::QueryEnd end{.time_limit_ns = left_ns, .cancelled = request.gone};
    if (const Status asked = recordings_.query(name, request.body, end, lines); !asked) {
      return answer_of_error(asked.error());
    }
    if (lines.truncated()) {
      break;
    }
  }
  return {.content_type = "application/x-ndjson", .body = lines.take()};
}

HttpAnswer Api::findings(const HttpRequest& request) {
  const std::unique_lock turn(analysis_, kWaitForAnalysis);
  if (!turn) {
    return answer_of_error(503, "another analysis is still running", "ask again later");
  }
  if (request.gone != nullptr && *request.gone) {
    return answer_of_error(503, "no client waits for this analysis", "");
  }
  auto snapshot = recordings_.snapshot();
  if (!snapshot) {
    return answer_of_error(snapshot.error());
  }
  const auto report = (*snapshot)->report();
  return report ? HttpAnswer{.body = options_.report_to_json(**report)} : answer_of_error(report.error());
}

HttpAnswer Api::accept_findings(const HttpRequest& request) {
  return options_.accepted == nullptr ? takes_nothing() : options_.accepted->add_findings(request.body);
}

Upload Api::begin_upload(const HttpRequest& request) {
  if (request.method != "POST") {
    return {.body = nullptr, .refusal = answer(request)};
  }
  return options_.accepted == nullptr ? Upload{.body = nullptr, .refusal = takes_nothing()}
                                      : options_.accepted->begin_recording(request);
}

/// Of a transport that keeps the whole body.
HttpAnswer Api::accept_recording(const HttpRequest& request) {
  const Upload upload = begin_upload(request);
  if (!upload.body) {
    return upload.refusal;
  }
  auto refused = upload.body->add(request.body);
  return refused ? *std::move(refused) : upload.body->finish();
}

HttpAnswer Api::recording(const HttpRequest& request) {
  const auto meant = one_recording_meant(recordings_, request);
  if (!meant) {
    return answer_of_error(meant.error());
  }
  auto file = recordings_.open_copy(*meant, options_.copies_folder);
  if (!file) {
    return answer_of_error(file.error());
  }
  auto pieces = CompressedFile::open(*std::move(file));
  if (!pieces) {
    return answer_of_error(pieces.error());
  }
  HttpAnswer answer{.content_type = "application/zstd"};
  answer.headers.emplace_back("Stalltrace-Bytes", fmt::format("{}", (*pieces)->size_bytes()));
  answer.next_piece = [shared = *pieces] { return shared->next(); };
  return answer;
}

HttpAnswer Api::rows(const HttpRequest& request) {
  const auto wanted = parse_rows_request(request.body);
  if (!wanted) {
    return answer_of_error(wanted.error());
  }
  const auto meant = one_recording_meant(recordings_, request);
  if (!meant) {
    return answer_of_error(meant.error());
  }
  const auto snapshot = recordings_.own_snapshot(*meant);
  if (!snapshot) {
    return answer_of_error(snapshot.error());
  }
  auto answer = rows_answer(**snapshot, *wanted,
                            {.folder = options_.copies_folder, .gone = request.gone, .room = room_for_rows_});
  return answer ? *std::move(answer) : answer_of_error(answer.error());
}

HttpAnswer Api::preflight(const HttpRequest& request) {
  if (!options_.preflight) {
    return answer_of_error(403, "this server takes no part in tests of the network",
                           "start it with --allow-preflight if it may send to other nodes");
  }
  const auto wanted = parse_preflight_request(request.body);
  return wanted ? options_.preflight(*wanted) : answer_of_error(wanted.error());
}

HttpAnswer Api::autopsy(const HttpRequest& request) {
  if (!options_.autopsy) {
    return answer_of_error(403, "this server does not look at the jobs of its host",
                           "start it with --allow-autopsy if clients may learn what runs there");
  }
  const auto wanted = parse_autopsy_request(request.body);
  return wanted ? options_.autopsy(*wanted) : answer_of_error(wanted.error());
}

HttpAnswer Api::mcp(const HttpRequest& request) {
  std::call_once(mcp_made_, [this] { mcp_ = std::make_unique<mcp::Server>(recordings_, &analysis_); });
  return mcp::answer_http(*mcp_, request);
}

}  // namespace stalltrace::serve
