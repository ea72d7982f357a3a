// SPDX-License-Identifier: Apache-2.0
#include "fleet/query.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "serve/http/row_lines.h"

namespace stalltrace::fleet {
namespace {

constexpr size_t kMostBytes = 17 << 20;  // a little more than a server sends (serve::RowLimits)

class SqlConversation final : public Conversation {
 public:
  SqlConversation(std::string_view sql, int64_t limit_ms) : sql_(sql), limit_ms_(limit_ms) {}

  Result<std::optional<Question>> next(Reply* last) override {
    if (last != nullptr) {
      lines = std::move(last->body);
      return std::nullopt;
    }
    Question question{
        .method = "POST", .target = fmt::format("/v1/query?timeout_ms={}", limit_ms_), .body = std::string(sql_)};
    question.most_bytes = kMostBytes;
    return question;
  }

  std::string lines;

 private:
  std::string_view sql_;
  int64_t limit_ms_;
};

/// The rows of one node, kept until all of them were read.
class NodeRows final : public serve::RowLinesSink {
 public:
  explicit NodeRows(std::string address) : address_(std::move(address)) {}

  Status recording(std::string_view name, std::span<const std::string> nodes,
                   const std::vector<std::string>& names) override {
    if (columns && *columns != names) {
      return fail("its recordings answer with different columns", "name the columns instead of SELECT *");
    }
    columns = names;
    recording_ = nodes.size() == 1 && !nodes[0].empty() ? nodes[0] : fmt::format("{}/{}", address_, name);
    return {};
  }
  Status row(std::span<const Value> values) override {
    std::vector<Value> row{recording_};
    row.insert(row.end(), values.begin(), values.end());
    rows.push_back(std::move(row));
    return {};
  }

  std::optional<std::vector<std::string>> columns;
  std::vector<std::vector<Value>> rows;

 private:
  std::string address_;
  std::string recording_;
};

}  // namespace

Result<FleetAnswer> query_nodes(std::span<const NodeAddress> nodes, std::string_view sql, const ClientOptions& options,
                                RowSink& sink) {
  const int64_t limit_ms =
      std::max<int64_t>(options.limit.count() * 9 / 10, 1);  // to say itself that it takes too long
  std::vector<std::unique_ptr<SqlConversation>> asked;
  std::vector<Conversation*> conversations;
  for (size_t i = 0; i < nodes.size(); ++i) {
    asked.push_back(std::make_unique<SqlConversation>(sql, limit_ms));
    conversations.push_back(asked.back().get());
  }
  std::vector<Status> ended = converse(nodes, conversations, options);
  FleetAnswer answer;
  std::optional<std::vector<std::string>> columns;
  bool wanted = true;
  for (size_t i = 0; i < nodes.size(); ++i) {
    NodeRows rows(nodes[i].shown());
    Result<bool> truncated = ended[i] ? serve::read_row_lines(std::exchange(asked[i]->lines, {}), rows)
                                      : Result<bool>(std::unexpected(std::move(ended[i].error())));
    if (truncated && columns && rows.columns != columns) {
      truncated = fail("it answers with other columns than the first node", "name the columns instead of SELECT *");
    }
    if (!truncated) {
      answer.failed.push_back({nodes[i].shown(), std::move(truncated.error())});
      continue;
    }
    ++answer.answered;
    if (*truncated) {
      answer.cut.push_back(nodes[i].shown());
    }
    if (!columns) {
      columns = rows.columns;
      std::vector<std::string> names{"node"};
      names.insert(names.end(), columns->begin(), columns->end());
      ST_TRY(sink.columns(names));
    }
    for (const std::vector<Value>& row : rows.rows) {
      if (wanted) {
        ST_ASSIGN(wanted, sink.row(row));
      }
    }
  }
  return answer;
}

}  // namespace stalltrace::fleet
