// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/call_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "analysis/rank_numbers.h"
#include "analysis/thresholds/order.h"
#include "base/python_frames.h"
#include "model/events/imported/watchdog_report.h"
#include "model/events/imported_evidence.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kCallsCompared = kMostCallsAhead + 512;  // kept of each rank and communicator, the last ones

using MemberKey = std::tuple<CommHash, NodeId, int32_t, uint64_t>;

LoggedSignature signature_of(const Collective& row) {
  return {row.op, row.count.value_or(-1), row.datatype.value_or(-1), row.root.value_or(-1)};
}

class Reader {
 public:
  explicit Reader(EventSource& source) : source_(source) {}

  Result<OrderEvidence> read() {
    ST_TRY(read_states());
    ST_TRY(source_.collectives({}, [&](const Collective& row) { take(row); }));
    ST_TRY(source_.log_lines({}, [&](const LogLine& row) { take(row); }));
    finish();
    return std::move(out_);
  }

 private:
  Status read_states() {
    ST_ASSIGN(const std::vector<Node> nodes, source_.nodes());
    for (const Node& node : nodes) {
      out_.nodes.emplace(node.node_id, node);
      out_.timed = out_.timed && !lacks(node, kLacksTimes);
    }
    ST_ASSIGN(const std::vector<Stack> stacks, source_.stacks());
    for (const Stack& stack : stacks) {
      out_.stacks.emplace(stack.stack_id, stack.frames);
    }
    ST_ASSIGN(const std::vector<Process> processes, source_.processes());
    for (const Process& row : processes) {
      process_of({row.node_id, row.pid}).rank = row.rank;
    }
    ST_ASSIGN(const std::vector<Communicator> communicators, source_.communicators());
    for (const Communicator& row : communicators) {
      if (row.comm_id_hash == 0) {
        continue;
      }
      CallOrder& member = member_of({row.comm_id_hash, row.node_id, row.pid, row.comm_ptr});
      member.rank = row.rank;
      member.nranks = row.nranks.value_or(0);
      member.left = row.destroyed_ns.has_value();
      named_[row.comm_id_hash] = named_[row.comm_id_hash] || row.nccl_comm_hash != 0 || row.split_color.has_value();
    }
    return {};
  }

  ProcessLog& process_of(LoggedProcessKey key) {
    ProcessLog& process = out_.processes[key];
    if (process.node.empty()) {
      const auto node = out_.nodes.find(key.first);
      process.node = node == out_.nodes.end() ? fmt::format("node {}", key.first) : node->second.name;
      process.has_pid = node == out_.nodes.end() || !lacks(node->second, kLacksPids);
    }
    return process;
  }

  CallOrder& member_of(MemberKey key) {
    CallOrder& member = members_[key];
    member.hash = std::get<0>(key);
    member.process = {std::get<1>(key), std::get<2>(key)};
    member.comm_ptr = std::get<3>(key);
    return member;
  }

  void take(const Collective& row) {
    if (!moves_data(row.op)) {
      return;
    }
    ++out_.calls;
    out_.pairs += is_point_to_point(row.op) ? 1 : 0;
    out_.first_ns = out_.first_ns == 0 ? row.timestamp_ns : std::min(out_.first_ns, row.timestamp_ns);
    out_.last_call_ns = std::max({out_.last_call_ns, row.timestamp_ns, row.end_ns().value_or(0)});
    out_.last_ns = std::max(out_.last_ns, out_.last_call_ns);
    ProcessLog& process = process_of({row.node_id, row.pid});
    if (row.event_id > process.newest_call) {
      process.newest_call = row.event_id;
      process.newest_is_pair = is_point_to_point(row.op);
      process.newest_hash = row.comm_id_hash;
    }
    const bool placed = is_collective(row.op) && row.seq && row.comm_id_hash != 0;
    if (is_collective(row.op) && !placed) {
      ++out_.unplaced;
    }
    if (row.comm_id_hash == 0) {
      return;
    }
    CallOrder& member = member_of({row.comm_id_hash, row.node_id, row.pid, row.comm_ptr});
    member.rank = member.rank ? member.rank : row.rank;
    member.nranks = std::max(member.nranks, row.nranks.value_or(0));
    member.newest = std::max(member.newest, row.event_id);
    if (!placed) {
      return;
    }
    const bool ended = row.completion != Completion::kUnobserved && row.completion != Completion::kOpen;
    out_.ends_known = out_.ends_known || row.completion != Completion::kUnobserved;
    ++member.count;
    member.calls.push_back({*row.seq, row.timestamp_ns, row.event_id, signature_of(row), ended,
                            row.completion == Completion::kOpen, row.stack_id});
    if (member.calls.size() > kCallsCompared) {
      member.calls.pop_front();
    }
  }

