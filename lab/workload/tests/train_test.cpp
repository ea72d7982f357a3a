// SPDX-License-Identifier: Apache-2.0
// The workload as a user runs it: one process for each rank, over loopback.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kLimit{60};

/// A port that was free a moment ago.
int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  ::close(fd);
  return ntohs(address.sin_port);
}

std::string temporary(const std::string& name) {
  return testing::TempDir() + "lab_workload." + std::to_string(getpid()) + "." + name;
}

/// The ranks of one job. Whatever still runs at the end is killed.
class TrainJob {
 public:
  explicit TrainJob(int nranks) : nranks_(nranks), port_(free_port()) {}
  ~TrainJob() {
    for (const pid_t pid : pids_) {
      if (pid > 0) {
        ::kill(pid, SIGKILL);
        ::waitpid(pid, nullptr, 0);
      }
    }
    for (int rank = 0; rank < nranks_; ++rank) {
      std::remove(output_path(rank).c_str());
    }
  }
  TrainJob(const TrainJob&) = delete;
  TrainJob& operator=(const TrainJob&) = delete;

  void start(int rank, std::vector<std::string> arguments, const std::string& slow_file = "",
             const std::string& bugs = "") {
    const std::string path = output_path(rank);
    const pid_t pid = fork();
    if (pid == 0) {
      setenv("RANK", std::to_string(rank).c_str(), 1);
      setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
      setenv("WORLD_SIZE", std::to_string(nranks_).c_str(), 1);
      setenv("MASTER_ADDR", "127.0.0.1", 1);
      setenv("MASTER_PORT", std::to_string(port_).c_str(), 1);
      setenv("NCCL_SOCKET_IFNAME", "lo", 1);
      setenv("LAB_SLOW_FILE", slow_file.c_str(), 1);
      if (!bugs.empty()) {
        setenv("LAB_BUGS", bugs.c_str(), 1);
      }
      const int output = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
      dup2(output, STDOUT_FILENO);
      dup2(output, STDERR_FILENO);
      arguments.insert(arguments.begin(), NCCL_TRAIN);
      std::vector<char*> argv;
      for (std::string& argument : arguments) {
        argv.push_back(argument.data());
      }
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
    pids_.push_back(pid);
  }

  void start_all(const std::vector<std::string>& arguments) {
    for (int rank = 0; rank < nranks_; ++rank) {
      start(rank, arguments);
    }
  }

  [[nodiscard]] pid_t pid(int index) const { return pids_[static_cast<size_t>(index)]; }

  /// The exit code; minus the signal; -1000 when it did not end in time.
  int wait(int index) {
    pid_t& pid = pids_[static_cast<size_t>(index)];
    const auto deadline = Clock::now() + kLimit;
    while (Clock::now() < deadline) {
      int status = 0;
      if (::waitpid(pid, &status, WNOHANG) == pid) {
        pid = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return -1000;
  }

  void expect_success() {
    for (int rank = 0; rank < nranks_; ++rank) {
      EXPECT_EQ(wait(rank), 0) << output(rank);
    }
  }

  [[nodiscard]] std::string output(int rank) const {
    std::ifstream file(output_path(rank));
    std::string text(std::istreambuf_iterator<char>(file), {});
    return text;
  }

 private:
  [[nodiscard]] std::string output_path(int rank) const {
    return temporary("output." + std::to_string(port_) + "." + std::to_string(rank));
  }

  int nranks_;
  int port_;
  std::vector<pid_t> pids_;
};

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
  }
  return lines;
}

double field(const std::string& line, const std::string& name) {
  const size_t at = line.find("\"" + name + "\":");
  return at == std::string::npos ? -1 : std::strtod(line.c_str() + at + name.size() + 3, nullptr);
}

TEST(Train, EveryResultIsRightForAnyNumberOfRanks) {
  for (int nranks = 1; nranks <= 5; ++nranks) {
    TrainJob job(nranks);
    job.start_all({"--steps", "4", "--elements", "20011", "--buckets", "3", "--mix", "2", "--verify"});
    job.expect_success();
    EXPECT_NE(job.output(0).find("rank 0: 4 steps "), std::string::npos) << job.output(0);
  }
}

TEST(Train, MessagesOfManySizes) {
  TrainJob job(2);
  job.start_all({"--steps", "9", "--elements", "3001", "--verify", "--uneven"});
  job.expect_success();
}

TEST(Train, PhasesTakeTheirTime) {
  const std::string log = temporary("phases");
  TrainJob job(1);
  job.start(0, {"--steps", "6", "--elements", "1000", "--log", log, "--warm-up-steps", "1", "--warm-up-ms", "400",
                "--device-ms", "10", "--evaluate-every", "4", "--evaluate-ms", "60", "--save-ms", "5"});
  ASSERT_EQ(job.wait(0), 0) << job.output(0);
  const auto lines = lines_of(log);
  std::remove(log.c_str());
  ASSERT_EQ(lines.size(), 6U);
  const auto step_ns = [&](size_t i) { return field(lines[i], "end_ns") - field(lines[i], "start_ns"); };
  EXPECT_GE(step_ns(0), 60e6) << "an eighth of the warm-up at least, and the device";
  EXPECT_GE(step_ns(1), 10e6) << "the device";
  EXPECT_GE(step_ns(3), 70e6) << "the evaluation and the device";
}

TEST(Train, EveryDatatype) {
  for (const char* dtype : {"float16", "bfloat16", "float64"}) {
    TrainJob job(2);
    job.start_all({"--steps", "2", "--elements", "3001", "--mix", "1", "--verify", "--dtype", dtype});
    job.expect_success();
  }
}

TEST(Train, LogsEachStepAndPacesThem) {
  const std::string log = temporary("steps");
  TrainJob job(1);
  job.start(0, {"--steps", "5", "--step-ms", "20", "--elements", "1000", "--log", log});
  ASSERT_EQ(job.wait(0), 0) << job.output(0);
  const auto lines = lines_of(log);
  std::remove(log.c_str());
  ASSERT_EQ(lines.size(), 5U);
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(field(lines[i], "step"), static_cast<double>(i));
    EXPECT_GE(field(lines[i], "end_ns"), field(lines[i], "start_ns"));
    EXPECT_GE(field(lines[i], "wait_ms"), 0);
  }
  EXPECT_GE(field(lines[4], "start_ns") - field(lines[0], "start_ns"), 79e6) << "four periods of 20 ms";
}

