// SPDX-License-Identifier: Apache-2.0
#include "autopsy/hosts/host_result.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "model/json/autopsy_result.h"
#include "stacks/nccl/find_communicators.h"

namespace stalltrace::autopsy {
namespace {

using OrderedJson = nlohmann::ordered_json;
using Json = nlohmann::json;

constexpr int kDeepest = 16;
constexpr size_t kMostValues = size_t{4} << 20;  // names of members count as well
constexpr size_t kMostRanks = 4096;
constexpr size_t kMostRows = size_t{1} << 17;  // of any other list
constexpr size_t kLongestText = 4096;
constexpr size_t kMostOperations = 16;
constexpr size_t kMostProblems = 64;
constexpr int64_t kLongestMs = std::numeric_limits<uint32_t>::max();  // as in the kernel's tcp_info
constexpr int64_t kLatestNs = int64_t{1} << 62;
constexpr int64_t kLongestWatchNs = 3600 * kNsPerSecond;

constexpr std::array<std::string_view, 4> kRunStates{"alive", "stopped", "debugged", "frozen"};
constexpr std::array<std::string_view, 5> kTimers{"none", "retransmit", "keepalive", "time_wait", "window_probe"};
constexpr std::array<std::string_view, 2> kWitnesses{"python_frames", "native_stack"};

OrderedJson to_json(const TcpSocket& socket) {
  return {{"netns", socket.netns},
          {"inode", socket.inode},
          {"local", format_endpoint(socket.local)},
          {"remote", format_endpoint(socket.remote)},
          {"state", static_cast<int>(socket.state)},
          {"timer", kTimers.at(static_cast<size_t>(socket.timer))},
          {"tries", socket.tries},
          {"backoff", socket.backoff},
          {"expires_ms", socket.expires_ms},
          {"timeout_ms", socket.time_out_ms},
          {"receive_queue", socket.receive_queue},
          {"send_queue", socket.send_queue},
          {"unsent_bytes", socket.not_sent},
          {"acked_bytes", socket.acked},
          {"received_bytes", socket.received},
          {"silent_ms", or_null(socket.silent_ms)},
          {"ack_age_ms", socket.ack_age_ms}};
}

OrderedJson to_json(const stacks::NcclCommunicator& communicator) {
  OrderedJson launched = OrderedJson::array();
  for (const auto& [operation, count] : communicator.launched) {
    launched.push_back({{"operation", operation}, {"count", count}});
  }
  return {{"address", communicator.address}, {"hash", communicator.hash},     {"rank", communicator.rank},
          {"nranks", communicator.nranks},   {"device", communicator.device}, {"launched", std::move(launched)}};
}

OrderedJson to_json(const RankState& rank) {
  OrderedJson call;
  if (rank.call) {
    call = {{"name", rank.call->name},
            {"op", rank.call->op ? OrderedJson(stalltrace::to_text(*rank.call->op)) : OrderedJson()},
            {"seen_in", kWitnesses.at(static_cast<size_t>(rank.call->witness))}};
  }
  OrderedJson site;
  if (rank.call_site) {
    site = {{"function", rank.call_site->function}, {"line", rank.call_site->line}};
  }
  OrderedJson one{{"pid", rank.pid},
                  {"start_ticks", rank.start_ticks},
                  {"job", rank.job},
                  {"launcher_job", or_null(rank.launcher_job)},
                  {"rank", or_null(rank.rank)},
                  {"world_size", or_null(rank.world_size)},
                  {"local_size", or_null(rank.local_size)},
                  {"problem", rank.problem},
                  {"state", kRunStates.at(static_cast<size_t>(rank.run_state))},
                  {"debugger", rank.debugger},
                  {"location", rank.location},
                  {"call_site", std::move(site)},
                  {"activity", rank.activity},
                  {"call", std::move(call)},
                  {"call_known", rank.call_known},
                  {"call_problem", rank.call_problem},
                  {"cpu_ticks", rank.cpu_ticks},
                  {"no_sockets", rank.no_sockets},
                  {"communicators", OrderedJson::array()},
                  {"communicators_problem", rank.communicators_problem},
                  {"sockets", OrderedJson::array()}};
  for (const stacks::NcclCommunicator& communicator : rank.communicators) {
    one["communicators"].push_back(to_json(communicator));
  }
  for (const TcpSocket& socket : rank.sockets) {
    one["sockets"].push_back(to_json(socket));
  }
  return one;
}

/// Reads members of objects; what is missing or has another form is noted once, and reads as empty.
class Reader {
 public:
  [[nodiscard]] const std::string& wrong() const { return wrong_; }

  std::string text(const Json& object, const char* name) {
    const Json* value = member(object, name);
    if (value == nullptr || !value->is_string()) {
      return refuse<std::string>(name);
    }
    return printable(std::string_view(value->get_ref<const std::string&>()).substr(0, kLongestText));
  }

