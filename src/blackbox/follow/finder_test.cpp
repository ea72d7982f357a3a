// SPDX-License-Identifier: Apache-2.0
// Files of a simulated host: their owners, when they appear and disappear, and what else a user may put into the
// folder.
#include "blackbox/follow/finder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <optional>
#include <vector>

#include "blackbox/testing/profiler_host.h"

namespace stalltrace::blackbox {
namespace {

namespace fs = std::filesystem;

constexpr pid_t kGone = 6000;

class Finder : public ProfilerHost {
 protected:
  struct Found {
    int32_t pid;
    bool alive;
    auto operator<=>(const Found&) const = default;
  };
  using Files = std::vector<Found>;

  void begin(ProfilerFileFinder::Scope scope = {}) {
    finder_.emplace(procfs_, scope);
    add_process(kPid);
    finder_->add_process(kPid, ::getuid());
  }
  /// The files found for this test's processes.
  Files look() {
    Files found;
    finder_->search(monotonic_now_ns(), [&](FoundFile file) {
      add(file, found);
      return true;
    });
    return found;
  }
  Files end(pid_t pid) {
    Files found;
    finder_->end_process(pid, [&](FoundFile file) {
      add(file, found);
      return true;
    });
    return found;
  }
  static void add(const FoundFile& file, Files& found) {
    const st_box_header& header = file.reader.layout();
    if (header.process_start_ticks == kStart) {
      found.push_back({file.alive ? file.pid : static_cast<int32_t>(header.pid), file.alive});
    }
  }
  /// The file left by a dead process.
  [[nodiscard]] std::string left() const { return folder_of(kPid) + "/" + name_of(kGone); }

  Procfs procfs_{root_};
  std::optional<ProfilerFileFinder> finder_;
};

TEST_F(Finder, AFileThatAppearsIsFoundOnce) {
  begin();
  EXPECT_EQ(look(), Files{});
  file_of(kPid).write(path_of(kPid));
  const ProfilerFileWriter writer(path_of(kPid));
  EXPECT_EQ(look(), (Files{{kPid, true}}));
  EXPECT_EQ(look(), Files{});
}

TEST_F(Finder, AFileThatVanishedIsNotMissed) {
  begin();
  file_of(kPid).write(path_of(kPid));
  fs::remove(path_of(kPid));
  EXPECT_EQ(look(), Files{});
  fs::remove_all(folder_of(kPid));
  EXPECT_EQ(look(), Files{});
}

TEST_F(Finder, ANameThatIsTakenHasANumber) {
  begin();
  file_of(kPid).write(path_of(kPid));  // same pid in another pid namespace, dead
  file_of(kPid).write(path_of(kPid, 0, 1));
  const ProfilerFileWriter writer(path_of(kPid, 0, 1));
  EXPECT_EQ(look(), (Files{{kPid, true}}));
}

TEST_F(Finder, AProcessOfAnotherPidNamespaceIsFoundByItsNumberThere) {
  begin();
  add_process(kPid + 1, 7);
  finder_->add_process(kPid + 1, ::getuid());
  MadeProfilerFile file = file_of(7);
  file.header.pid_namespace = pid_namespace_of(kPid + 1);
  file.write(path_of(kPid + 1, 7));
  std::optional<ProfilerFileWriter> writer(std::in_place, path_of(kPid + 1, 7));
  EXPECT_EQ(look(), (Files{{kPid + 1, true}}));
}

TEST_F(Finder, WhatWasFollowedWhileItLivedIsNotFoundAgain) {
  begin();
  file_of(kPid).write(path_of(kPid));
  std::optional<ProfilerFileWriter> writer(std::in_place, path_of(kPid));
  EXPECT_EQ(look(), (Files{{kPid, true}}));
  add_process(kPid + 1);
  const std::string other = fs::path(folder_of(kPid + 1)).parent_path();
  fs::remove_all(other);
  fs::create_directory_symlink(fs::path(folder_of(kPid)).parent_path(), other);  // has the same folder
  finder_->add_process(kPid + 1, ::getuid());
  writer.reset();
  EXPECT_EQ(end(kPid), Files{});
  EXPECT_EQ(look(), Files{});
  file_of(kGone).write(left());
  EXPECT_EQ(look(), (Files{{kGone, false}})) << "the folder is looked into";
}

TEST_F(Finder, AProcessThatEndsBetweenTwoLooksIsFoundByItsEnd) {
  begin();
  file_of(kPid).write(path_of(kPid));
  EXPECT_EQ(look(), Files{}) << "no process writes it";
  EXPECT_EQ(end(kPid), (Files{{kPid, true}}));
}

TEST_F(Finder, AFolderIsLetGoWithItsLastProcess) {
  begin();
  EXPECT_EQ(end(kPid), Files{});
  file_of(kGone).write(left());
  EXPECT_EQ(look(), Files{});
}

TEST_F(Finder, AFileThatSaysItIsAnotherProcesssIsNot) {
  begin();
  MadeProfilerFile file = file_of(kPid);
  file.header.pid = kPid + 1;
  file.write(path_of(kPid));
  const ProfilerFileWriter writer(path_of(kPid));
  EXPECT_EQ(look(), Files{});
}

TEST_F(Finder, AnotherUsersFileIsNotTheProcesss) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root: a file of another user";
  }
  begin();
  file_of(kPid).write(path_of(kPid));
  ASSERT_EQ(::chown(path_of(kPid).c_str(), 12345, 12345), 0);
  const ProfilerFileWriter planted(path_of(kPid));
  EXPECT_EQ(look(), Files{});
  file_of(kPid).write(path_of(kPid, 0, 1));  // as when the plugin found its name taken
  const ProfilerFileWriter writer(path_of(kPid, 0, 1));
  EXPECT_EQ(look(), (Files{{kPid, true}}));
}

