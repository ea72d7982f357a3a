// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/state.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "lab/cluster/host/lock.h"

namespace stalltrace::lab {
namespace {

using Json = nlohmann::ordered_json;

Json fault_json(const HandAppliedFault& fault) {
  Json undo = Json::array();
  for (const UndoAction& action : fault.undo) {
    undo.push_back({{"kind", to_text(action.kind)}, {"arguments", action.arguments}});
  }
  return {{"fault", fault.text}, {"undo", undo}};
}

/// Throws nlohmann's exceptions; cluster_state_from_json turns them into an error.
HandAppliedFault read_fault(const Json& json) {
  HandAppliedFault fault;
  fault.text = json.at("fault").get<std::string>();
  for (const Json& action : json.at("undo")) {
    const auto kind = undo_kind_from_text(action.at("kind").get<std::string>());
    if (kind) {
      fault.undo.push_back({*kind, action.at("arguments").get<std::vector<std::string>>()});
    }
  }
  return fault;
}

}  // namespace

std::string to_json(const ClusterState& state) {
  Json faults = Json::array();
  for (const HandAppliedFault& fault : state.faults) {
    faults.push_back(fault_json(fault));
  }
  const Json root = {{"schema", ClusterState::kSchema},
                     {"ranks", state.ranks},
                     {"next_number", state.next_number},
                     {"faults", faults}};
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<ClusterState> cluster_state_from_json(std::string_view text) {
  try {
    const Json root = Json::parse(text);
    ClusterState state;
    state.ranks = root.at("ranks").get<int>();
    state.next_number = root.at("next_number").get<int>();
    for (const Json& fault : root.at("faults")) {
      state.faults.push_back(read_fault(fault));
    }
    if (root.at("schema").get<int>() != ClusterState::kSchema || state.ranks < 1 || state.ranks > kMaximumRanks) {
      return fail("not a cluster's state", {}, ErrorKind::kCorrupt);
    }
    return state;
  } catch (const Json::exception&) {
    return fail("not a cluster's state", {}, ErrorKind::kCorrupt);
  }
}

std::string state_path() { return std::string(kStateFolder) + "/state.json"; }

Result<ClusterState> load_state() {
  const auto text = read_file(state_path());
  if (!text) {
    return fail("no practice cluster is up", "make one with `stalltrace lab up`", ErrorKind::kNotFound);
  }
  auto state = cluster_state_from_json(*text);
  if (!state) {
    state.error().what = state_path() + ": " + state.error().what;
    state.error().remedy = "start afresh with `stalltrace lab down`";
  }
  return state;
}

Status save_state(const ClusterState& state) { return write_file(state_path(), to_json(state)); }

}  // namespace stalltrace::lab
