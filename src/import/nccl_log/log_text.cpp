// SPDX-License-Identifier: Apache-2.0
#include "import/nccl_log/log_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/text.h"
#include "model/events/imported/watchdog_report.h"

namespace stalltrace::import {
namespace {

bool is_host_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_';
}

template <typename Number>
std::optional<Number> number_at(std::string_view text, int base = 10) {
  if (base == 16 && text.starts_with("0x")) {
    text.remove_prefix(2);
  }
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  // What follows must end the word: a number that was cut short would be another number.
  const bool ends = end == text.data() + text.size() || (!is_host_char(*end) || *end == '-');
  return error == std::errc() && ends ? std::optional(value) : std::nullopt;
}

/// The number after `key`, which `text` has as a word.
template <typename Number>
std::optional<Number> number_after(std::string_view text, std::string_view key, int base = 10) {
  for (size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    if (at == 0 || text[at - 1] == ' ') {
      return number_at<Number>(text.substr(at + key.size()), base);
    }
  }
  return std::nullopt;
}

constexpr std::array<std::pair<std::string_view, Operation>, 13> kOperations{{
    {"AllReduce", Operation::kAllReduce},
    {"AllGather", Operation::kAllGather},
    {"ReduceScatter", Operation::kReduceScatter},
    {"Broadcast", Operation::kBroadcast},
    {"Bcast", Operation::kBroadcast},
    {"Reduce", Operation::kReduce},
    {"AlltoAll", Operation::kAllToAll},
    {"AllToAll", Operation::kAllToAll},
    {"Alltoall", Operation::kAllToAll},
    {"Gather", Operation::kGather},
    {"Scatter", Operation::kScatter},
    {"Send", Operation::kSend},
    {"Recv", Operation::kRecv},
}};

/// Takes digits from the end of `text`.
std::optional<int32_t> take_number(std::string_view& text) {
  size_t begin = text.size();
  while (begin > 0 && is_digit(text[begin - 1])) {
    --begin;
  }
  const auto value = number_at<int32_t>(text.substr(begin));
  if (value) {
    text = text.substr(0, begin);
  }
  return value;
}

bool take(std::string_view& text, char c) {
  if (!text.ends_with(c)) {
    return false;
  }
  text.remove_suffix(1);
  return true;
}

/// Where "<node>" begins at the end of `head`, which stands for a name that was removed; the size of `head`: it does
/// not end so. "[1,3]<stdout>:" is a launcher's label.
size_t placeholder_at_end(std::string_view head) {
  const size_t open = head.ends_with('>') ? head.rfind('<') : std::string_view::npos;
  if (open == std::string_view::npos || head.substr(open).starts_with("<std")) {
    return head.size();
  }
  const std::string_view name = head.substr(open + 1, head.size() - open - 2);
  return !name.empty() && std::ranges::all_of(name, is_host_char) ? open : head.size();
}

/// "prefix host:pid:tid " at the end of `head`; the device, if any, has been taken.
bool take_process(std::string_view head, LogText& out) {
  take(head, ' ');
  const auto tid = take_number(head);
  if (!tid || !take(head, ':')) {
    return false;
  }
  const auto pid = take_number(head);
  if (!pid || !take(head, ':')) {
    return false;
  }
  head = head.substr(0, head.size() - (head.ends_with(' ') && !head.ends_with(": ") ? 1 : 0));  // "node1 :103:203"
  size_t begin = head.size();
  while (begin > 0 && is_host_char(head[begin - 1])) {
    --begin;
  }
  if (begin == head.size()) {
    begin = placeholder_at_end(head);
  }
  if (begin == head.size()) {
    return false;
  }
  out.host = head.substr(begin);
  out.pid = *pid;
  out.tid = *tid;
  out.prefix = head.substr(0, begin);
  return true;
}

/// What stands before "NCCL INFO": "host:pid:tid [device] " and, of warnings and traces, more words behind it.
/// Only its end counts: a line made to cost time has any number of brackets.
void read_head(std::string_view head, LogText& out) {
  constexpr size_t kLongestHead = 512;
  const std::string_view skipped = head.substr(0, head.size() - std::min(head.size(), kLongestHead));
  const std::string_view end = head.substr(skipped.size());
  out.prefix = head;
  bool found = false;
  size_t close = end.rfind(']');
  for (size_t bracket = end.rfind('[', close);
       !found && close != std::string_view::npos && bracket > 0 && bracket != std::string_view::npos;
       bracket = end.rfind('[', bracket - 1)) {
    close = end.find(']', bracket);
    const auto device = number_at<int32_t>(end.substr(bracket + 1, close - bracket - 1));
    out.device = out.device ? out.device : device;
    if (device && take_process(end.substr(0, bracket), out)) {
      out.device = device;
      found = true;
    }
  }
  if (!out.device && end.starts_with('[')) {
    out.device = number_at<int32_t>(end.substr(1, std::min(end.find(']'), end.size()) - 1));
  }
  if (found || take_process(end, out)) {
    out.prefix = head.substr(0, skipped.size() + out.prefix.size());
  }
}

struct Marker {
  std::string_view text;
  LogText::Level level;
};
constexpr std::array kMarkers{
    Marker{"NCCL INFO", LogText::Level::kInfo},       Marker{"NCCL WARN", LogText::Level::kWarn},
    Marker{"NCCL TRACE", LogText::Level::kTrace},     Marker{"NCCL CALL", LogText::Level::kTrace},
    Marker{"NCCL version", LogText::Level::kVersion}, Marker{"RCCL version", LogText::Level::kVersion}};

const Marker* marker_at(std::string_view text) {
  const auto* const found =
      std::ranges::find_if(kMarkers, [&](const Marker& marker) { return text.starts_with(marker.text); });
  return found == kMarkers.end() ? nullptr : found;
}

bool begins_call(std::string_view message) { return message.find(": opCount ") != std::string_view::npos; }

/// "AllRed", "AllReduce: opC": a beginning of a call's line.
bool is_beginning_of_call(std::string_view message) {
  return std::ranges::any_of(kOperations, [&](const auto& operation) {
    const std::string_view name = operation.first;
    if (message.size() <= name.size()) {
      return message.size() > 1 && name.starts_with(message);
    }
    return message.starts_with(name) && std::string_view(": opCount ").starts_with(message.substr(name.size()));
  });
}

Statement read_call(std::string_view message) {
  const size_t colon = message.find(": opCount ");
  const std::string_view name = message.substr(0, colon);
  const std::string_view fields = message.substr(colon + 2);
  BeganCall call;
  const auto* const known = std::ranges::find(kOperations, name, &std::pair<std::string_view, Operation>::first);
  if (known != kOperations.end()) {
    call.op = known->second;
  }
  const auto op_count = number_after<uint64_t>(fields, "opCount ", 16);
  const auto comm = number_after<uint64_t>(fields, "comm ", 16);
  const auto nranks = number_after<int32_t>(fields, "[nranks=");
  const size_t size_end = fields.find(']', std::min(fields.find("[nranks="), fields.size()));
  if (!op_count || !comm || *comm == 0 || size_end == std::string_view::npos || !nranks || *nranks <= 0 ||
      name.find(' ') != std::string_view::npos) {
    return BrokenLine{};
  }
  call.op_count = *op_count;
  call.comm = *comm;
  call.nranks = *nranks;
  call.count = number_after<int64_t>(fields, "count ");
  call.datatype = number_after<int32_t>(fields, "datatype ");
  call.reduce_op = number_after<int32_t>(fields, "op ");
  call.root = number_after<int32_t>(fields, "root ");
  call.stream = number_after<uint64_t>(fields, "stream ", 16).value_or(0);
  call.global_rank = number_after<int32_t>(fields, "globalrank ");
  return call;
}

std::optional<CommLine::What> what_of(std::string_view message) {
  constexpr std::array<std::pair<std::string_view, CommLine::What>, 4> kEnds{{
      {"Init START", CommLine::What::kInitStart},
      {"Init COMPLETE", CommLine::What::kInit},
      {"Destroy COMPLETE", CommLine::What::kDestroy},
      {"Abort COMPLETE", CommLine::What::kAbort},
  }};
  const auto* const end = std::ranges::find_if(kEnds, [&](const auto& one) { return message.ends_with(one.first); });
  return end == kEnds.end() ? std::nullopt : std::optional(end->second);
}

Statement read_comm_line(std::string_view message, CommLine::What what) {
  CommLine line{.what = what};
  const auto comm = number_after<uint64_t>(message, "comm ", 16);
  const auto rank = number_after<int32_t>(message, "rank ");
  auto nranks = number_after<int32_t>(message, "nranks ");
  nranks = nranks ? nranks : number_after<int32_t>(message, "nRanks ");
  if (!comm || *comm == 0 || !rank || !nranks || *rank < 0 || *rank >= *nranks) {
    return BrokenLine{};
  }
  line.comm = *comm;
  line.rank = *rank;
  line.nranks = *nranks;
  line.comm_id = number_after<uint64_t>(message, "commId ", 16).value_or(0);
  line.parent = number_after<uint64_t>(message, "parent ", 16).value_or(0);
  line.split_count = number_after<int32_t>(message, "splitCount ");
  line.color = number_after<int32_t>(message, "color ");
  line.key = number_after<int32_t>(message, "key ");
  return line;
}

}  // namespace

