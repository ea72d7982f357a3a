// SPDX-License-Identifier: Apache-2.0
// The ranks of a launch as rank 0 knows them: their connections, and what is asked over them.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "preflight/peers/launch.h"
#include "preflight/peers/line_channel.h"
#include "preflight/peers/messages.h"

namespace stalltrace::preflight {

constexpr size_t kMoreConnections = 64;          // than ranks, which may still introduce themselves
constexpr int64_t kReadyNs = 10 * kNsPerSecond;  // for an answer that needs no test

/// One rank's connection.
struct Session {
  LineChannel channel;
  Hello hello;
  int32_t node = -1;
  int64_t joined_ns = 0;
  bool silent = false;  // it was given up since it did not answer in time; its process may live
};

/// The connections, and the results that the tests fill. One thread uses them.
class Ranks {
 public:
  explicit Ranks(Launch of_launch) : launch(std::move(of_launch)) {}

  /// Takes ranks from the listener until all have come, or the launch's time to wait is over; then numbers their nodes.
  /// Those that are missing, twice, or of another world size become checks of the launch. Returns what kept rank 0 from
  /// taking connections, for the end of a sentence; or nothing.
  std::string gather(int listener);

  Session& session_of(int32_t node) { return sessions[first_session(node)]; }
  /// The index of the session by which a node is asked: that of its first rank.
  [[nodiscard]] size_t first_session(int32_t node) const {
    return static_cast<size_t>(first_session_[static_cast<size_t>(node)]);
  }
  [[nodiscard]] const TestedNode& node(int32_t index) const { return results.nodes[static_cast<size_t>(index)]; }

  /// Sends the orders (by session), and waits for all answers. A session without one in time is closed. `is_fault`:
  /// some time after an answer for which it is true the others get kStopOrder, as they may wait for that
  /// rank.
  std::map<size_t, nlohmann::ordered_json> ask(const std::map<size_t, nlohmann::ordered_json>& orders, int64_t limit_ns,
                                               std::string_view step,
                                               const std::function<bool(const nlohmann::ordered_json&)>& is_fault = {});
  /// Those of these sessions that have something to read; waits for one.
  std::vector<size_t> readable(const std::set<size_t>& waiting, int64_t end_ns);
  /// Closes a session for good, and makes it a failed check of the launch.
  void give_up(Session& session, std::string_view step, std::string_view problem);

  const Launch launch;
  std::vector<Session> sessions;  // by rank once all have come
  LaunchResults results;

 private:
  void wait_for_ranks(int listener);
  void admit(LineChannel channel, const Result<std::optional<nlohmann::ordered_json>>& message, int64_t now_ns);
  void number_nodes();
  void name_nodes_apart();
  void report_missing();
  [[nodiscard]] std::string accept_problem() const;

  std::vector<int32_t> first_session_;  // of each node
  size_t refused_ = 0;                  // ranks that do not fit into this launch
  int accept_error_ = 0;                // the last one
};

}  // namespace stalltrace::preflight
