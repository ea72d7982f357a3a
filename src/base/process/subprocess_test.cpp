// SPDX-License-Identifier: Apache-2.0
#include "base/process/subprocess.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/process/command.h"
#include "tests/support/golden_text.h"

namespace stalltrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

SpawnOptions shell(const std::string& script) {
  SpawnOptions options;
  options.argv = {"sh", "-c", script};
  return options;
}

bool exists(pid_t pid) { return ::kill(pid, 0) == 0; }

TEST(Subprocess, CapturesBothOutputsAndTheExitCode) {
  const auto output = run_and_capture(shell("echo to-out; echo to-err >&2; exit 3"), seconds(10));
  ASSERT_TRUE(output) << output.error().what;
  EXPECT_EQ(output->out, "to-out\n");
  EXPECT_EQ(output->err, "to-err\n");
  EXPECT_EQ(output->status.code, 3);
  EXPECT_EQ(output->status.shell_code(), 3);
}

TEST(Subprocess, CapturesMoreThanAPipeHolds) {
  const auto output = run_and_capture(shell("head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2"), seconds(10));
  ASSERT_TRUE(output) << output.error().what;
  EXPECT_EQ(output->out.size(), 300000U);
  EXPECT_EQ(output->err.size(), 300000U);
}

TEST(Subprocess, SignalIsNotAnExitCode) {
  const auto output = run_and_capture(shell("kill -TERM $$"), seconds(10));
  ASSERT_TRUE(output);
  EXPECT_EQ(output->status.signal, SIGTERM);
  EXPECT_FALSE(output->status.code);
  EXPECT_EQ(output->status.shell_code(), 128 + SIGTERM);
  EXPECT_EQ(format_exit(output->status), "signal 15 (Terminated)");
}

TEST(Subprocess, CommandPastItsLimitIsKilled) {
  const auto output = run_and_capture(shell("sleep 60"), milliseconds(50));
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().kind, ErrorKind::kInterrupted);
  golden::expect_text(output.error().what);
}

TEST(Subprocess, MissingProgramIsAnErrorOfSpawn) {
  SpawnOptions options;
  options.argv = {"no-such-program-anywhere"};
  const auto child = Subprocess::spawn(options);
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().kind, ErrorKind::kNotFound);

  options.argv = {"/etc/passwd"};
  const auto not_executable = Subprocess::spawn(options);
  ASSERT_FALSE(not_executable);
  golden::expect_text(not_executable.error().what);
}

TEST(Subprocess, EnvironmentReplacesAndInherits) {
  ::setenv("ST_TEST_KEPT", "kept", 1);
  ::setenv("ST_TEST_REPLACED", "old", 1);
  SpawnOptions options = shell("echo $ST_TEST_KEPT $ST_TEST_REPLACED $ST_TEST_NEW");
  options.environment = {"ST_TEST_REPLACED=new", "ST_TEST_NEW=added"};
  const auto output = run_and_capture(options, seconds(10));
  ASSERT_TRUE(output);
  EXPECT_EQ(output->out, "kept new added\n");
}

TEST(Subprocess, WaitIsBoundedAndDestructionLeavesNothing) {
  pid_t pid = 0;
  {
    auto child = Subprocess::spawn(shell("exec sleep 60"));
    ASSERT_TRUE(child);
    pid = child->pid();
    const auto still = child->wait_for(milliseconds(20));
    ASSERT_TRUE(still);
    EXPECT_FALSE(*still);
    EXPECT_TRUE(exists(pid));
  }
  EXPECT_FALSE(exists(pid));
}

TEST(Subprocess, TerminateKillsOneThatIgnoresThePoliteSignal) {
  SpawnOptions options = shell("trap '' TERM; while :; do sleep 0.05; done");
  auto child = Subprocess::spawn(options);
  ASSERT_TRUE(child);
  ASSERT_TRUE(child->wait_for(milliseconds(200)));
  const auto ended = child->terminate(SIGTERM, milliseconds(100));
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->signal, SIGKILL);
}

TEST(Subprocess, ChildStartsWithAnEmptySignalMask) {
  sigset_t blocked;
  sigset_t before;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGINT);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
  const auto output = run_and_capture(shell("grep SigBlk /proc/self/status"), seconds(10));
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
  ASSERT_TRUE(output);
  EXPECT_NE(output->out.find("0000000000000000"), std::string::npos) << output->out;
}

