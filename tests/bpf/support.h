// SPDX-License-Identifier: Apache-2.0
// Shared by the root tests: a traced host, a job controlled by commands, network namespaces that are removed with the
// test.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/handle.h"
#include "base/process/command.h"
#include "base/process/subprocess.h"
#include "base/text.h"
#include "capture/tracer.h"
#include "model/memory_source.h"

namespace stalltrace::capture {

inline std::string standin(const std::string& name) { return std::string(STALLTRACE_STANDINS) + "/" + name; }
inline std::string standin_library() { return standin("libstandin_nccl.so"); }

inline void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

/// Skips without root; fails instead in CI.
#define ST_NEED_ROOT()                                                   \
  do {                                                                   \
    if (::geteuid() != 0) {                                              \
      if (std::getenv("CI") != nullptr) {                                \
        FAIL() << "these tests need root, and CI must run them";         \
      }                                                                  \
      GTEST_SKIP() << "needs root: BPF programs and network namespaces"; \
    }                                                                    \
  } while (false)

/// With STALLTRACE_WITHOUT_STORAGE set: as on a kernel without storage at tasks and sockets.
/// STALLTRACE_WITHOUT_PROGRAMS lists programs that are treated as refused.
inline KernelOptions kernel_options() {
  KernelOptions options{.without_storage = std::getenv("STALLTRACE_WITHOUT_STORAGE") != nullptr};
  const char* programs = std::getenv("STALLTRACE_WITHOUT_PROGRAMS");
  for (const std::string_view program : split(programs ? programs : "", ' ')) {
    options.without_programs.emplace_back(program);
  }
  return options;
}

/// A tracer of this host on its own thread, without the programs that its options leave out. Read its rows after
/// stop().
class Trace {
 public:
  explicit Trace(TracerOptions options = {.libraries = {standin_library()}}) {
    const std::vector<std::string> refused = std::exchange(options.kernel, kernel_options()).without_programs;
    options.kernel.without_programs.insert(options.kernel.without_programs.end(), refused.begin(), refused.end());
    auto created = Tracer::create(options, sink_, [this](const std::string& text) { notes_ += text + "\n"; });
    if (!created) {
      ADD_FAILURE() << created.error().what << "; " << created.error().remedy;
      return;
    }
    tracer_ = std::move(*created);
    stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
    thread_ = std::jthread([this] {
      const Status ended = tracer_->run(
          {stop_.get()}, [] { return Status{}; }, [](const TracerStats&) {});
      EXPECT_TRUE(ended) << ended.error().what;
    });
  }
  ~Trace() { stop(); }
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  void stop() {
    if (thread_.joinable()) {
      ::eventfd_write(stop_.get(), 1);
      thread_.join();
      const auto losses = sink_.losses();
      for (const Loss& loss : *losses) {
        ADD_FAILURE() << "lost " << loss.count << " of " << loss.source;
      }
    }
  }

  std::vector<Collective> calls(int32_t pid) {
    return of_process<Collective>(pid, [this](const auto& visit) { return sink_.collectives({}, visit); });
  }
  std::vector<Collective> calls(int32_t pid, Operation op) {
    std::vector<Collective> result = calls(pid);
    std::erase_if(result, [&](const Collective& row) { return row.op != op; });
    return result;
  }
  /// The call with this count, which the job uses only once.
  Collective call(int32_t pid, int64_t count) {
    std::vector<Collective> result = calls(pid);
    std::erase_if(result, [&](const Collective& row) { return row.count != count; });
    EXPECT_EQ(result.size(), 1U) << "calls with count " << count;
    return result.empty() ? Collective{} : result.front();
  }
  /// The frames of a call's stack, innermost first; empty if it has none.
  std::string frames_of(const Collective& call) {
    const auto stacks = sink_.stacks();
    for (const Stack& stack : *stacks) {
      if (stack.stack_id == call.stack_id) {
        return stack.frames;
      }
    }
    return {};
  }
  std::vector<TcpEvent> tcp_events(int32_t pid) {
    return of_process<TcpEvent>(pid, [this](const auto& visit) { return sink_.tcp_events({}, visit); });
  }
  std::vector<NetSpan> spans(int32_t pid) {
    return of_process<NetSpan>(pid, [this](const auto& visit) { return sink_.net_spans({}, visit); });
  }
  std::vector<WaitSpan> waits(int32_t pid) {
    return of_process<WaitSpan>(pid, [this](const auto& visit) { return sink_.wait_spans({}, visit); });
  }
  std::vector<TcpSample> samples(int32_t pid) {
    return of_process<TcpSample>(pid, [this](const auto& visit) { return sink_.tcp_samples({}, visit); });
  }
  std::vector<Connection> connections(int32_t pid) {
    std::vector<Connection> result = *sink_.connections();
    std::erase_if(result, [&](const Connection& row) { return row.pid != pid; });
    return result;
  }
  std::vector<Communicator> communicators(int32_t pid) {
    std::vector<Communicator> result = *sink_.communicators();
    std::erase_if(result, [&](const Communicator& row) { return row.pid != pid; });
    return result;
  }
  Process process(int32_t pid) {
    const auto processes = sink_.processes();
    for (const Process& row : *processes) {
      if (row.pid == pid) {
        return row;
      }
    }
    ADD_FAILURE() << "process " << pid << " was not found; " << notes_;
    return {};
  }
  MemorySource& sink() { return sink_; }

