// SPDX-License-Identifier: Apache-2.0
#include "fleet/query.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "serve/http/row_lines.h"

namespace stalltrace::fleet {
namespace {

constexpr int64_t kMostRows = serve::RowLimits{}.rows;  // of one node: a server gives no more
constexpr int64_t kRowsPerCheck = 1024;
constexpr size_t kLongestName = 253;     // of DNS
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

using Columns = std::vector<std::string>;

/// Reads a node's answer: checks it with `rows` null, else delivers its rows, each with the node's name before it.
class NodeRows final : public serve::RowLinesSink {
 public:
  NodeRows(std::string address, int64_t deadline_ns, RowSink* rows)
      : address_(std::move(address)), deadline_ns_(deadline_ns), sink_(rows), row_(1) {}
  /// Leaves out recordings that an earlier node has, and adds the others. Without it none is left out.
  void leave_out(std::map<std::vector<std::string>, std::string>& known, std::vector<CopiedRecording>& copies) {
    known_ = &known;
    copies_ = &copies;
  }

  void runs(std::span<const std::string> of_next) override { runs_.assign(of_next.begin(), of_next.end()); }

  Status recording(std::string_view name, std::span<const std::string> nodes, const Columns& names) override {
    if (columns && *columns != names) {
      return fail("its recordings answer with different columns", "name the columns instead of SELECT *");
    }
    columns = names;
    is_copy_ = false;
    if (known_ != nullptr && !runs_.empty()) {
      const auto [first, fresh] = known_->try_emplace(runs_, address_);
      is_copy_ = !fresh && first->second != address_;
      if (is_copy_) {
        copies_->push_back({address_, std::string(name.substr(0, kLongestName)), first->second});
      }
    }
    row_.resize(1);
    row_[0] = nodes.size() == 1 && !nodes[0].empty() ? nodes[0].substr(0, kLongestName)
                                                     : fmt::format("{}/{}", address_, name.substr(0, kLongestName));
    return {};
  }
  Status row(std::span<const Value> values) override {
    if (count_++ == kMostRows) {
      full = true;
      return fail("more rows than are taken");
    }
    if (is_copy_) {
      return {};
    }
    if (sink_ == nullptr) {
      return count_ % kRowsPerCheck == 0 && monotonic_now_ns() > deadline_ns_
                 ? Status(fail("its answer took too long to read", "ask for less, or allow more with --node-timeout"))
                 : Status();
    }
    row_.resize(1);
    row_.insert(row_.end(), values.begin(), values.end());
    ST_ASSIGN(const bool wanted, sink_->row(row_));
    stopped = !wanted;
    return wanted ? Status() : Status(fail("no more rows are wanted"));
  }

  std::optional<Columns> columns;
  bool full = false;     // the rows after the first ones were left
  bool stopped = false;  // by the sink

 private:
  std::string address_;
  int64_t deadline_ns_;
  RowSink* sink_;
  std::vector<Value> row_;
  int64_t count_ = 0;
  std::vector<std::string> runs_;                                     // of the recording that is being read
  bool is_copy_ = false;                                              // likewise
  std::map<std::vector<std::string>, std::string>* known_ = nullptr;  // by runs: the node's address
  std::vector<CopiedRecording>* copies_ = nullptr;
};

struct Checked {
  std::string lines;
  Columns columns;
  bool truncated = false;
};

Result<Checked> check(const NodeAddress& node, std::string lines, int64_t deadline_ns) {
  NodeRows rows(node.shown(), deadline_ns, nullptr);
  Result<bool> truncated = serve::read_row_lines(lines, rows);
  if (!truncated && !rows.full) {
    return std::unexpected(std::move(truncated.error()));
  }
  if (!rows.columns) {
    return fail("it answers without columns", "is it 'stalltrace serve' that listens there?", ErrorKind::kCorrupt);
  }
  return Checked{std::move(lines), *std::move(rows.columns), rows.full || *truncated};
}

/// Reads the answers, the short ones first: one that takes long to read leaves no time for those behind it.
std::vector<Result<Checked>> check_all(std::span<const NodeAddress> nodes, std::vector<Result<std::string>> answers,
                                       int64_t limit_ns) {
  const int64_t deadline_ns = monotonic_now_ns() + limit_ns;
  std::vector<size_t> order(nodes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return answers[i] ? answers[i]->size() : 0; });
  std::vector<Result<Checked>> all(nodes.size());
  for (const size_t i : order) {
    all[i] = answers[i] ? check(nodes[i], *std::move(answers[i]), deadline_ns)
                        : Result<Checked>(std::unexpected(std::move(answers[i].error())));
  }
  return all;
}

/// Those that most nodes answer with; of two that as many do, the first.
std::optional<Columns> columns_of_most(std::span<const Result<Checked>> answers) {
  std::map<Columns, size_t> votes;
  for (const auto& answer : answers) {
    votes[answer ? answer->columns : Columns()] += answer ? 1 : 0;
  }
  std::optional<Columns> most;
  for (const auto& answer : answers) {
    if (answer && (!most || votes[answer->columns] > votes[*most])) {
      most = answer->columns;
    }
  }
  return most;
}

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
  std::vector<Result<std::string>> received;
  for (size_t i = 0; i < nodes.size(); ++i) {
    received.push_back(ended[i] ? Result<std::string>(std::move(asked[i]->lines))
                                : std::unexpected(std::move(ended[i].error())));
  }
  auto answers = check_all(nodes, std::move(received), options.limit.count() * kNsPerMs);
  FleetAnswer answer;
  const std::optional<Columns> columns = columns_of_most(answers);
  if (columns) {
    Columns names{"node"};
    names.insert(names.end(), columns->begin(), columns->end());
    ST_TRY(sink.columns(names));
  }
  bool wanted = true;
  std::map<std::vector<std::string>, std::string> known;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (answers[i] && answers[i]->columns != *columns) {
      answers[i] = fail("it answers with other columns than most nodes", "name the columns instead of SELECT *");
    }
    if (!answers[i]) {
      answer.failed.push_back({nodes[i].shown(), std::move(answers[i].error())});
      continue;
    }
    ++answer.answered;
    if (answers[i]->truncated) {
      answer.cut.push_back(nodes[i].shown());
    }
    if (wanted) {
      NodeRows rows(nodes[i].shown(), 0, &sink);
      rows.leave_out(known, answer.copies);
      auto delivered = serve::read_row_lines(std::exchange(answers[i]->lines, {}), rows);
      wanted = !rows.stopped;
      if (!delivered && !rows.stopped && !rows.full) {
        return std::unexpected(std::move(delivered.error()));
      }
    }
  }
  return answer;
}

}  // namespace stalltrace::fleet
