// SPDX-License-Identifier: Apache-2.0
// Fuzzes what is done with the autopsy results of other hosts: an input is one or more files, with a zero byte between
// them. Each that is read can be written and read again; all of them are joined, judged and printed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autopsy/hosts/host_result.h"
#include "autopsy/hosts/join_hosts.h"
#include "autopsy/judge/judge.h"
#include "autopsy/output/autopsy_text.h"
#include "autopsy/sockets/diag.h"  // has to_text(TcpState): scripts/fuzz.sh compiles what is included
#include "base/text.h"
#include "model/json/autopsy_result.h"
#include "tests/fuzz/rows.h"

using namespace stalltrace;
using namespace stalltrace::autopsy;
using fuzz::require;
using Json = nlohmann::ordered_json;

namespace {

void read_again(const HostResult& host) {
  const Json evidence = evidence_json(host);
  const Json file{
      {std::string(kMadeBy), kMadeByAutopsy}, {"schema", kResultSchema}, {"node", host.node}, {"evidence", evidence}};
  const auto second = read_result(file.dump());
  require(second && second->node == host.node);
  require(second->snapshots.size() == host.snapshots.size() && second->traced.calls.size() == host.traced.calls.size());
  for (size_t i = 0; i < host.snapshots.size(); ++i) {
    require(second->snapshots[i].taken_ns == host.snapshots[i].taken_ns);
    require(second->snapshots[i].ranks.size() == host.snapshots[i].ranks.size());
  }
}

void check(const HostResult& host) {
  require(host.snapshots.size() == 2 && !host.node.empty() && printable(host.node) == host.node);
  require(host.snapshots[0].taken_ns >= 0 && host.snapshots[0].taken_ns <= host.snapshots[1].taken_ns);
  for (const Snapshot& snapshot : host.snapshots) {
    for (const RankState& rank : snapshot.ranks) {
      require(rank.pid > 0 && rank.rank.value_or(0) >= 0 && rank.rank.value_or(0) <= kMostRankNumber);
      require(printable(rank.location) == rank.location && printable(rank.job) == rank.job);
      for (const TcpSocket& socket : rank.sockets) {
        require(socket.expires_ms >= 0 && socket.time_out_ms >= 0 && socket.silent_ms.value_or(0) >= 0);
        require(!to_text(socket.state).empty());
      }
    }
  }
}

void judge_all(std::vector<HostResult> hosts) {
  const auto joined = join_hosts(std::move(hosts));
  if (!joined) {
    require(!joined.error().what.empty());
    return;
  }
  const Snapshot& last = joined->snapshots.back();
  for (const JobVerdict& verdict : judge(joined->snapshots, joined->context)) {
    require(verdict.ranks >= 0 && !verdict.text.empty());
    const std::string text = job_text(last, verdict);
    for (const std::string_view line : split(text, '\n')) {
      require(printable(line) == line);
    }
  }
  require(!ranks_json(last).dump().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kMostHosts = 4;
  std::vector<HostResult> hosts;
  for (const std::string_view file : split({reinterpret_cast<const char*>(data), size}, '\0')) {
    auto host = read_result(file);
    if (!host) {
      require(!host.error().what.empty());
    } else if (hosts.size() < kMostHosts) {
      check(*host);
      read_again(*host);
      host->file = std::to_string(hosts.size()) + ".json";
      hosts.push_back(std::move(*host));
    }
  }
  if (!hosts.empty()) {
    judge_all(std::move(hosts));
  }
  return 0;
}
