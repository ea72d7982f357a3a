// SPDX-License-Identifier: Apache-2.0
// Has each node look up the host names of those it is tested with.
#include "base/net/loopback.h"
#include "preflight/peers/coordinator/steps.h"

namespace stalltrace::preflight {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kNamesNs = 30 * kNsPerSecond;

}  // namespace

void look_up_names(Ranks& ranks, const std::vector<std::vector<Pair>>& rounds) {
  std::map<int32_t, std::set<int32_t>> peers;
  for (const auto& round : rounds) {
    for (const auto& [a, b] : round) {
      peers[a].insert(b);
      peers[b].insert(a);
    }
  }
  std::map<size_t, Json> orders;
  for (const auto& [from, others] : peers) {
    const std::string& own = ranks.session_of(from).hello.hostname;
    std::set<std::string> names;
    for (const int32_t other : others) {
      const std::string& name = ranks.session_of(other).hello.hostname;
      if (!name.empty() && name != own) {
        names.insert(name);
      }
    }
    if (!names.empty()) {
      orders.emplace(ranks.first_session(from), Json{{"order", "names"}, {"names", names}});
    }
  }
  for (const auto& [index, answer] : ranks.ask(orders, kNamesNs, "the look-up of names")) {
    TestedNode& node = ranks.results.nodes[static_cast<size_t>(ranks.sessions[index].node)];
    const auto found = answer.find("addresses");
    for (const Json& name : orders[index]["names"]) {
      const auto addresses =
          found != answer.end() && found->is_object() ? found->find(name.get<std::string>()) : Json::const_iterator();
      if (found == answer.end() || !found->is_object() || addresses == found->end() || !addresses->is_array() ||
          addresses->empty()) {
        node.wrong_names.push_back({name.get<std::string>(), std::nullopt});
        continue;
      }
      for (const Json& address : *addresses) {
        if (address.is_string() && is_loopback(address.get<std::string>())) {
          node.wrong_names.push_back({name.get<std::string>(), address.get<std::string>()});
        }
      }
    }
  }
}

}  // namespace stalltrace::preflight