  void take(const LogLine& row) {
    const auto report = row.kind == LogKind::kTimeout ? read_watchdog_report(row.text) : std::nullopt;
    if (row.kind == LogKind::kTimeout && !(report && report->asked)) {  // else another rank's call did not end
      out_.timeouts.push_back({row.rank, row.timestamp_ns, row.text});
    }
    out_.first_ns = out_.first_ns == 0 ? row.timestamp_ns : std::min(out_.first_ns, row.timestamp_ns);
    out_.last_ns = std::max(out_.last_ns, row.timestamp_ns);
    if (row.pid == 0) {
      return;
    }
    ProcessLog& process = process_of({row.node_id, row.pid});
    if (row.kind == LogKind::kEnd || row.kind == LogKind::kCut) {
      process.last_ns = row.timestamp_ns;  // not the highest of all times: clocks go back at midnight and are set
    }
    process.cut = process.cut || row.kind == LogKind::kCut;
  }

  void finish() {
    // Lines of one time come in the order of their nodes' numbers, which is another one in each import.
    std::ranges::sort(out_.timeouts, {},
                      [](const Timeout& timeout) { return std::tie(timeout.time_ns, timeout.rank, timeout.text); });
    std::map<CommHash, CommOrder> comms;
    std::map<std::pair<LoggedProcessKey, CommHash>, size_t> threads;
    for (auto& [key, member] : members_) {
      std::ranges::stable_sort(member.calls, {}, &LoggedCall::number);
      CommOrder& comm = comms[member.hash];
      comm.hash = member.hash;
      comm.named = named_[member.hash];
      comm.nranks = std::max(comm.nranks, member.nranks);
      ProcessLog& process = process_of(member.process);
      process.threads_as_ranks = std::max(process.threads_as_ranks, ++threads[{member.process, member.hash}]);
      comm.members.push_back(std::move(member));
    }
    for (auto& [hash, comm] : comms) {
      std::ranges::stable_sort(comm.members, {}, [](const CallOrder& member) { return member.rank.value_or(1 << 30); });
      out_.comms.push_back(std::move(comm));
    }
  }

  EventSource& source_;
  OrderEvidence out_;
  std::map<MemberKey, CallOrder> members_;
  std::map<CommHash, bool> named_;
};

}  // namespace

const LoggedCall* CallOrder::call_at(int64_t number) const {
  const auto found = std::ranges::lower_bound(calls, number, {}, &LoggedCall::number);
  return found == calls.end() || found->number != number ? nullptr : &*found;
}

std::string OrderEvidence::describe(const CallOrder& member) const {
  const auto process = processes.find(member.process);
  const std::string node = process == processes.end() ? "?" : process->second.node;
  const std::optional<int32_t> rank = rank_of(member);
  if (process != processes.end() && !process->second.has_pid) {
    return rank ? fmt::format("rank {} ({})", *rank, node) : node;
  }
  return rank ? fmt::format("rank {} ({}, pid {})", *rank, node, member.process.second)
              : fmt::format("pid {} on {}", member.process.second, node);
}

std::optional<int32_t> OrderEvidence::rank_of(const CallOrder& member) const {
  const auto process = processes.find(member.process);
  return process != processes.end() && process->second.rank ? process->second.rank : member.rank;
}

Culprit OrderEvidence::culprit(const CallOrder& member) const {
  const ProcessLog& process = processes.at(member.process);
  return {process.node, rank_of(member), process.has_pid ? member.process.second : 0};
}

std::string OrderEvidence::short_name(const CallOrder& member) const {
  const std::optional<int32_t> rank = rank_of(member);
  return rank ? fmt::format("rank {}", *rank) : describe(member);
}

std::string OrderEvidence::names_of(const OrderMembers& members) const {
  std::vector<int32_t> ranks;
  for (const CallOrder* member : members) {
    const std::optional<int32_t> rank = rank_of(*member);
    if (!rank) {
      return members.size() == 1 ? describe(*member) : fmt::format("{} processes", members.size());
    }
    ranks.push_back(*rank);
  }
  return ranks_text(std::move(ranks));
}

Result<OrderEvidence> read_order(EventSource& source) { return Reader(source).read(); }

std::string OrderEvidence::location_of(const LoggedCall& call) const {
  const auto stack = stacks.find(call.stack_id);
  if (stack == stacks.end()) {
    return "";
  }
  const std::vector<PythonFrame> frames = frames_from_text(stack->second);
  const PythonLocation location = location_in(frames);
  return location.own == nullptr ? "" : brief_text(*location.own);
}

std::string call_name(const LoggedCall& call) {
  return fmt::format("{} 0x{:x}", display_name(call.signature.op), static_cast<uint64_t>(call.number));
}

}  // namespace stalltrace::analysis
