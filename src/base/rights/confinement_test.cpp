// SPDX-License-Identifier: Apache-2.0
#include "base/rights/confinement.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <thread>

#include "base/handle.h"

namespace stalltrace {
namespace {

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

int refused(int result) { return result < 0 && errno == EPERM ? 0 : 1; }

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

}  // namespace
}  // namespace stalltrace