 private:
  template <typename T, typename Each>
  std::vector<T> of_process(int32_t pid, const Each& each) {
    std::vector<T> result;
    const Status visited = each([&](const T& row) {
      if (row.pid == pid) {
        result.push_back(row);
      }
    });
    EXPECT_TRUE(visited);
    return result;
  }

  MemorySource sink_;
  std::string notes_;
  std::unique_ptr<Tracer> tracer_;
  UniqueFd stop_;
  std::jthread thread_;
};

/// A stand-in job that runs one command at a time. Killed with the object.
class Job {
 public:
  struct Options {
    std::vector<std::string> argv = {standin("standin_job"), standin_library()};
    std::vector<std::string> environment;
    std::string netns;
    std::vector<int> cpus;
  };

  explicit Job(Options options) {
    int in[2];
    int out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) {
      ADD_FAILURE() << "pipe";
      return;
    }
    const UniqueFd child_in(in[0]);
    const UniqueFd child_out(out[1]);
    to_ = UniqueFd(in[1]);
    from_ = UniqueFd(out[0]);
    SpawnOptions spawn{.argv = std::move(options.argv), .environment = std::move(options.environment)};
    spawn.netns_path = options.netns.empty() ? "" : "/run/netns/" + options.netns;
    spawn.cpus = std::move(options.cpus);
    spawn.inherited_fds = {{child_in.get(), 0}, {child_out.get(), 1}};
    auto started = Subprocess::spawn(spawn);
    if (!started) {
      ADD_FAILURE() << started.error().what;
      return;
    }
    process_ = std::move(*started);
    EXPECT_EQ(answer(), "0") << "the job did not start";
  }
  Job() : Job(Options{}) {}

  void send_command(const std::string& command) {
    const std::string line = command + "\n";
    EXPECT_EQ(::write(to_.get(), line.data(), line.size()), static_cast<ssize_t>(line.size()));
  }
  /// The next line, without its newline; empty after ten seconds or at the end of the job.
  std::string answer(int limit_ms = 10'000) {
    std::string line;
    char byte = 0;
    pollfd wait{.fd = from_.get(), .events = POLLIN, .revents = 0};
    while (::poll(&wait, 1, limit_ms) > 0 && ::read(from_.get(), &byte, 1) == 1 && byte != '\n') {
      line += byte;
    }
    return line;
  }
  long ask(const std::string& command, int limit_ms = 10'000) {
    send_command(command);
    const auto number = parse_integer(answer(limit_ms));
    EXPECT_TRUE(number) << "no answer to " << command;
    return static_cast<long>(number.value_or(-1));
  }
  void must(const std::string& command) { EXPECT_EQ(ask(command), 0) << command; }
  [[nodiscard]] pid_t pid() const { return process_.pid(); }
  void signal(int number) { EXPECT_TRUE(process_.send_signal(number)); }
  void wait() {
    const auto ended = process_.wait_for(std::chrono::seconds(10));
    EXPECT_TRUE(ended && *ended);
  }

 private:
  Subprocess process_;
  UniqueFd to_;
  UniqueFd from_;
};

inline std::string run_tool(const std::vector<std::string>& argv) {
  const auto output = run_and_capture({.argv = argv}, std::chrono::seconds(20));
  EXPECT_TRUE(output && output->status.success())
      << format_command(argv) << ": " << (output ? output->err : output.error().what);
  return output ? output->out : "";
}

}  // namespace stalltrace::capture
