// SPDX-License-Identifier: Apache-2.0
// Fuzzes what servers and clients of recordings read of each other, by the first byte: the target of a request, the
// rows of an answer, a list of nodes, a hosts file. Nothing crashes, and what was read survives another round.
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fleet/node_list.h"
#include "fleet/resolve.h"
#include "serve/http/row_lines.h"
#include "serve/http_message.h"

using namespace stalltrace;

namespace {

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void read_a_target(std::string_view text) {
  serve::HttpRequest request;
  if (!serve::read_target(text, request)) {
    return;
  }
  std::string again = "/x?";
  for (const auto& [name, value] : request.query) {
    again += serve::percent_encoded(name) + "=" + serve::percent_encoded(value) + "&";
  }
  serve::HttpRequest second;
  if (serve::read_target(again, second)) {  // else the longer form exceeds the limit
    second.query.erase("");
    request.query.erase("");
    require(second.query == request.query);
  }
}

/// Writes down what it is given, as a server would.
class Copy final : public serve::RowLinesSink {
 public:
  void runs(std::span<const std::string> runs) override { runs_.assign(runs.begin(), runs.end()); }
  Status recording(std::string_view name, std::span<const std::string> nodes,
                   const std::vector<std::string>& columns) override {
    lines.begin_recording(std::string(name), {nodes.begin(), nodes.end()}, std::exchange(runs_, {}));
    return lines.columns(columns);
  }
  Status row(std::span<const Value> values) override {
    require(lines.row(values).value_or(false));
    return {};
  }
  serve::RowLines lines{{}};

 private:
  std::vector<std::string> runs_;
};

void read_rows(std::string_view text) {
  Copy first;
  if (!serve::read_row_lines(text, first)) {
    return;
  }
  const std::string once = first.lines.take();
  Copy second;
  require(serve::read_row_lines(once, second).has_value());
  require(second.lines.take() == once);
}

void read_nodes(std::string_view text) {
  if (text.find('@') != std::string_view::npos) {
    return;  // a file
  }
  const auto nodes = fleet::parse_node_list(text);
  for (const fleet::NodeAddress& node : nodes ? *nodes : std::vector<fleet::NodeAddress>()) {
    require(!node.host.empty() && node.port != 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      read_a_target(text);
      break;
    case 1:
      read_rows(text);
      break;
    case 2:
      read_nodes(text);
      break;
    default:
      fleet::parse_hosts(text);
  }
  return 0;
}