TEST(Subprocess, AffinityNiceDirectoryAndGroup) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int cpu = 0;
  while (!CPU_ISSET(static_cast<size_t>(cpu), &allowed)) {
    ++cpu;
  }
  SpawnOptions options = shell("grep Cpus_allowed_list /proc/self/status; nice; pwd; ps -o pgid= -p $$; echo $$");
  options.cpus = {cpu};
  options.nice = 7;
  options.working_directory = "/";
  options.own_process_group = true;
  const auto output = run_and_capture(options, seconds(10));
  ASSERT_TRUE(output);
  EXPECT_EQ(output->out.substr(0, output->out.find('\n')), "Cpus_allowed_list:\t" + std::to_string(cpu));
  EXPECT_NE(output->out.find("\n7\n/\n"), std::string::npos) << output->out;
  const size_t last = output->out.rfind('\n', output->out.size() - 2);
  const std::string pid = output->out.substr(last + 1, output->out.size() - last - 2);
  EXPECT_NE(output->out.find(pid + "\n" + pid + "\n"), std::string::npos) << output->out;
}

TEST(Subprocess, BothStreamsIntoOneFile) {
  const std::string path = testing::TempDir() + "subprocess_test.log";
  SpawnOptions options = shell("echo one; echo two >&2; echo three");
  options.stdout_path = path;
  options.stderr_path = path;
  auto child = Subprocess::spawn(options);
  ASSERT_TRUE(child) << child.error().what;
  const auto ended = child->wait_for(seconds(10));
  ASSERT_TRUE(ended && *ended);
  EXPECT_EQ(read_file(path).value_or(""), "one\ntwo\nthree\n");
  std::filesystem::remove(path);
}

TEST(Subprocess, PassesADescriptorAndNoOther) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);  // not close-on-exec, yet it must be closed in the child
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  SpawnOptions options = shell("echo ready >&9; ls /proc/self/fd | wc -l");
  options.inherited_fds = {{write_end.get(), 9}};
  const auto output = run_and_capture(options, seconds(10));
  ASSERT_TRUE(output);
  write_end.reset();
  char buffer[16] = {};
  EXPECT_EQ(::read(read_end.get(), buffer, sizeof buffer), 6);
  EXPECT_STREQ(buffer, "ready\n");
  EXPECT_EQ(output->out, "5\n");  // 0, 1, 2, 9 and the folder that ls reads
}

TEST(Subprocess, AKeptDescriptorHasItsNumberInTheChild) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  SpawnOptions options = shell("echo kept >&" + std::to_string(write_end.get()) + "; ls /proc/self/fd | wc -l");
  options.kept_fds = {write_end.get()};
  const auto output = run_and_capture(options, seconds(10));
  ASSERT_TRUE(output) << output.error().what;
  char buffer[16] = {};
  EXPECT_EQ(::read(read_end.get(), buffer, sizeof buffer), 5);
  EXPECT_STREQ(buffer, "kept\n");
  EXPECT_EQ(output->out, "5\n");  // 0, 1, 2, the kept one and the folder that ls reads
}

TEST(Subprocess, SignalsAreHandedOnWhenAskedTo) {
  const auto signals_of_child = [](std::optional<SignalState> signals) {
    SpawnOptions options = shell("grep -E 'SigBlk|SigIgn' /proc/self/status | cut -f 2");
    options.signals = signals;
    const auto output = run_and_capture(options, seconds(10));
    return output ? output->out : output.error().what;
  };
  sigset_t before;
  sigset_t blocked;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGUSR2);
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &blocked, &before), 0);
  const auto old = ::signal(SIGHUP, SIG_IGN);
  const SignalState state = SignalState::current();
  const std::string handed_on = signals_of_child(state);
  const std::string fresh = signals_of_child(std::nullopt);
  ::signal(SIGHUP, old);
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
  EXPECT_EQ(handed_on, "0000000000000800\n0000000000000001\n");
  EXPECT_EQ(fresh, "0000000000000000\n0000000000000000\n");
}

TEST(Subprocess, AScriptThatNamesNoInterpreterIsTheShells) {
  const std::string path = testing::TempDir() + "subprocess_test.sh";
  ASSERT_TRUE(write_file(path, "echo $0 \"$@\"\n"));
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  SpawnOptions options;
  options.argv = {path, "one", "two words"};
  const auto output = run_and_capture(options, seconds(10));
  ASSERT_TRUE(output) << output.error().what;
  EXPECT_EQ(output->out, path + " one two words\n");
  std::filesystem::remove(path);
}

TEST(Subprocess, FormatsACommandForAShell) {
  EXPECT_EQ(format_command({"nft", "add", "rule", "a;b", "<", "it's", ""}), "nft add rule 'a;b' '<' 'it'\\''s' ''");
}

}  // namespace
}  // namespace stalltrace