LogText read_log_text(std::string_view line) {
  LogText out;
  size_t markers = 0;
  size_t last_marker = 0;
  for (size_t at = line.find("CCL "); at != std::string_view::npos; at = line.find("CCL ", at + 4)) {
    const Marker* marker = at > 0 ? marker_at(line.substr(at - 1)) : nullptr;
    if (marker == nullptr) {
      continue;
    }
    const bool in_message = markers > 0 || line.substr(0, at - 1).ends_with(", ");
    if (marker->level == LogText::Level::kVersion && in_message) {
      continue;  // a message with a version: "NCCL error: unhandled system error, NCCL version 2.22.3"
    }
    out.level = marker->level;
    out.message = line.substr(at - 1);
    ++markers;
    if (marker->level != LogText::Level::kVersion) {
      out.message.remove_prefix(marker->text.size());
      while (out.message.starts_with(' ')) {
        out.message.remove_prefix(1);
      }
    }
    last_marker = at - 1;
  }
  if (markers == 0) {
    out.message = line;
    out.damaged = begins_call(line);  // the rest of a line whose beginning went elsewhere
    return out;
  }
  read_head(line.substr(0, last_marker), out);
  const bool named = !out.host.empty() || out.level == LogText::Level::kVersion || is_nameless_warning(out);
  out.damaged = markers > 1 || !named || (out.level == LogText::Level::kInfo && out.message.empty());
  return out;
}