TEST(Train, ASlowRankMakesTheOthersWait) {
  const std::string slow = temporary("slow");
  const std::string log = temporary("waits");
  std::ofstream(slow) << 80;
  TrainJob job(2);
  job.start(0, {"--steps", "4", "--elements", "1000", "--log", log});
  job.start(1, {"--steps", "4", "--elements", "1000"}, slow);
  job.expect_success();
  const auto lines = lines_of(log);
  std::remove(log.c_str());
  std::remove(slow.c_str());
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_GT(field(lines[2], "wait_ms"), 40) << lines[2];
}

/// The CPU of a late rank would come last, and hardly wait.
TEST(Train, ASlowDeviceMakesItsOwnCpuWaitAsWell) {
  const std::string bugs = temporary("bugs.");
  const std::vector<std::string> logs = {temporary("fast.waits"), temporary("slow.waits")};
  std::ofstream(bugs + "device") << 80;
  TrainJob job(2);
  job.start(0, {"--steps", "4", "--elements", "1000", "--log", logs[0]});
  job.start(1, {"--steps", "4", "--elements", "1000", "--log", logs[1]}, "", bugs);
  job.expect_success();
  std::remove((bugs + "device").c_str());
  for (const std::string& log : logs) {
    const auto lines = lines_of(log);
    std::remove(log.c_str());
    ASSERT_EQ(lines.size(), 4U);
    EXPECT_GT(field(lines[2], "wait_ms"), 40) << lines[2];
  }
}

TEST(Train, SigtermEndsItAfterTheStep) {
  const std::string log = temporary("terminated");
  TrainJob job(1);
  job.start(0, {"--steps", "1000000", "--elements", "1000", "--log", log});
  const auto deadline = Clock::now() + kLimit;
  while (lines_of(log).size() < 2 && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ::kill(job.pid(0), SIGTERM);
  EXPECT_EQ(job.wait(0), 0) << job.output(0);
  EXPECT_NE(job.output(0).find("steps/s"), std::string::npos);
  std::remove(log.c_str());
}

TEST(Train, ARankWhosePeerDiesEndsWithTheReason) {
  TrainJob job(2);
  job.start_all({"--steps", "1000000", "--elements", "1000", "--watchdog-seconds", "0.2"});
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  ::kill(job.pid(1), SIGKILL);
  EXPECT_EQ(job.wait(1), -SIGKILL);
  EXPECT_EQ(job.wait(0), 1);
  EXPECT_NE(job.output(0).find("remote process exited or there was a network error"), std::string::npos)
      << job.output(0);
}

TEST(Calls, ReportsRateAndCostAsJson) {
  TrainJob paced(2);
  paced.start_all({"--calls", "50", "--calls-per-second", "200"});
  paced.expect_success();
  const std::string line = paced.output(0);
  EXPECT_EQ(field(line, "calls"), 50);
  EXPECT_GE(field(line, "wall_s"), 0.249);
  EXPECT_GT(field(line, "median"), 0);

  const std::string log = temporary("calls");
  TrainJob logged(1);
  logged.start(0, {"--calls", "5", "--log", log});
  EXPECT_EQ(logged.wait(0), 0) << logged.output(0);
  const auto lines = lines_of(log);
  std::remove(log.c_str());
  ASSERT_EQ(lines.size(), 5U);
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(field(lines[i], "call"), static_cast<double>(i));
    EXPECT_GE(field(lines[i], "end_ns"), field(lines[i], "start_ns"));
  }

  TrainJob flat(1);
  flat.start_all({"--calls", "500", "--flat-out", "--sync-every", "10"});
  flat.expect_success();
  EXPECT_EQ(field(flat.output(0), "calls"), 500);
}

TEST(Usage, WrongUseIsExitCode2) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--bogus"},
                                                    {"--steps"},
                                                    {"--steps", "many"},
                                                    {"--steps", "-1"},
                                                    {"--dtype", "int3"},
                                                    {"--flat-out", "--calls-per-second", "5"}}) {
    TrainJob job(1);
    job.start(0, arguments);
    EXPECT_EQ(job.wait(0), 2) << job.output(0);
  }
  TrainJob job(1);
  job.start(1, {});  // RANK 1 of WORLD_SIZE 1
  EXPECT_EQ(job.wait(0), 2) << job.output(1);
}

}  // namespace
