// SPDX-License-Identifier: Apache-2.0
// The tests between the nodes of a launch (torchrun, mpirun, srun): one process for each rank. Rank 0's process has a
// child that takes part as the rank, and is itself the coordinator; every rank connects to it, answers on ports of its
// own, and tests whom the coordinator names, within limits of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/handle.h"
#include "base/process/procfs.h"
#include "base/result.h"
#include "preflight/host_check.h"
#include "preflight/peers/collectives/helper.h"
#include "preflight/peers/collectives/results.h"
#include "preflight/peers/measured.h"
#include "preflight/peers/probes.h"

namespace stalltrace::preflight {

inline constexpr int64_t kDefaultPort = 7702;
inline constexpr size_t kLaunchSecretBytes = 64;  // as hexadecimal digits

/// What the test of collectives may cost.
struct CollectiveLimits {
  bool wanted = false;
  std::string library;                        // NCCL's file; empty: the linker's choice
  int64_t max_bytes = 64LL << 20;             // of an operation
  int64_t step_ns = 60 * kNsPerSecond;        // for the calls of one size; a rank that takes longer is one that hangs
  int64_t set_up_ns = 120 * kNsPerSecond;     // for the libraries to be loaded, and for the communicator
  int64_t after_fault_ns = 5 * kNsPerSecond;  // of one rank, for the others to see it themselves
  int64_t all_ns = 300 * kNsPerSecond;        // sizes that would begin later are left out
};

struct Launch {
  int32_t rank = 0;
  int32_t world_size = 0;
  std::string job;                   // the launcher's id; empty: none
  std::string name;                  // of this node
  std::string master;                // as it was given, for messages
  std::vector<std::string> masters;  // numbers of rank 0's host
  uint16_t port = kDefaultPort;
  std::string listen_at;  // rank 0's number; empty: all addresses of its host
  /// Of tests that servers make for another host, which gave it to all of them: ranks show its first half to rank 0,
  /// and rank 0 its second half to them. Empty: a launcher started the ranks.
  std::string secret;
  std::vector<std::string> rank_names;  // of the ranks' servers, as they were asked; empty: a launcher started them
  int64_t wait_ns = 60 * kNsPerSecond;  // for the other ranks, from the start
  int64_t most_rounds = 31;             // of pairs
  int64_t barrier_rounds = 200;
  int64_t arrival_ns = 5 * kNsPerSecond;  // at most, in each round of the barrier
  FlowLimits flow;                        // its time is also that of the timed calls of a collective
  CollectiveLimits collectives;
};

/// What the rank of a launch needs of its caller.
struct LaunchHooks {
  /// What names stand for; nothing: unknown. Called before the first thread is started.
  std::function<std::map<std::string, std::vector<std::string>>(const std::vector<std::string>&)> resolve;
  /// From here on it only connects, and answers on sockets that it has: other rights can be given up.
  std::function<void()> confine = [] {};
  CollectivesHelper* collectives = nullptr;  // null: this rank makes none
};

/// What all ranks measured.
struct LaunchResults {
  std::vector<TestedNode> nodes;  // by their first rank
  std::vector<TestedRank> ranks;  // those that came, by number
  std::vector<PairResult> pairs;
  std::optional<CollectiveResults> collectives;  // nothing: not asked for
  std::vector<HostReport> reports;               // of each node
  std::vector<HostCheck> launch_checks;          // ranks that did not come, or stopped answering
  int64_t rounds = 0;                            // of pairs that were tested
  int64_t possible_rounds = 0;
  int64_t world_size = 0;
};

/// Takes part as one rank until the coordinator says that it is over. Returns whether a check failed. Errors: rank 0
/// can't be reached, refuses this rank, or is gone.
Result<bool> take_part(const Launch& launch, const HostReport& report, const Environment& environment,
                       const LaunchHooks& hooks, const HostFiles& files = {});

/// Whether one of these numbers is an address of this host.
bool has_address(const std::vector<std::string>& numbers);

/// Rank 0's side.
class Coordinator {
 public:
  /// Listens. Errors: the port is taken.
  static Result<Coordinator> open(const Launch& launch);
  Coordinator(Coordinator&&) noexcept;
  ~Coordinator();

  [[nodiscard]] uint16_t port() const;
  /// Waits for the ranks, and has them test each other. `say` gets lines for people, before each step. Errors: no
  /// rank came.
  Result<LaunchResults> run(const std::function<void(const std::string&)>& announce);
  /// Ends the ranks. To be called once, after run().
  void finish(bool failed);

 private:
  struct State;
  explicit Coordinator(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace stalltrace::preflight