TEST_F(Finder, LinksPipesFoldersAndRubbishAreLeftAlone) {
  begin();
  file_of(kPid).write(folder_of(kPid) + "/elsewhere");
  const ProfilerFileWriter writer(folder_of(kPid) + "/elsewhere");
  const std::vector<std::function<void(const std::string&)>> plants{
      [&](const std::string& path) { fs::create_symlink(folder_of(kPid) + "/elsewhere", path); },
      [](const std::string& path) { ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); },
      [](const std::string& path) { fs::create_directory(path); },
      [](const std::string& path) { const std::ofstream empty(path); },
      [](const std::string& path) { std::ofstream(path) << std::string(9000, 'x'); },
      [](const std::string& path) {
        file_of(kPid).write(path);
        fs::resize_file(path, fs::file_size(path) - 1);
      },
  };
  for (const auto& plant : plants) {
    for (const std::string& path : {path_of(kPid), left()}) {
      plant(path);
      EXPECT_EQ(look(), Files{});
      fs::remove(path);
    }
  }
}

TEST_F(Finder, LinksToAFolderLeadWhereTheyLeadTheProcess) {
  begin();
  add_process(kPid + 1, 0, "/link");
  fs::remove(folder_of(kPid + 1, "/link"));
  fs::create_directory_symlink("/profiler", folder_of(kPid + 1, "/link"));  // relative to its root, not to ours
  fs::create_directory(folder_of(kPid + 1));
  finder_->add_process(kPid + 1, ::getuid());
  file_of(kPid + 1).write(path_of(kPid + 1));
  const ProfilerFileWriter writer(path_of(kPid + 1));
  EXPECT_EQ(look(), (Files{{kPid + 1, true}}));
}

TEST_F(Finder, AFolderThatIsNoneOrRelativeIsNoFolder) {
  begin();
  add_process(kPid + 1, 0, "/none");
  fs::remove(folder_of(kPid + 1, "/none"));
  finder_->add_process(kPid + 1, ::getuid());
  add_process(kPid + 2, 0, "relative");
  finder_->add_process(kPid + 2, ::getuid());
  finder_->add_process(kPid + 3, ::getuid());  // ended before it was looked at
  EXPECT_EQ(look(), Files{});
}

TEST_F(Finder, WhatIsLeftOfAProcessThatIsGone) {
  begin();
  file_of(kGone).write(left());
  EXPECT_EQ(look(), (Files{{kGone, false}}));
  EXPECT_EQ(look(), Files{});
}

TEST_F(Finder, AProcessThatIsNotTracedIsLeftAloneUntilItIsGone) {
  begin();
  file_of(kGone).write(left());
  {
    const ProfilerFileWriter writer(left());
    EXPECT_EQ(look(), Files{});
  }
  EXPECT_EQ(look(), (Files{{kGone, false}}));
}

TEST_F(Finder, OldOnesAndThoseOfAnotherBootAreHistory) {
  begin();
  MadeProfilerFile old = file_of(kGone);
  old.header.anchored_ns = static_cast<uint64_t>(std::max<int64_t>(monotonic_now_ns() - 601 * kNsPerSecond, 0));
  old.write(left());
  if (monotonic_now_ns() > 602 * kNsPerSecond) {
    EXPECT_EQ(look(), Files{});
  }
  MadeProfilerFile other = file_of(kGone + 1);
  std::strcpy(other.header.boot_id, "another boot");
  other.write(folder_of(kPid) + "/" + name_of(kGone + 1));
  MadeProfilerFile future = file_of(kGone + 2);
  future.header.anchored_ns = ~uint64_t{0};
  future.write(folder_of(kPid) + "/" + name_of(kGone + 2));
  const Files found = look();
  EXPECT_TRUE(std::ranges::none_of(found, [](const Found& file) { return file.pid > kGone; }));
}

TEST_F(Finder, OneThatIsBeingMadeIsLookedAtAgain) {
  begin();
  const std::string bytes = file_of(kGone).bytes();
  std::ofstream(left(), std::ios::binary) << bytes.substr(0, 100);
  EXPECT_EQ(look(), Files{});
  std::ofstream(left(), std::ios::binary) << bytes;
  EXPECT_EQ(look(), (Files{{kGone, false}}));
}