  std::optional<std::string> text_or_null(const Json& object, const char* name) {
    const Json* value = member(object, name);
    return value != nullptr && value->is_null() ? std::nullopt : std::optional(text(object, name));
  }

  template <typename T>
  T number(const Json& object, const char* name, int64_t least = 0, uint64_t most = std::numeric_limits<T>::max()) {
    const Json* value = member(object, name);
    if (value == nullptr || !value->is_number_integer()) {
      return refuse<T>(name);
    }
    if (value->is_number_unsigned()) {
      const auto found = value->get<uint64_t>();
      const bool enough = least <= 0 || found >= static_cast<uint64_t>(least);
      return enough && found <= most ? static_cast<T>(found) : refuse<T>(name);
    }
    const auto found = value->get<int64_t>();  // below 0
    return found >= least ? static_cast<T>(found) : refuse<T>(name);
  }

  template <typename T>
  std::optional<T> number_or_null(const Json& object, const char* name, int64_t least, uint64_t most) {
    const Json* value = member(object, name);
    if (value != nullptr && value->is_null()) {
      return std::nullopt;
    }
    return number<T>(object, name, least, most);
  }

  bool flag(const Json& object, const char* name) {
    const Json* value = member(object, name);
    return value != nullptr && value->is_boolean() ? value->get<bool>() : refuse<bool>(name);
  }

  /// The position of a text among `names`.
  template <typename T, size_t N>
  T choice(const Json& object, const char* name, const std::array<std::string_view, N>& names) {
    const std::string found = text(object, name);
    for (size_t i = 0; i < N; ++i) {
      if (names.at(i) == found) {
        return static_cast<T>(i);
      }
    }
    return refuse<T>(name);
  }

  /// Empty where it is no list.
  const Json& list(const Json& object, const char* name, size_t most = kMostRows) {
    static const Json kNone = Json::array();
    const Json* value = member(object, name);
    if (value == nullptr || !value->is_array() || value->size() > most) {
      refuse<bool>(name);
      return kNone;
    }
    return *value;
  }

  /// Null where it is null, or no object.
  const Json* object_or_null(const Json& object, const char* name) {
    const Json* value = member(object, name);
    if (value == nullptr || (!value->is_null() && !value->is_object())) {
      refuse<bool>(name);
      return nullptr;
    }
    return value->is_null() ? nullptr : value;
  }

  Endpoint endpoint(const Json& object, const char* name) {
    const auto found = parse_endpoint(text(object, name));
    return found ? *found : refuse<Endpoint>(name);
  }

 private:
  static const Json* member(const Json& object, const char* name) {
    if (!object.is_object()) {
      return nullptr;
    }
    const auto found = object.find(name);
    return found == object.end() ? nullptr : &*found;
  }

  template <typename T>
  T refuse(const char* name) {
    if (wrong_.empty()) {
      wrong_ = name;
    }
    return T();
  }

