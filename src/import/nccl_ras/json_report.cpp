// SPDX-License-Identifier: Apache-2.0
// The JSON form, and files with several reports.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "base/text.h"
#include "import/json.h"
#include "import/nccl_ras/report.h"
#include "model/operation.h"

namespace stalltrace::import {
namespace {

constexpr size_t kMostReports = 10'000;
constexpr int64_t kMostRanks = 1 << 24;
constexpr int64_t kSuccess = 0;  // ncclResult_t

/// A comma between `"nvml_dev": 1` and `"status"`.
std::string with_missing_commas(std::string_view text) {
  constexpr std::string_view kBefore = "\"nvml_dev\":";
  std::string out;
  size_t copied = 0;
  for (size_t at = text.find(kBefore); at != std::string_view::npos; at = text.find(kBefore, at + 1)) {
    const size_t digits = std::min(text.find_first_not_of(" ", at + kBefore.size()), text.size());
    const size_t end = std::min(text.find_first_not_of("-0123456789", digits), text.size());
    const size_t next = std::min(text.find_first_not_of(" \t\r\n", end), text.size());
    if (next < text.size() && text[next] == '"') {
      out += text.substr(copied, end - copied);
      out += ',';
      copied = end;
    }
  }
  return out.append(text.substr(copied));
}

class Reader {
 public:
  Reader(const ValueTree& tree, ValueIndex top) : tree_(tree), top_(top) {}

  Result<RasReport> read() {
    const ValueIndex comms = tree_.find(top_, "communicators");
    if (comms == kNoValue) {
      return fail("it has no communicators: no report of NCCL's RAS", {}, ErrorKind::kCorrupt);
    }
    report_.json = true;
    report_.version = text_in(top_, "nccl_version");
    report_.time = text_in(top_, "timestamp");
    report_.timeouts = number_in(tree_.find(top_, "ras"), "timeouts_count").value_or(0);
    report_.whole = tree_.find(top_, "ras") != kNoValue;
    std::map<int64_t, size_t> sizes;
    for (const ValueIndex comm : tree_.items(comms)) {
      ++sizes[size_of(comm)];
    }
    for (const ValueIndex comm : tree_.items(comms)) {
      const int64_t size = size_of(comm);
      const auto hash = hash_of(comm);
      if (size <= 0 || !hash) {
        continue;
      }
      ++report_.comms;
      RasStatement statement{.hash = *hash, .nranks = static_cast<int32_t>(size)};
      statement.whole_job = size == sizes.rbegin()->first && sizes[size] == 1;
      read_ranks(comm, statement);
    }
    report_.gpus = sizes.empty() ? 0 : sizes.rbegin()->first;
    return std::move(report_);
  }

 private:
  std::string text_in(ValueIndex dict, std::string_view key) const {
    return std::string(tree_.text(tree_.find(dict, key)).substr(0, kMostRasName));
  }
  std::optional<int64_t> number_in(ValueIndex dict, std::string_view key) const {
    const auto number = tree_.integer(tree_.find(dict, key));
    return number && *number >= 0 ? number : std::nullopt;
  }
  bool is_set(ValueIndex dict, std::string_view key) const { return number_in(dict, key).value_or(0) != 0; }

  int64_t size_of(ValueIndex comm) const {
    const int64_t size = number_in(comm, "size").value_or(0);
    return size < kMostRanks ? size : 0;
  }

  std::optional<CommHash> hash_of(ValueIndex comm) const {
    const auto statement = ras_statement_from_text("comm " + text_in(comm, "hash"));
    return statement && statement->hash != 0 ? std::optional(statement->hash) : std::nullopt;
  }

  static int32_t error_of(std::optional<int64_t> result) {
    const int64_t value = result.value_or(kSuccess);
    return value > 255 || !call_failed(Library::kNccl, static_cast<int32_t>(value)) ? 0 : static_cast<int32_t>(value);
  }

  bool read_who(ValueIndex rank, RasStatement& out) const {
    const auto number = number_in(rank, "rank");
    if (!number || *number >= out.nranks) {
      return false;
    }
    out.rank = static_cast<int32_t>(*number);
    const std::string host = text_in(rank, "host");
    out.host = host == "unknown" ? "" : host;
    const int64_t pid = number_in(rank, "pid").value_or(0);
    out.pid = pid <= std::numeric_limits<int32_t>::max() ? static_cast<int32_t>(pid) : 0;
    if (const auto gpu = number_in(rank, "cuda_dev"); gpu && *gpu < 1024) {
      out.gpu = static_cast<int32_t>(*gpu);
    }
    return true;
  }

