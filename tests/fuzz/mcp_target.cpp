// SPDX-License-Identifier: Apache-2.0
// Fuzzes the request path of the MCP server, by the first byte: lines of a client on a pipe, where it chooses the
// session, or one request over HTTP. The recording behind it is small and valid: recording_target.cpp makes it hostile.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "serve/mcp/connection.h"
#include "serve/mcp/http.h"
#include "tests/fuzz/mcp_answers.h"
#include "tests/fuzz/small_recording.h"

using namespace stalltrace;
using fuzz::require;

namespace {

/// Files whose queries end soon.
class Impatient final : public serve::Recordings {
 public:
  Impatient() {
    char name[] = "/dev/shm/stalltrace-fuzz-XXXXXX";
    require(::mkdtemp(name) != nullptr);
    folder_ = name;
    fuzz::write_small_recording(folder_ + "/r.db");
    files_ = serve::recordings_in_files({folder_ + "/r.db"});
  }
  ~Impatient() override { std::filesystem::remove_all(folder_); }
  Impatient(const Impatient&) = delete;
  Impatient& operator=(const Impatient&) = delete;

  std::vector<Info> list() override { return files_->list(); }
  Result<std::shared_ptr<serve::Snapshot>> snapshot(std::string_view name) override { return files_->snapshot(name); }
  Result<std::shared_ptr<serve::Snapshot>> own_snapshot(std::string_view name) override {
    return files_->own_snapshot(name);
  }
  Result<UniqueFd> open_copy(std::string_view name, const std::string& folder) override {
    return files_->open_copy(name, folder);
  }
  Status query(std::string_view name, std::string_view sql, const QueryEnd& end, RowSink& sink) override {
    return files_->query(name, sql, {std::min(end.time_limit_ns, 100 * kNsPerMs), end.cancelled}, sink);
  }

 private:
  std::string folder_;
  std::unique_ptr<serve::Recordings> files_;
};

constexpr std::array kOpenings{"", "2024-11-05", "2025-03-26", "2025-11-25"};
constexpr uint8_t kOverHttp = 0x80;

/// Lines with the values of kKeptHeaders, in their order, then the body. An empty line stands for no such header.
void ask_over_http(serve::mcp::Server& server, std::string_view input) {
  serve::HttpRequest request{.method = "POST", .path = "/mcp"};
  for (const std::string_view name : serve::kKeptHeaders) {
    const size_t end = std::min(input.find('\n'), input.size());
    if (end > 0) {
      request.headers.emplace(name, input.substr(0, end));
    }
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  request.body = input;
  const serve::HttpAnswer answer = serve::mcp::answer_http(server, request);
  require(answer.status == 200 || answer.status == 202 || (answer.status >= 400 && answer.status < 500));
  require(answer.body.empty() == (answer.status == 202));
  if (answer.status < 405 && !answer.body.empty()) {
    fuzz::check_line(std::string_view(answer.body).substr(0, answer.body.size() - 1));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Impatient recordings;
  static serve::mcp::Server server(recordings);
  if (size > 0 && (data[0] & kOverHttp) != 0) {
    ask_over_http(server, {reinterpret_cast<const char*>(data) + 1, size - 1});
    return 0;
  }
  serve::mcp::Connection connection(server);
  const auto answer = [&] {
    while (!connection.idle()) {
      if (const std::optional<std::string> line = connection.next()) {
        fuzz::check_line(*line);
      }
    }
  };
  const std::string_view opening = kOpenings[size == 0 ? 0 : data[0] % kOpenings.size()];
  if (!opening.empty()) {
    connection.receive(R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":")" +
                       std::string(opening) + R"("}})");
    answer();
  }
  const std::string_view input(reinterpret_cast<const char*>(data) + (size == 0 ? 0 : 1), size == 0 ? 0 : size - 1);
  for (const std::string_view line : split(input, '\n')) {
    connection.receive(line);
    if (connection.full()) {
      answer();
    }
  }
  answer();
  return 0;
}