TEST_F(Finder, TheScopeBoundsWhatIsGone) {
  begin({.only_netns = 78});
  file_of(kGone).write(left());
  EXPECT_EQ(look(), Files{}) << "of another network namespace";
  begin({.only_living = true});
  EXPECT_EQ(look(), Files{});
  begin({.only_netns = 77});
  EXPECT_EQ(look(), (Files{{kGone, false}}));
}

TEST_F(Finder, RubbishDatedInTheFutureHidesNoFile) {
  begin();
  constexpr int kRubbish = 300;  // more than one search opens
  for (int n = 0; n < kRubbish; ++n) {
    const std::string path = folder_of(kPid) + "/stalltrace-x" + std::to_string(n) + ".profiler";
    { const std::ofstream empty(path); }
    fs::last_write_time(path, fs::file_time_type::clock::now() + std::chrono::years(10));
  }
  file_of(kGone).write(left());
  Files found;
  for (int n = 0; n < 10; ++n) {
    std::ranges::copy(look(), std::back_inserter(found));
  }
  EXPECT_EQ(found, (Files{{kGone, false}})) << "once, and in good time";
}

TEST_F(Finder, EveryNameHasItsTurn) {
  begin();
  constexpr int kNames = 9000;  // more than two searches list
  for (int n = 0; n < kNames; ++n) {
    const std::ofstream file(folder_of(kPid) + "/other-" + std::to_string(n));
  }
  for (int n = 0; n < 5; ++n) {
    file_of(kGone + n).write(folder_of(kPid) + "/" + name_of(kGone + n));
  }
  Files found;
  for (int n = 0; n < 9; ++n) {
    std::ranges::copy(look(), std::back_inserter(found));
  }
  EXPECT_EQ(found.size(), 5) << "each once";
}

TEST_F(Finder, AFileThatReplacesAnotherIsRead) {
  begin();
  file_of(kGone).write(left());
  EXPECT_EQ(look().size(), 1);
  fs::remove(left());
  EXPECT_EQ(look(), Files{});
  file_of(kGone).write(left());  // may be reused where the file system reuses inode numbers
  EXPECT_EQ(look(), (Files{{kGone, false}}));
}

TEST_F(Finder, ManyNamesHideNoTarget) {
  begin();
  for (int n = 0; n < 5000; ++n) {
    const std::ofstream empty(folder_of(kPid) + "/stalltrace-1-" + std::to_string(n) + ".profiler");
  }
  file_of(kPid).write(path_of(kPid));
  const ProfilerFileWriter writer(path_of(kPid));
  EXPECT_EQ(look(), (Files{{kPid, true}}));
}

TEST_F(Finder, EveryNumberThatThePluginTriesIsTried) {
  begin();
  for (int number = 0; number < 63; ++number) {
    { const std::ofstream taken(path_of(kPid, 0, number)); }
  }
  file_of(kPid).write(path_of(kPid, 0, 63));
  const ProfilerFileWriter writer(path_of(kPid, 0, 63));
  EXPECT_EQ(look(), (Files{{kPid, true}}));
}

TEST_F(Finder, ANumberedFileIsFoundWhereThoseBeforeItWereRemoved) {
  begin();
  file_of(kPid).write(path_of(kPid, 0, 2));
  const ProfilerFileWriter writer(path_of(kPid, 0, 2));
  EXPECT_EQ(look(), (Files{{kPid, true}}));
}

TEST_F(Finder, ANumberedFileThatAppearsLaterIsFoundInTime) {
  begin();
  EXPECT_EQ(look(), Files{});
  file_of(kPid).write(path_of(kPid, 0, 2));
  const ProfilerFileWriter writer(path_of(kPid, 0, 2));
  Files found;
  finder_->search(monotonic_now_ns() + 16 * kNsPerSecond, [&](FoundFile file) {
    add(file, found);
    return true;
  });
  EXPECT_EQ(found, (Files{{kPid, true}}));
}

TEST_F(Finder, AFileIsOfTheProcessInItsPidNamespace) {
  begin();
  add_process(kPid + 1, kPid);  // a container whose process has that number too, in the same folder
  const std::string other = fs::path(folder_of(kPid + 1)).parent_path();
  fs::remove_all(other);
  fs::create_directory_symlink(fs::path(folder_of(kPid)).parent_path(), other);
  finder_->add_process(kPid + 1, ::getuid());
  MadeProfilerFile file = file_of(kPid);
  file.header.pid_namespace = pid_namespace_of(kPid + 1);
  file.write(path_of(kPid));
  const ProfilerFileWriter writer(path_of(kPid));
  EXPECT_EQ(look(), (Files{{kPid + 1, true}}));
  file_of(kPid).write(path_of(kPid, 0, 1));
  const ProfilerFileWriter second(path_of(kPid, 0, 1));
  EXPECT_EQ(look(), (Files{{kPid, true}}));
}

TEST_F(Finder, AFileIsOfOneProcessOnly) {
  begin();
  finder_->add_process(kPid, ::getuid());
  file_of(kPid).write(path_of(kPid));
  const ProfilerFileWriter writer(path_of(kPid));
  EXPECT_EQ(look(), (Files{{kPid, true}}));
}

}  // namespace
}  // namespace stalltrace::blackbox
