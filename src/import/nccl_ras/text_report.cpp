// SPDX-License-Identifier: Apache-2.0
// The text form. RAS prints a communicator only where its ranks differ, and of them only those that are few: the others
// are a number.
#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.h"
#include "import/nccl_ras/report.h"

namespace stalltrace::import {
namespace {

constexpr size_t kMostGroups = 4096;
constexpr size_t kMostListed = 65'536;
constexpr std::string_view kDigits = "0123456789";

template <typename Number>
std::optional<Number> number_in(std::string_view text, int base = 10) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 ? std::optional(value) : std::nullopt;
}

/// Takes `head` from the beginning.
bool take(std::string_view& text, std::string_view head) {
  if (!text.starts_with(head)) {
    return false;
  }
  text.remove_prefix(head.size());
  return true;
}

/// Takes a number from the beginning.
template <typename Number>
std::optional<Number> take_number(std::string_view& text) {
  const size_t end = std::min(text.find_first_not_of(kDigits), text.size());
  const auto number = number_in<Number>(text.substr(0, end));
  if (number) {
    text.remove_prefix(end);
  }
  return number;
}

/// " -- GPU 5 (NVML 7) managed by process 3487984 on node 172.16.64.213"
void read_where(std::string_view text, RasStatement& out) {
  if (!take(text, " -- GPU ")) {
    return;  // [process information not found]
  }
  out.gpu = take_number<int32_t>(text);
  const size_t by = text.find("managed by process ");
  if (by == std::string_view::npos) {
    return;
  }
  text.remove_prefix(by + 19);
  out.pid = take_number<int32_t>(text).value_or(0);
  if (take(text, " on node ")) {
    out.host = trim(text).substr(0, kMostRasName);
  }
}

RasState state_of(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, RasState>, 6> kStates{{{"NOCOMM", RasState::kNoComm},
                                                                          {"UNKNOWN", RasState::kNoComm},  // 2.24, 2.25
                                                                          {"INIT", RasState::kInit},
                                                                          {"RUNNING", RasState::kRunning},
                                                                          {"FINALIZE", RasState::kFinalize},
                                                                          {"ABORT", RasState::kAbort}}};
  const auto* const known = std::ranges::find(kStates, text, &std::pair<std::string_view, RasState>::first);
  return known == kStates.end() ? RasState::kNotStated : known->second;
}

/// The numbers of ncclResult_t; of a text that is not listed, that of an internal error.
int32_t error_of(std::string_view text) {
  constexpr std::array<std::string_view, 6> kErrors{"Unhandled CUDA error", "System error",  "Internal error",
                                                    "Invalid argument",     "Invalid usage", "Remote process error"};
  constexpr int32_t kInternalError = 3;
  const auto* const known = std::ranges::find(kErrors, text);
  return known == kErrors.end() ? kInternalError : static_cast<int32_t>(known - kErrors.begin()) + 1;
}

}  // namespace

bool is_ras_line(std::string_view line) {
  return line.starts_with("Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors") ||
         line == "(total)   per node  per process    (total)  (total)" || line.starts_with("Communicators... (");
}

void RasTextReader::take(std::string_view line, int64_t number) {
  line_ = number;
  std::string_view rest = line;
  if (import::take(rest, "NCCL version ")) {
    report_.version = rest.substr(0, std::min(rest.find(' '), size_t{64}));
    return;
  }
  if (take_section(line) || take_summary(line)) {
    return;
  }
  if (line.starts_with('#')) {
    end_group();
    return take_comm(line);
  }
  if (trim(line).empty() || section_ == Section::kNone) {
    return;
  }
  rest = trim(line);
  if (rest.starts_with("Process ")) {
    take_process(rest);
  } else if (section_ == Section::kComm && !take_topic(rest) && !take_group(rest)) {
    rest.starts_with("Rank ") ? take_rank(rest) : take_missing_list(rest);
  }
}

bool RasTextReader::take_section(std::string_view line) {
  const auto begin = [&](Section section) {
    end_group();
    section_ = section;
    topic_ = Topic::kNone;
    in_table_ = false;
    return true;
  };
  if (line == "Errors" || line == "TIMEOUT") {
    return begin(Section::kNone);
  }
  if (line == "Warnings") {
    report_.whole = true;
    return begin(Section::kNone);
  }
  if (line == "INCOMPLETE") {
    return begin(Section::kUnresponsiveProcesses);
  }
  return line == "DEAD" && begin(Section::kDeadProcesses);
}

