// SPDX-License-Identifier: Apache-2.0
// Which processes died and which outlived them: each scenario gives one answer, from the rule itself, from an import of
// the files, and from a follower that finds them on its host.
#include "blackbox/liveness.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "blackbox/follow/follower.h"
#include "blackbox/import.h"
#include "blackbox/testing/profiler_host.h"
#include "model/memory_source.h"

namespace stalltrace::blackbox {
namespace {

constexpr pid_t kFirst = 6000;
constexpr uint64_t kHash = 0xabc;

/// One process. Times are in ms before the files are read.
struct Given {
  int64_t silent_ms = 0;              // since its last sign of life
  std::optional<int64_t> ended_ms{};  // since it ended its communicator normally; nullopt: left open
  bool alive = false;
  uint64_t communicator = kHash;
};

struct Scenario {
  const char* name;
  std::vector<Given> processes;
  std::set<size_t> dead;  // indexes of those that died before others
};

void PrintTo(const Scenario& scenario, std::ostream* out) { *out << scenario.name; }

const Scenario kScenarios[]{
    {"No other rank", {{.silent_ms = 9000}}, {}},
    {"Another lives", {{.silent_ms = 9000}, {.silent_ms = 100, .alive = true}}, {0}},
    {"Another of another job lives", {{.silent_ms = 500}, {.silent_ms = 100, .alive = true, .communicator = 7}}, {0}},
    {"Another was active much later", {{.silent_ms = 9000}, {.silent_ms = 4000}}, {0}},
    {"All became silent at once", {{.silent_ms = 4300}, {.silent_ms = 4000}}, {}},
    {"Of three, one later", {{.silent_ms = 9000}, {.silent_ms = 8900}, {.silent_ms = 4000}}, {0, 1}},
    {"A peer ended the communicator afterwards", {{.silent_ms = 4300}, {.silent_ms = 4000, .ended_ms = 4000}}, {0}},
    {"A peer ended it before", {{.silent_ms = 4000}, {.silent_ms = 4300, .ended_ms = 4300}}, {}},
    {"Another communicator ended afterwards",
     {{.silent_ms = 4300}, {.silent_ms = 4000, .ended_ms = 4000, .communicator = 7}},
     {}},
    {"Communicators without a hash are no rank's",
     {{.silent_ms = 4300, .communicator = 0}, {.silent_ms = 4000, .ended_ms = 4000, .communicator = 0}},
     {}},
    {"Ended in order", {{.silent_ms = 9000, .ended_ms = 9000}, {.silent_ms = 100, .alive = true}}, {}},
    {"Two ended it without the third",
     {{.silent_ms = 4200, .ended_ms = 4200}, {.silent_ms = 4300}, {.silent_ms = 4100, .ended_ms = 4100}},
     {1}},
};

class LivenessScenario : public ProfilerHost, public testing::WithParamInterface<Scenario> {
 protected:
  LivenessScenario() {
    now_ns_ = monotonic_now_ns();
    const Scenario& scenario = GetParam();
    for (size_t i = 0; i < scenario.processes.size(); ++i) {
      const Given& given = scenario.processes[i];
      const pid_t pid = pid_of(i);
      add_process(given.alive ? pid : kFirst - 1, 0);  // only folders of traced processes are searched
      MadeProfilerFile file = file_of(pid);
      file.header.created_ns = before_ns(20'000);
      file.header.heartbeat_ns = before_ns(given.silent_ms);
      file.communicators[0].hash = given.communicator;
      file.communicators[0].created_ns = before_ns(19'000);
      file.communicators[0].destroyed_ns = given.ended_ms ? before_ns(*given.ended_ms) : 0;
      paths_.push_back(folder_of(given.alive ? pid : kFirst - 1) + "/" + name_of(pid));
      file.write(paths_.back());
      if (given.alive) {
        writers_.push_back(std::make_unique<ProfilerFileWriter>(paths_.back()));
      }
    }
  }
  static pid_t pid_of(size_t index) { return kFirst + static_cast<pid_t>(index); }
  [[nodiscard]] uint64_t before_ns(int64_t ms) const { return static_cast<uint64_t>(now_ns_ - ms * kNsPerMs); }
  static std::set<size_t> dead(const MemorySource& rows) {
    std::set<size_t> dead;
    const auto processes = const_cast<MemorySource&>(rows).processes();
    for (const Process& process : *processes) {
      if (process.exit_ns && process.pid >= kFirst) {
        dead.insert(static_cast<size_t>(process.pid - kFirst));
      }
    }
    return dead;
  }

  int64_t now_ns_ = 0;
  std::vector<std::string> paths_;
  std::vector<std::unique_ptr<ProfilerFileWriter>> writers_;
};

TEST_P(LivenessScenario, ByTheRule) {
  Liveness liveness;
  for (const Given& given : GetParam().processes) {
    const auto at_ns = [&](int64_t ms) { return static_cast<int64_t>(before_ns(ms)); };
    ProcessActivity activity{.alive = given.alive, .last_active_ns = at_ns(given.silent_ms)};
    activity.has_open_communicator = !given.ended_ms;
    if (given.communicator != 0 && given.ended_ms) {
      activity.ended.emplace_back(given.communicator, at_ns(*given.ended_ms));
    } else if (given.communicator != 0) {
      activity.open.push_back(given.communicator);
    }
    liveness.add(activity);
  }
  for (size_t i = 0; i < GetParam().processes.size(); ++i) {
    const auto death_ns = liveness.death_ns(i);
    EXPECT_EQ(death_ns.has_value(), GetParam().dead.contains(i)) << i;
    EXPECT_EQ(death_ns.value_or(0), death_ns ? static_cast<int64_t>(before_ns(GetParam().processes[i].silent_ms)) : 0);
  }
}

TEST_P(LivenessScenario, AfterwardsByAnImport) {
  MemorySource rows;
  ASSERT_TRUE(import_profiler_files(paths_, rows, [](const Error& error) { ADD_FAILURE() << error.what; }));
  EXPECT_EQ(dead(rows), GetParam().dead);
}

TEST_P(LivenessScenario, LiveByAFollower) {
  Node node;
  node.node_id = 5;
  node.clock_offset_ns = measure_utc_offset_ns();
  const Procfs procfs(root_);
  MemorySource rows;
  EventIds ids(5);
  ProcessRegistry processes(rows);
  CallPairing pairing(ids, rows);
  ProfilerFollower follower(node, procfs, {}, processes, pairing, rows,
                            [](const std::string& text) { ADD_FAILURE() << text; });
  add_process(kFirst - 1);
  follower.add_process(kFirst - 1, ::getuid());
  for (size_t i = 0; i < GetParam().processes.size(); ++i) {
    if (GetParam().processes[i].alive) {
      Process process;
      process.pid = pid_of(i);
      processes.add(process);
      follower.add_process(process.pid, ::getuid());
    }
  }
  follower.round(monotonic_now_ns());
  follower.round(monotonic_now_ns());
  EXPECT_EQ(dead(rows), GetParam().dead);
}

INSTANTIATE_TEST_SUITE_P(All, LivenessScenario, testing::ValuesIn(kScenarios), [](const auto& scenario) {
  std::string name;
  for (const char c : std::string(scenario.param.name)) {
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? std::string(1, c) : "";
  }
  return name;
});

}  // namespace
}  // namespace stalltrace::blackbox
