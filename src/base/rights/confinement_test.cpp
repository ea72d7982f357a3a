// SPDX-License-Identifier: Apache-2.0
#include "base/rights/confinement.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "base/handle.h"

namespace stalltrace {
namespace {

constexpr long kPidfdSendSignal = 424;

/// Runs `body` in a child that has confined itself; its exit code.
int in_confined_child(const Confinement& allowed, const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    const Confined confined = confine(allowed);
    ::_exit(confined.system_calls == possible_confinement().system_calls &&
                    confined.files == possible_confinement().files
                ? body()
                : 99);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int refused(long result) { return result < 0 && errno == EPERM ? 0 : 1; }

TEST(Confinement, NoProgramsProcessesAndSockets) {
  ASSERT_TRUE(possible_confinement().system_calls);
  EXPECT_EQ(in_confined_child({}, [] { return refused(::execl("/bin/true", "true", nullptr)); }), 0);
  EXPECT_EQ(in_confined_child({},
                              [] {
                                const pid_t child = ::fork();
                                if (child == 0) {
                                  ::_exit(0);
                                }
                                return refused(child);
                              }),
            0);
  EXPECT_EQ(in_confined_child({}, [] { return refused(::socket(AF_UNIX, SOCK_STREAM, 0)); }), 0);
}

TEST(Confinement, AClientHasSocketsOfTheNetworkAlone) {
  const auto makes = [](int family) { return ::socket(family, SOCK_STREAM, 0); };
  EXPECT_EQ(in_confined_child({.connects = true}, [&] { return makes(AF_INET) >= 0 && makes(AF_INET6) >= 0 ? 0 : 1; }),
            0);
  for (const int family : {AF_UNIX, AF_NETLINK, AF_PACKET}) {
    EXPECT_EQ(in_confined_child({.connects = true}, [&] { return refused(makes(family)); }), 0) << family;
  }
  EXPECT_EQ(in_confined_child({.connects = true}, [] { return refused(::syscall(SYS_bind, 0, nullptr, 0)); }), 0);
  EXPECT_EQ(in_confined_child({}, [&] { return refused(makes(AF_INET)); }), 0);
}

TEST(Confinement, NoSignalsToOthers) {
  const pid_t other = ::getpid();  // the parent, which signal 0 would only ask whether it is there
  const auto calls = std::to_array<std::function<long()>>({
      [=] { return ::kill(other, 0); },
      [=] { return ::kill(0, 0); },
      [=] { return ::syscall(SYS_tkill, other, 0); },
      [=] { return ::syscall(SYS_tgkill, other, other, 0); },
      [=] {
        siginfo_t info{};
        return ::syscall(SYS_rt_sigqueueinfo, other, 0, &info);
      },
      [=] { return ::syscall(kPidfdSendSignal, 0, 0, nullptr, 0); },
      [=] { return ::fcntl(STDIN_FILENO, F_SETOWN, other); },
      [=] { return ::setpriority(PRIO_PROCESS, static_cast<id_t>(other), 1); },
      [=] {
        const rlimit limit{.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
        return ::prlimit(other, RLIMIT_CPU, &limit, nullptr);
      },
  });
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(in_confined_child({}, [&] { return refused(calls[i]()); }), 0) << i;
  }
  EXPECT_EQ(in_confined_child({}, []() -> int { std::abort(); }), -SIGABRT);
}

TEST(Confinement, NoKeysForTheTerminal) {
  char key = 'x';
  EXPECT_EQ(in_confined_child({}, [&] { return refused(::ioctl(STDIN_FILENO, TIOCSTI, &key)); }), 0);
  EXPECT_EQ(in_confined_child({}, [&] { return refused(::ioctl(STDIN_FILENO, 0x541c, &key)); }), 0) << "TIOCLINUX";
  winsize size{};
  EXPECT_EQ(
      in_confined_child({}, [&] { return ::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 || errno != EPERM ? 0 : 1; }),
      0);
}

TEST(Confinement, NoChangesOfFilesByTheirPaths) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("confinement-" + std::to_string(::getpid()));
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::write(file.get(), "kept", 4), 4);
  const char* name = path.c_str();
  const auto calls = std::to_array<std::function<long()>>({
      [=] { return ::truncate(name, 0); },
      [=] { return ::open(name, O_RDONLY | O_TRUNC | O_CLOEXEC); },
      [=] { return ::creat(name, 0644); },
      [=] { return ::chmod(name, 0644); },
      [=] { return ::fchmodat(AT_FDCWD, name, 0644, 0); },
      [=] { return ::chown(name, ::getuid(), ::getgid()); },
      [=] { return ::lchown(name, ::getuid(), ::getgid()); },
      [=] { return ::fchownat(AT_FDCWD, name, ::getuid(), ::getgid(), 0); },
      [=] { return ::setxattr(name, "user.a", "b", 1, 0); },
      [=] { return ::removexattr(name, "user.a"); },
      [=] { return ::utimensat(AT_FDCWD, name, nullptr, 0); },
      [=] { return ::mknod((path.string() + "-fifo").c_str(), S_IFIFO | 0600, 0); },
#ifdef SYS_mknod
      [=] { return ::syscall(SYS_mknod, (path.string() + "-fifo").c_str(), S_IFIFO | 0600, 0); },
      [=] { return ::syscall(SYS_chmod, name, 0644); },
      [=] { return ::syscall(SYS_open, name, O_RDONLY | O_TRUNC); },
#endif
  });
  const Confinement allowed{.files = {}, .folders = {path.parent_path()}};  // Landlock refuses none of these
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(in_confined_child(allowed, [&] { return refused(calls[i]()); }), 0) << i;
  }
  struct stat info {};
  EXPECT_EQ(::fstat(file.get(), &info), 0);
  EXPECT_EQ(info.st_size, 4);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  // By their descriptors: what SQLite and merge do with new files.
  EXPECT_EQ(in_confined_child(allowed,
                              [&] {
                                return ::fchmod(file.get(), 0640) == 0 && ::ftruncate(file.get(), 1) == 0 &&
                                               ::fchown(file.get(), ::getuid(), ::getgid()) == 0
                                           ? 0
                                           : 1;
                              }),
            0);
  ::unlink(name);
}

