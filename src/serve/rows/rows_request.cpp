// SPDX-License-Identifier: Apache-2.0
#include "serve/rows/rows_request.h"

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "serve/json/json.h"
#include "store/rows/row_block.h"

namespace stalltrace::serve {
namespace {

constexpr size_t kMostReads = 64;
constexpr size_t kMostAfter = 16'384;

std::unexpected<Error> not_a_request(std::string_view why) {
  return fail("the request's body does not name its rows: " + std::string(why), "docs/serve.md has its form",
              ErrorKind::kUsage);
}

/// Whether an object has no other members. What is not understood could be what the rows depend on.
bool has_only(const Json& object, std::initializer_list<std::string_view> names) {
  return object.is_object() && std::ranges::all_of(*object.members(), [&](const Json::Member& member) {
           return std::ranges::find(names, member.first) != names.end();
         });
}

/// False: the member is there, and no integer.
bool take_integer(const Json* json, int64_t& to) {
  const int64_t* value = json == nullptr ? nullptr : json->integer();
  to = value == nullptr ? to : *value;
  return json == nullptr || value != nullptr;
}

std::optional<std::pair<int64_t, int64_t>> pair_of(const Json& json) {
  const Json::Array* both = json.values();
  if (both == nullptr || both->size() != 2 || (*both)[0].integer() == nullptr || (*both)[1].integer() == nullptr) {
    return std::nullopt;
  }
  return std::pair(*(*both)[0].integer(), *(*both)[1].integer());
}

Result<std::vector<std::pair<int64_t, int64_t>>> pairs_of(const Json* json) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  if (json == nullptr) {
    return pairs;
  }
  if (!json->is_array()) {
    return not_a_request("windows and clocks are arrays");
  }
  for (const Json& one : *json->values()) {
    const auto pair = pair_of(one);
    if (!pair) {
      return not_a_request("a window, and a clock, is two numbers");
    }
    pairs.push_back(*pair);
  }
  return pairs;
}

Status take_after(const Json* json, RowsRequest::Read& read) {
  if (json == nullptr) {
    return {};
  }
  if (!store::has_event_ids(read.table)) {
    return not_a_request("rows of that table have no event ids for after");
  }
  if (!json->is_array() || json->size() > kMostAfter) {
    return not_a_request("after is an array with event ids, one of each node");
  }
  for (const Json& one : *json->values()) {
    if (one.integer() == nullptr || *one.integer() < 0) {
      return not_a_request("after is an array with event ids, one of each node");
    }
    read.after.push_back(*one.integer());
  }
  return {};
}

}  // namespace

std::string to_json(const RowsRequest& request) {
  Json reads = Json::array();
  for (const RowsRequest::Read& read : request.reads) {
    Json one = Json::object({{"table", read.table}});
    if (read.range.from_ns != TimeRange().from_ns) {
      one.set("from_ns", read.range.from_ns);
    }
    if (read.range.to_ns != kForever) {
      one.set("to_ns", read.range.to_ns);
    }
    if (read.narrow) {
      one.set("narrow", true);
    }
    if (!read.after.empty()) {
      Json after = Json::array();
      std::ranges::for_each(read.after, [&](EventId id) { after.push_back(id); });
      one.set("after", std::move(after));
    }
    reads.push_back(std::move(one));
  }
  Json all = Json::object();
  all.set("reads", std::move(reads));
  if (!request.windows.empty()) {
    Json windows = Json::array();
    for (const TimeRange& window : request.windows) {
      windows.push_back(Json::array({window.from_ns, window.to_ns}));
    }
    Json clocks = Json::array();
    for (const auto& [node, shift_ns] : request.shifts_ns) {
      clocks.push_back(Json::array({static_cast<int64_t>(node), shift_ns}));
    }
    all.set("windows", std::move(windows));
    all.set("clocks", std::move(clocks));
  }
  return all.dump();
}

Result<RowsRequest> parse_rows_request(std::string_view text) {
  const auto json = parse_json(text, {.depth = 4, .values = 60'000, .members = 8});
  const Json* reads = json ? json->find("reads") : nullptr;
  if (reads == nullptr || !reads->is_array() || reads->size() == 0 || reads->size() > kMostReads) {
    return not_a_request("reads is an array with one or more objects");
  }
  if (!has_only(*json, {"reads", "windows", "clocks"})) {
    return not_a_request("its members are reads, windows and clocks");
  }
  RowsRequest request;
  for (const Json& one : *reads->values()) {
    if (!has_only(one, {"table", "from_ns", "to_ns", "narrow", "after"})) {
      return not_a_request("the members of a read are table, from_ns, to_ns, narrow and after");
    }
    const Json* table = one.find("table");
    if (table == nullptr || table->text() == nullptr || !store::is_table(*table->text())) {
      return not_a_request("a read has no table that recordings have");
    }
    if (std::ranges::find(request.reads, *table->text(), &RowsRequest::Read::table) != request.reads.end()) {
      return not_a_request("a table is read twice");
    }
    RowsRequest::Read read{.table = *table->text()};
    if (!take_integer(one.find("from_ns"), read.range.from_ns) || !take_integer(one.find("to_ns"), read.range.to_ns)) {
      return not_a_request("from_ns and to_ns are whole numbers");
    }
    if (const Json* narrow = one.find("narrow"); narrow != nullptr) {
      if (narrow->boolean() == nullptr) {
        return not_a_request("narrow is true or false");
      }
      read.narrow = *narrow->boolean();
    }
    ST_TRY(take_after(one.find("after"), read));
    request.reads.push_back(std::move(read));
  }
  ST_ASSIGN(const auto windows, pairs_of(json->find("windows")));
  for (const auto& [from_ns, to_ns] : windows) {
    constexpr int64_t kMost = kFarFutureNs;  // no sum with a clock's shift overflows
    if (from_ns < -kMost || to_ns > kMost || from_ns >= to_ns) {
      return not_a_request("a window ends before it begins");
    }
    request.windows.push_back({from_ns, to_ns});
  }
  ST_ASSIGN(const auto clocks, pairs_of(json->find("clocks")));
  for (const auto& [node, shift_ns] : clocks) {
    constexpr int64_t kMostShiftNs = int64_t{1} << 60;
    if (node < 0 || node >= int64_t{1} << kNodeIdBits || shift_ns < -kMostShiftNs || shift_ns > kMostShiftNs) {
      return not_a_request("a clock is the number of a node and what is added to its times");
    }
    request.shifts_ns[static_cast<NodeId>(node)] = shift_ns;
  }
  return request;
}

std::vector<TimeRange> joined_windows(std::vector<TimeRange> windows) {
  std::ranges::sort(windows, {}, &TimeRange::from_ns);
  std::vector<TimeRange> joined;
  const auto join = [&](int64_t gap_ns) {
    joined.clear();
    for (const TimeRange& window : windows) {
      if (!joined.empty() && window.from_ns - joined.back().to_ns <= gap_ns) {
        joined.back().to_ns = std::max(joined.back().to_ns, window.to_ns);
      } else {
        joined.push_back(window);
      }
    }
  };
  join(0);
  if (joined.size() > kMostWindows) {
    std::vector<int64_t> gaps;
    for (size_t i = 1; i < joined.size(); ++i) {
      gaps.push_back(joined[i].from_ns - joined[i - 1].to_ns);
    }
    const auto longest_joined = gaps.begin() + static_cast<int64_t>(gaps.size() - kMostWindows);
    std::ranges::nth_element(gaps, longest_joined);
    join(*longest_joined);
  }
  return joined;
}

}  // namespace stalltrace::serve