bool is_nameless_warning(const LogText& text) {
  return text.level == LogText::Level::kWarn && text.host.empty() && text.device;
}

std::optional<int32_t> rank_in_prefix(std::string_view prefix) {
  if (const size_t at = prefix.find("[rank"); at != std::string_view::npos) {
    return number_at<int32_t>(prefix.substr(at + 5));
  }
  if (const size_t out = prefix.find(">:"); out != std::string_view::npos && prefix.find("<std") < out) {
    const size_t comma = prefix.find(',');  // [job,rank]<stdout>:
    return comma < out ? number_at<int32_t>(prefix.substr(comma + 1)) : std::nullopt;
  }
  size_t begin = 0;
  while (begin < prefix.size() && prefix[begin] == ' ') {
    ++begin;
  }
  size_t end = begin;
  while (end < prefix.size() && is_digit(prefix[end])) {
    ++end;
  }
  const bool labelled = end > begin && end + 1 < prefix.size() && prefix[end] == ':' && prefix[end + 1] == ' ';
  return labelled ? number_at<int32_t>(prefix.substr(begin, end - begin)) : std::nullopt;
}

std::optional<int32_t> rank_in_path(std::string_view path) {
  const auto word_char = [](char c) { return (c >= 'a' && c <= 'z') || is_digit(c); };
  std::optional<int32_t> rank;
  for (size_t at = path.find("rank"); at != std::string_view::npos; at = path.find("rank", at + 4)) {
    const bool word = at == 0 || !word_char(path[at - 1]);
    size_t digits = at + 4;
    if (digits < path.size() && (path[digits] == '_' || path[digits] == '-' || path[digits] == '.')) {
      ++digits;
    }
    size_t end = digits;
    while (end < path.size() && is_digit(path[end])) {
      ++end;
    }
    const std::string_view before = path.substr(0, at - (at > 0 && !word_char(path[at - 1]) ? 1 : 0));
    const bool of_part = before.ends_with("local") || before.ends_with("node") || before.ends_with("group");
    if (word && !of_part && end > digits) {
      rank = number_at<int32_t>(path.substr(digits, end - digits));
    }
  }
  return rank;
}

Statement read_statement(std::string_view message) {
  if (begins_call(message)) {
    return read_call(message);
  }
  if (const auto what = what_of(message); what && message.find("comm ") != std::string_view::npos) {
    return read_comm_line(message, *what);
  }
  return is_beginning_of_call(message) ? Statement(BrokenLine{}) : Statement();
}

bool is_timeout(std::string_view line) {
  return line.find("Timeout at collective:") != std::string_view::npos || read_watchdog_report(line).has_value();
}

}  // namespace stalltrace::import