  void read_ranks(ValueIndex comm, const RasStatement& common) {
    for (const ValueIndex rank : tree_.items(tree_.find(comm, "ranks"))) {
      RasStatement statement = common;
      if (!read_who(rank, statement)) {
        continue;
      }
      const ValueIndex status = tree_.find(rank, "status");
      const auto init = number_in(status, "init_state");
      statement.state = is_set(status, "abort_flag")                                          ? RasState::kAbort
                        : is_set(status, "finalize_called") || is_set(status, "destroy_flag") ? RasState::kFinalize
                        : init.value_or(kSuccess) == kSuccess                                 ? RasState::kRunning
                                                                                              : RasState::kInit;
      statement.init_error = error_of(init);
      statement.async_error = error_of(number_in(status, "async_error"));
      for (const auto& [key, value] : tree_.entries(tree_.find(rank, "collective_counts"))) {
        if (const auto count = tree_.integer(value); count && *count >= 0) {
          statement.launched.emplace_back(tree_.text(key).substr(0, kMostRasName), static_cast<uint64_t>(*count));
        }
      }
      report_.statements.emplace_back(0, std::move(statement));
    }
    for (const ValueIndex rank : tree_.items(tree_.find(comm, "missing_ranks"))) {
      RasStatement statement = common;
      if (!read_who(rank, statement)) {
        continue;
      }
      const ValueIndex status = tree_.find(rank, "status");
      statement.state = is_set(status, "considered_dead") ? RasState::kDead
                        : is_set(status, "unresponsive")  ? RasState::kUnresponsive
                                                          : RasState::kNoComm;
      report_.statements.emplace_back(0, std::move(statement));
    }
  }

  const ValueTree& tree_;
  ValueIndex top_;
  RasReport report_;
};

/// Where the object that begins `text` ends; npos: it was cut off.
size_t end_of_object(std::string_view text) {
  size_t depth = 0;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      i += c == '\\' ? 1 : 0;
      in_text = c != '"';
    } else if (c == '"') {
      in_text = true;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

/// By its first line, and the one that follows: a job's output may have any JSON.
bool begins_ras_json(std::string_view bytes, std::string_view line) {
  if (!line.starts_with('{')) {
    return false;
  }
  if (trim(line) != "{") {
    return line.find("\"communicators\"") != std::string_view::npos;
  }
  const std::string_view next = bytes.substr(std::min(line.size() + 1, bytes.size()), 256);
  return trim(next.substr(0, next.find('\n'))).starts_with("\"nccl_version\"");
}

int64_t lines_in(std::string_view text) { return std::ranges::count(text, '\n'); }

}  // namespace

bool is_ras_json(std::string_view head) {
  return head.find("\"communicators_count\"") != std::string_view::npos &&
         head.find("\"nccl_version\"") != std::string_view::npos;
}

Result<RasReport> read_ras_json(std::string_view text) {
  std::string repaired = with_missing_commas(text);
  if (end_of_object(repaired) == std::string_view::npos) {
    const size_t whole = end_of_items(repaired, "{[");
    if (whole == 0) {
      return fail("it was cut off before its first communicator ends", {}, ErrorKind::kCorrupt);
    }
    repaired.resize(whole);
    repaired += "]}";
  }
  ValueTree tree;
  ST_ASSIGN(const ValueIndex top, read_json(repaired, tree));
  return Reader(tree, top).read();
}

RasReports read_ras_reports(std::string_view bytes) {
  RasReports out;
  size_t statements = 0;
  const auto keep = [&](RasReport report) {
    const size_t room = kMostRasStatements - std::min(statements, kMostRasStatements);
    out.left_out += report.left_out;
    if (report.statements.size() > room || out.reports.size() == kMostReports) {
      out.left_out += report.statements.size();
      return;
    }
    statements += report.statements.size();
    out.reports.push_back(std::move(report));
  };
  std::optional<RasReport> text_report;
  std::optional<RasTextReader> reader;
  bool has_summary = false;
  const auto end_text = [&] {
    if (text_report) {
      reader->finish();
      keep(std::move(*text_report));
    }
    text_report.reset();
    reader.reset();
    has_summary = false;
  };
  int64_t number = 1;
  while (!bytes.empty()) {
    const size_t newline = bytes.find('\n');
    std::string_view line = bytes.substr(0, newline);
    if (begins_ras_json(bytes, line)) {
      end_text();
      const size_t end = std::min(end_of_object(bytes), bytes.size());
      Result<RasReport> report = read_ras_json(bytes.substr(0, end));
      if (report) {
        report->line = number;
        keep(std::move(*report));
      } else if (out.refused++ == 0) {
        out.problem = "line " + std::to_string(number) + ": " + report.error().what;
      }
      number += lines_in(bytes.substr(0, end));
      bytes.remove_prefix(end);
      continue;
    }
    line = line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
    const bool version = line.starts_with("NCCL version ") && line.find(" compiled with ") != std::string_view::npos;
    if (version || (line == "Job summary" && (!text_report || has_summary))) {
      end_text();
      text_report.emplace().line = number;
      reader.emplace(*text_report);
    }
    has_summary = has_summary || line == "Job summary";
    if (reader) {
      reader->take(line, number);
    }
    bytes.remove_prefix(newline == std::string_view::npos ? bytes.size() : newline + 1);
    ++number;
  }
  end_text();
  std::erase_if(out.reports, [](const RasReport& one) { return !one.json && one.comms == 0 && one.gpus == 0; });
  return out;
}

}  // namespace stalltrace::import
