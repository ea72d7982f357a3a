// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/agents.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <iterator>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"

namespace stalltrace::lab {
namespace {

constexpr int kReadyFd = 3;
constexpr std::chrono::seconds kStopLimit{30};

std::string last_line(const std::string& path) {
  const std::string text = read_file(path).value_or("");
  std::string_view last;
  for (const std::string_view line : split(text, '\n')) {
    last = trim(line).empty() ? last : trim(line);
  }
  return last.empty() ? "it printed nothing" : "its last words: " + std::string(last);
}

}  // namespace

Status Agents::start(const std::string& program, std::span<const VirtualNode> nodes, const std::string& out_dir,
                     const std::function<std::vector<std::string>(const VirtualNode&)>& more_arguments) {
  for (const VirtualNode& node : nodes) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      return fail_errno("make a pipe", errno);
    }
    Agent agent;
    agent.node = node.name;
    agent.recording = fmt::format("{}/{}.db", out_dir, node.name);
    agent.log = fmt::format("{}/{}.agent.log", out_dir, node.name);
    agent.ready = UniqueFd(ends[0]);
    const UniqueFd write_end(ends[1]);

    SpawnOptions spawn;
    spawn.argv = {program,
                  "trace",
                  "--node",
                  node.name,
                  "--out",
                  agent.recording,
                  "--own-netns",
                  "--sysfs-root",
                  sysfs_of(node),
                  "--ready-fd",
                  std::to_string(kReadyFd),
                  "--library",
                  node.folder + "/lib/libnccl.so.2"};
    std::ranges::move(more_arguments(node), std::back_inserter(spawn.argv));
    spawn.netns_path = node.netns_path;
    spawn.stdin_path = "/dev/null";
    spawn.stdout_path = spawn.stderr_path = agent.log;
    spawn.inherited_fds = {{write_end.get(), kReadyFd}};
    spawn.own_process_group = true;
    spawn.parent_death_signal = SIGINT;  // an agent whose lab was killed still closes its recording
    ST_ASSIGN(agent.process, Subprocess::spawn(spawn));
    agent.pid = agent.process.pid();
    agents_.push_back(std::move(agent));
  }
  return {};
}

Status Agents::wait_ready(int64_t limit_ns, InterruptGuard& interrupt) {
  const int64_t deadline_ns = monotonic_now_ns() + limit_ns;
  for (Agent& agent : agents_) {
    ST_TRY(wait_one(agent, deadline_ns, interrupt));
  }
  return {};
}

Status Agents::wait_one(Agent& agent, int64_t deadline_ns, InterruptGuard& interrupt) {
  for (;;) {
    const int64_t left_ms = (deadline_ns - monotonic_now_ns()) / kNsPerMs;
    if (left_ms <= 0) {
      return fail(fmt::format("the agent of {} is not ready in time; {}", agent.node, last_line(agent.log)),
                  "run `stalltrace check`");
    }
    pollfd fds[] = {{agent.ready.get(), POLLIN, 0}, {interrupt.fd(), POLLIN, 0}};
    ::poll(fds, std::size(fds), static_cast<int>(std::min<int64_t>(left_ms, 1000)));
    ST_TRY(interrupt.check());
    if (fds[0].revents == 0) {
      continue;
    }
    char byte = 0;
    if (::read(agent.ready.get(), &byte, 1) == 1) {
      return {};
    }
    // End of the pipe without a byte: the agent failed, and is about to end.
    (void)agent.process.wait_for(std::chrono::seconds(2));
    return fail(fmt::format("the agent of {} ended before it was ready; {}", agent.node, last_line(agent.log)),
                "run `stalltrace check`");
  }
}

std::vector<std::string> Agents::stop() {
  std::vector<std::string> complaints;
  for (Agent& agent : agents_) {
    if (const auto ended = agent.process.try_wait(); ended && *ended) {
      complaints.push_back(
          fmt::format("the agent of {} ended early ({}); {}", agent.node, format_exit(**ended), last_line(agent.log)));
    }
    (void)agent.process.send_signal(SIGINT);
  }
  for (Agent& agent : agents_) {
    if (!agent.process.running()) {
      continue;
    }
    const auto ended = agent.process.terminate(SIGINT, kStopLimit);
    if (!ended) {
      complaints.push_back(fmt::format("the agent of {}: {}", agent.node, ended.error().what));
    } else if (!ended->success()) {
      complaints.push_back(
          fmt::format("the agent of {} ended with {}; {}", agent.node, format_exit(*ended), last_line(agent.log)));
    }
  }
  return complaints;
}

int Agents::pid_of(int node) const {
  return static_cast<size_t>(node) < agents_.size() ? agents_[static_cast<size_t>(node)].pid : 0;
}

std::vector<std::string> Agents::recordings() const {
  std::vector<std::string> paths;
  for (const Agent& agent : agents_) {
    if (std::error_code ignored; std::filesystem::exists(agent.recording, ignored)) {
      paths.push_back(agent.recording);
    }
  }
  return paths;
}

void Agents::discard_recordings() {
  for (const Agent& agent : agents_) {
    for (const char* suffix : {"", "-wal", "-shm"}) {
      ::unlink((agent.recording + suffix).c_str());
    }
  }
}

}  // namespace stalltrace::lab