  std::string wrong_;
};

TcpSocket socket_of(const Json& row, Reader& reader) {
  TcpSocket socket;
  socket.netns = reader.number<uint64_t>(row, "netns");
  socket.inode = reader.number<uint64_t>(row, "inode");
  socket.local = reader.endpoint(row, "local");
  socket.remote = reader.endpoint(row, "remote");
  socket.state =
      static_cast<TcpState>(reader.number<uint8_t>(row, "state", 0, static_cast<uint64_t>(TcpState::kClosing)));
  socket.timer = reader.choice<Timer>(row, "timer", kTimers);
  socket.tries = reader.number<uint32_t>(row, "tries");
  socket.backoff = reader.number<uint32_t>(row, "backoff");
  socket.expires_ms = reader.number<int64_t>(row, "expires_ms", 0, kLongestMs);
  socket.time_out_ms = reader.number<int64_t>(row, "timeout_ms", 0, kLongestMs);
  socket.receive_queue = reader.number<uint32_t>(row, "receive_queue");
  socket.send_queue = reader.number<uint32_t>(row, "send_queue");
  socket.not_sent = reader.number<uint32_t>(row, "unsent_bytes");
  socket.acked = reader.number<uint64_t>(row, "acked_bytes");
  socket.received = reader.number<uint64_t>(row, "received_bytes");
  socket.silent_ms = reader.number_or_null<int64_t>(row, "silent_ms", 0, kLongestMs);
  socket.ack_age_ms = reader.number<int64_t>(row, "ack_age_ms", 0, kLongestMs);
  return socket;
}

stacks::NcclCommunicator communicator_of(const Json& row, Reader& reader) {
  stacks::NcclCommunicator communicator;
  communicator.address = reader.number<uint64_t>(row, "address");
  communicator.hash = reader.number<uint64_t>(row, "hash", 1);
  communicator.nranks = reader.number<int32_t>(row, "nranks", 1, kMostRankNumber);
  communicator.rank = reader.number<int32_t>(row, "rank", 0, kMostRankNumber);
  communicator.device = reader.number<int32_t>(row, "device");
  for (const Json& one : reader.list(row, "launched", kMostOperations)) {
    communicator.launched.emplace_back(reader.text(one, "operation"), reader.number<uint64_t>(one, "count"));
  }
  return communicator;
}

RankState rank_of(const Json& row, const std::string& node, Reader& reader) {
  RankState rank{.node = node};
  rank.pid = reader.number<pid_t>(row, "pid", 1);
  rank.start_ticks = reader.number<uint64_t>(row, "start_ticks");
  rank.job = reader.text(row, "job");
  rank.launcher_job = reader.text_or_null(row, "launcher_job");
  rank.rank = reader.number_or_null<int32_t>(row, "rank", 0, kMostRankNumber);
  rank.world_size = reader.number_or_null<int32_t>(row, "world_size", 0, kMostRankNumber);
  rank.local_size = reader.number_or_null<int32_t>(row, "local_size", 0, kMostRankNumber);
  rank.problem = reader.text(row, "problem");
  rank.run_state = reader.choice<RunState>(row, "state", kRunStates);
  rank.debugger = reader.number<pid_t>(row, "debugger");
  rank.location = reader.text(row, "location");
  if (const Json* site = reader.object_or_null(row, "call_site")) {
    rank.call_site = stacks::CallSite{reader.text(*site, "function"), reader.text(*site, "line")};
  }
  rank.activity = reader.text(row, "activity");
  if (const Json* call = reader.object_or_null(row, "call")) {
    OpenCall& open = rank.call.emplace();
    open.name = reader.text(*call, "name");
    if (const auto op = call->find("op"); op != call->end() && op->is_string()) {
      open.op = operation_from_text(op->get_ref<const std::string&>());
    }
    open.witness = reader.choice<Witness>(*call, "seen_in", kWitnesses);
  }
  rank.call_known = reader.flag(row, "call_known");
  rank.call_problem = reader.text(row, "call_problem");
  rank.cpu_ticks = reader.number<uint64_t>(row, "cpu_ticks");
  rank.no_sockets = reader.text(row, "no_sockets");
  if (row.contains("communicators")) {  // an older version writes none
    rank.communicators_problem = reader.text(row, "communicators_problem");
    for (const Json& one : reader.list(row, "communicators", stacks::kMostCommunicators)) {
      rank.communicators.push_back(communicator_of(one, reader));
    }
  }
  for (const Json& socket : reader.list(row, "sockets")) {
    rank.sockets.push_back(socket_of(socket, reader));
  }
  return rank;
}

std::vector<std::string> texts_of(const Json& list) {
  std::vector<std::string> texts;
  for (const Json& item : list) {
    if (item.is_string()) {
      texts.push_back(printable(std::string_view(item.get_ref<const std::string&>()).substr(0, kLongestText)));
    }
  }
  return texts;
}

Snapshot snapshot_of(const Json& row, const std::string& node, Reader& reader) {
  Snapshot snapshot;
  snapshot.taken_ns = reader.number<int64_t>(row, "taken_ns", 0, kLatestNs);
  snapshot.host_addresses = texts_of(reader.list(row, "host_addresses"));
  for (const Json& rank : reader.list(row, "ranks", kMostRanks)) {
    snapshot.ranks.push_back(rank_of(rank, node, reader));
  }
  return snapshot;
}

Traced traced_of(const Json& row, Reader& reader) {
  Traced traced;
  traced.done = reader.flag(row, "done");
  traced.problem = reader.text(row, "problem");
  traced.lasted_ns = reader.number<int64_t>(row, "lasted_ns", 0, kLongestWatchNs);
  for (const Json& calls : reader.list(row, "calls", kMostRanks)) {
    constexpr uint64_t kMostCalls = uint64_t{1} << 40;
    traced.calls.emplace_back(reader.number<pid_t>(calls, "pid", 1),
                              Traced::Calls{.ended = reader.number<int64_t>(calls, "ended", 0, kMostCalls),
                                            .launched = reader.number<int64_t>(calls, "launched", 0, kMostCalls)});
  }
  return traced;
}

std::unexpected<Error> no_result() {
  return fail("this is no result of stalltrace autopsy",
              "give the files that `stalltrace autopsy --out FILE` wrote on each host of the job", ErrorKind::kCorrupt);
}

Result<Json> parsed(std::string_view json) {
  size_t values = 0;
  bool too_deep = false;
  const auto within_limits = [&](int depth, Json::parse_event_t /*event*/, Json& /*value*/) {
    too_deep = too_deep || depth > kDeepest;
    return !too_deep && ++values <= kMostValues;
  };
  Json object = Json::parse(json, within_limits, false);
  if (values > kMostValues) {
    return fail(fmt::format("more than {} values", kMostValues), "", ErrorKind::kCorrupt);
  }
  if (too_deep) {
    return fail("the result is nested too deeply", "", ErrorKind::kCorrupt);
  }
  if (object.is_discarded()) {
    const std::string_view head = json.substr(0, 256);
    if (head.find(kMadeByAutopsy) == std::string_view::npos) {
      return no_result();
    }
    return fail("the result is cut off or damaged", "copy it again, or run stalltrace autopsy on that host again",
                ErrorKind::kCorrupt);
  }
  const auto made_by = object.is_object() ? object.find(kMadeBy) : object.end();
  if (!object.is_object() || made_by == object.end() || *made_by != kMadeByAutopsy) {
    return no_result();
  }
  return object;
}

}  // namespace

OrderedJson evidence_json(const HostResult& host) {
  OrderedJson calls = OrderedJson::array();
  for (const auto& [pid, of_pid] : host.traced.calls) {
    calls.push_back({{"pid", pid}, {"ended", of_pid.ended}, {"launched", of_pid.launched}});
  }
  OrderedJson ras = OrderedJson::array();
  for (const RasAccount& account : host.ras) {
    ras.push_back({{"job", account.job},
                   {"address", account.address},
                   {"asked_ns", account.asked_ns},
                   {"report", account.report},
                   {"statements", account.statements}});
  }
  OrderedJson snapshots = OrderedJson::array();
  for (const Snapshot& snapshot : host.snapshots) {
    OrderedJson ranks = OrderedJson::array();
    for (const RankState& rank : snapshot.ranks) {
      ranks.push_back(to_json(rank));
    }
    snapshots.push_back(
        {{"taken_ns", snapshot.taken_ns}, {"host_addresses", snapshot.host_addresses}, {"ranks", std::move(ranks)}});
  }
  return {{"calls",
           {{"done", host.traced.done},
            {"problem", host.traced.problem},
            {"lasted_ns", host.traced.lasted_ns},
            {"calls", std::move(calls)}}},
          {"ras", std::move(ras)},
          {"problems", std::vector(host.problems.begin(),
                                   host.problems.begin() +
                                       static_cast<std::ptrdiff_t>(std::min(host.problems.size(), kMostProblems)))},
          {"snapshots", std::move(snapshots)}};
}

Result<HostResult> read_result(std::string_view json) {
  ST_ASSIGN(const Json object, parsed(json));
  const auto schema = object.find("schema");
  if (schema == object.end() || !schema->is_number_integer() || *schema != kResultSchema) {
    return fail(fmt::format("a result in another version of the format; this program reads {}", kResultSchema),
                "use the same stalltrace on all hosts", ErrorKind::kCorrupt);
  }
  if (object.contains("nodes")) {
    return fail("the joined result of several hosts", "give the files of each host", ErrorKind::kCorrupt);
  }
  const auto evidence = object.find("evidence");
  if (evidence == object.end()) {
    return fail("the result has no evidence to be judged with that of other hosts",
                "run stalltrace autopsy on that host again", ErrorKind::kCorrupt);
  }
  Reader reader;
  HostResult host;
  host.node = reader.text(object, "node");
  for (const Json& snapshot : reader.list(*evidence, "snapshots", 2)) {
    host.snapshots.push_back(snapshot_of(snapshot, host.node, reader));
  }
  if (const Json* calls = reader.object_or_null(*evidence, "calls")) {
    host.traced = traced_of(*calls, reader);
  }
  for (const Json& row : reader.list(*evidence, "ras")) {
    RasAccount& account = host.ras.emplace_back();
    account.job = reader.text(row, "job");
    account.address = reader.text(row, "address");
    account.asked_ns = reader.number<int64_t>(row, "asked_ns", 0, kLatestNs);
    account.report = reader.text(row, "report");
    account.statements = texts_of(reader.list(row, "statements"));
  }
  if (evidence->contains("problems")) {  // an older version writes none
    host.problems = texts_of(reader.list(*evidence, "problems", kMostProblems));
  }
  std::string wrong = reader.wrong();
  if (wrong.empty() && (host.snapshots.size() != 2 || host.node.empty())) {
    wrong = "snapshots";
  }
  if (wrong.empty()) {
    const int64_t watched_ns = host.snapshots[1].taken_ns - host.snapshots[0].taken_ns;
    wrong = watched_ns < 0 || watched_ns > kLongestWatchNs ? "taken_ns" : "";
  }
  if (!wrong.empty()) {
    return fail(fmt::format("the result is damaged: `{}` is missing or impossible", wrong),
                "run stalltrace autopsy on that host again", ErrorKind::kCorrupt);
  }
  return host;
}

}  // namespace stalltrace::autopsy