/// The two tables at the beginning.
bool RasTextReader::take_summary(std::string_view line) {
  if (line.starts_with("(total) ")) {
    totals_follow_ = true;
    return true;
  }
  if (trim(line).starts_with("#  in group")) {
    in_table_ = true;
    return true;
  }
  const std::vector<std::string_view> fields = split_fields(line);
  if (totals_follow_) {
    totals_follow_ = false;
    report_.gpus = fields.empty() ? 0 : number_in<int64_t>(fields.back()).value_or(0);
    return true;
  }
  if (in_table_ && fields.size() == 8 && groups_.size() < kMostGroups) {
    const auto comms = number_in<int64_t>(fields[1]);
    const auto nranks = number_in<int32_t>(fields[4]);
    if (const auto group = number_in<int64_t>(fields[0]); group && comms && nranks) {
      groups_.push_back({*group, *comms, *nranks, fields[6] == "FINALIZE" || fields[6] == "ABORT"});
      report_.comms += std::min<int64_t>(*comms, 1 << 24);
      report_.comms_at_fault += fields[7] == "OK" ? 0 : std::min<int64_t>(*comms, 1 << 24);
      return true;
    }
  }
  if (line.starts_with("  Encountered ") && line.find(" communication timeout") != std::string_view::npos) {
    std::string_view rest = line.substr(14);
    report_.timeouts = take_number<int64_t>(rest).value_or(0);
    return true;
  }
  return false;
}

/// "#0-0 (cf264af53edbe986) INCOMPLETE"
void RasTextReader::take_comm(std::string_view line) {
  section_ = Section::kComm;
  topic_ = Topic::kNone;
  std::string_view rest = line.substr(1);
  const auto group = take_number<int64_t>(rest);
  const size_t open = rest.find('(');
  const size_t close = rest.find(')');
  comm_ = {};
  comm_.hash = open < close && close != std::string_view::npos
                   ? number_in<uint64_t>(rest.substr(open + 1, close - open - 1), 16).value_or(0)
                   : 0;
  const auto row = std::ranges::find(groups_, group, [](const Group& one) { return std::optional(one.number); });
  if (comm_.hash == 0 || row == groups_.end()) {
    section_ = Section::kNone;
    return;
  }
  comm_.nranks = row->nranks;
  const auto of_size = std::ranges::count(groups_, row->nranks, &Group::nranks);
  comm_.whole_job = row->nranks == report_.gpus && row->comms == 1 && of_size == 1;
  if (row->leaving) {
    RasStatement statement = of_comm();
    statement.members = 0;
    statement.state = RasState::kFinalize;
    add(std::move(statement));
  }
}

RasStatement RasTextReader::of_comm() const { return comm_; }

bool RasTextReader::take_topic(std::string_view line) {
  const auto begin = [&](Topic topic) {
    end_group();
    topic_ = topic;
    return true;
  };
  if (line.starts_with("Missing communicator data from ")) {
    begin(Topic::kMissing);
    std::string_view rest = line.substr(31);
    value_ = of_comm();
    value_.state = RasState::kUnresponsive;
    unlisted_ = take_number<int64_t>(rest).value_or(0);
    lists_ranks_ = true;
    return true;
  }
  std::string_view rest = line;
  if (import::take(rest, "Communicator ranks have different ")) {
    if (rest == "status") {
      return begin(Topic::kState);
    }
    const size_t end = rest.find(" operation counts");
    operation_ = rest.substr(0, std::min(end, kMostRasName));
    operation_ = operation_ == "collective" ? "Collective" : operation_;
    return begin(end == std::string_view::npos ? Topic::kNone : Topic::kLaunches);
  }
  if (line.starts_with("Initialization error")) {
    return begin(Topic::kInitError);
  }
  return line.starts_with("Asynchronous error") && begin(Topic::kAsyncError);
}