TEST(Confinement, ThreadsAndReadingGoOn) {
  EXPECT_EQ(in_confined_child({},
                              [] {
                                char first = 0;
                                std::thread reader([&] {
                                  const UniqueFd file(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
                                  first = ::read(file.get(), &first, 1) == 1 ? first : '\0';
                                });
                                reader.join();
                                return first == '\0' ? 1 : 0;
                              }),
            0);
}

TEST(Confinement, FilesChangeOnlyWhereItIsAllowed) {
  if (!possible_confinement().files) {
    GTEST_SKIP() << "this kernel has no Landlock";
  }
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("confinement-" + std::to_string(::getpid()));
  for (const char* name : {"in", "out"}) {
    std::filesystem::create_directories(folder / name);
  }
  const auto make = [](const std::filesystem::path& path) {
    return UniqueFd(::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  };
  ASSERT_TRUE(make(folder / "in/kept"));
  ASSERT_TRUE(make(folder / "in/shared"));
  const Confinement allowed{.files = {folder / "in/shared", folder / "in/absent"}, .folders = {folder / "out"}};
  EXPECT_EQ(
      in_confined_child(allowed,
                        [&] {
                          const auto writable = [&](const char* name) {
                            return static_cast<bool>(UniqueFd(::open((folder / name).c_str(), O_RDWR | O_CLOEXEC)));
                          };
                          return !writable("in/kept") && writable("in/shared") && !make(folder / "in/new") &&
                                         make(folder / "out/new") &&
                                         ::rename((folder / "out/new").c_str(), (folder / "out/named").c_str()) == 0 &&
                                         ::unlink((folder / "in/kept").c_str()) != 0
                                     ? 0
                                     : 1;
                        }),
      0);
  EXPECT_TRUE(std::filesystem::exists(folder / "out/named"));
  std::filesystem::remove_all(folder);
}

/// The subcommand reports what is wrong with its path; nothing is wrong with the kernel.
TEST(Confinement, AFolderThatIsNoneIsNotTheKernelsRefusal) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("confinement-file-" + std::to_string(::getpid()));
  ASSERT_TRUE(UniqueFd(::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)));
  for (const std::filesystem::path& folder : {path, path / "below", std::filesystem::path("/nowhere/at/all")}) {
    const pid_t child = ::fork();
    if (child == 0) {
      const Confined confined = confine({.files = {}, .folders = {folder}});
      ::_exit(confined.refused.empty() && !confined.files ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << folder;
  }
  ::unlink(path.c_str());
}

/// A folder for --out is made below its parent: `subfolders` is for those subcommands alone.
TEST(Confinement, FoldersAreMadeAndRemovedOnlyWhereItIsAllowed) {
  if (!possible_confinement().files) {
    GTEST_SKIP() << "this kernel has no Landlock";
  }
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("confinement-folders-" + std::to_string(::getpid()));
  for (const char* name : {"parent/there", "beside/there"}) {
    std::filesystem::create_directories(folder / name);
  }
  const auto refused_below = [&](const char* name) {
    const std::filesystem::path parent = folder / name;
    const bool made = ::mkdir((parent / "new").c_str(), 0700) == 0 || errno != EACCES;
    const bool removed = ::rmdir((parent / "there").c_str()) == 0 || errno != EACCES;
    return !made && !removed;
  };
  EXPECT_EQ(in_confined_child({.files = {}, .folders = {folder / "parent"}},
                              [&] { return refused_below("parent") && refused_below("beside") ? 0 : 1; }),
            0);
  EXPECT_EQ(
      in_confined_child({.files = {}, .folders = {folder / "parent"}, .subfolders = true},
                        [&] {
                          const std::filesystem::path made = folder / "parent/new";
                          const bool makes = ::mkdir(made.c_str(), 0700) == 0;
                          const UniqueFd file(::open((made / "file").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
                          const bool removes = ::unlink((made / "file").c_str()) == 0 && ::rmdir(made.c_str()) == 0 &&
                                               ::rmdir((folder / "parent/there").c_str()) == 0;
                          return makes && file && removes && refused_below("beside") ? 0 : 1;
                        }),
      0);
  EXPECT_TRUE(std::filesystem::exists(folder / "beside/there"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace stalltrace