/// "have status RUNNING", "have launched up to operation 6650", "has not launched any operations", "reported X"
bool RasTextReader::set_value(std::string_view text, RasStatement& out) const {
  if (!import::take(text, "have ")) {
    import::take(text, "has ");
  }
  if (topic_ == Topic::kState && import::take(text, "status ")) {
    out.state = state_of(text);
    return true;
  }
  if (topic_ == Topic::kLaunches) {
    const bool none = text == "not launched any operations";
    if (!none && !import::take(text, "launched up to operation ")) {
      return false;
    }
    const auto count = none ? std::optional<uint64_t>(0) : number_in<uint64_t>(text);
    if (count) {
      out.launched.emplace_back(operation_, *count);
    }
    return count.has_value();
  }
  const bool init = topic_ == Topic::kInitError;
  if ((init || topic_ == Topic::kAsyncError) && import::take(text, "reported ")) {
    (init ? out.init_error : out.async_error) = error_of(text);
    return true;
  }
  return false;
}

/// "26 ranks have launched up to operation 6650": some may be listed below.
bool RasTextReader::take_group(std::string_view line) {
  const auto members = take_number<int64_t>(line);
  if (!members || !import::take(line, " ranks ")) {
    return false;
  }
  end_group();
  value_ = of_comm();
  lists_ranks_ = set_value(line, value_);
  unlisted_ = lists_ranks_ ? *members : 0;
  return true;
}

/// "Rank 3 -- GPU ...": of the group above; "Rank 3 has status FINALIZE -- GPU ...": alone.
void RasTextReader::take_rank(std::string_view line) {
  line.remove_prefix(5);
  const auto rank = take_number<int32_t>(line);
  const size_t where = line.find(" -- ");
  if (!rank || *rank >= comm_.nranks) {
    return;
  }
  const std::string_view before = trim(line.substr(0, where));
  RasStatement statement = before.empty() ? value_ : of_comm();
  if (before.empty() ? !lists_ranks_ : !set_value(before, statement)) {
    return;
  }
  if (before.empty()) {
    --unlisted_;
  } else {
    end_group();
  }
  statement.rank = rank;
  read_where(where == std::string_view::npos ? std::string_view() : line.substr(where), statement);
  add(std::move(statement));
}

/// "The missing ranks: 3,21" of 2.24 and 2.25
void RasTextReader::take_missing_list(std::string_view line) {
  const size_t colon = line.find(':');
  if (topic_ != Topic::kMissing || !line.starts_with("The missing rank") || colon == std::string_view::npos) {
    return;
  }
  std::string_view rest = line.substr(colon + 1);
  size_t listed = 0;
  while (!rest.empty() && listed < kMostListed) {
    const size_t digit = std::min(rest.find_first_of(kDigits), rest.size());
    rest.remove_prefix(digit);
    const auto rank = take_number<int32_t>(rest);
    if (!rank) {
      break;
    }
    if (*rank < comm_.nranks) {
      RasStatement statement = value_;
      statement.rank = rank;
      add(std::move(statement));
      --unlisted_;
      ++listed;
    }
  }
}

/// "Process 3487984 on node 172.16.64.213 managing GPU 5"
void RasTextReader::take_process(std::string_view line) {
  if (section_ == Section::kComm) {
    return;
  }
  RasStatement statement{.state = section_ == Section::kDeadProcesses ? RasState::kDead : RasState::kUnresponsive};
  line.remove_prefix(8);
  statement.pid = take_number<int32_t>(line).value_or(0);
  if (!import::take(line, " on node ") || statement.pid == 0) {
    return;
  }
  const size_t host_end = line.find(" managing GPU");
  statement.host = line.substr(0, std::min(host_end, kMostRasName));
  if (host_end != std::string_view::npos) {
    line.remove_prefix(std::min(line.find_first_of(kDigits, host_end), line.size()));  // "GPU 5", "GPUs 5,6"
    statement.gpu = take_number<int32_t>(line);
  }
  add(std::move(statement));
}

void RasTextReader::add(RasStatement statement) {
  if (report_.statements.size() < kMostRasStatements) {
    report_.statements.emplace_back(line_, std::move(statement));
  } else {
    ++report_.left_out;
  }
}

/// The members of a group that were not listed.
void RasTextReader::end_group() {
  if (lists_ranks_ && unlisted_ > 0 && section_ == Section::kComm) {
    value_.rank.reset();
    value_.members = std::min<int64_t>(unlisted_, comm_.nranks);
    add(value_);
  }
  lists_ranks_ = false;
  unlisted_ = 0;
}

}  // namespace stalltrace::import
