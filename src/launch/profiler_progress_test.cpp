// SPDX-License-Identifier: Apache-2.0
#include "launch/profiler_progress.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "base/clock.h"
#include "blackbox/testing/made_profiler_file.h"

namespace stalltrace::launch {
namespace {

constexpr uint64_t kOpenNs = 2'000'000'000;

class ProfilerFolder : public testing::Test {
 protected:
  ProfilerFolder() {
    char name[] = "/tmp/stalltrace-files-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~ProfilerFolder() override { std::filesystem::remove_all(path_); }

  /// Writes the file of a process with one completed collective and, if `open`, one open collective.
  void put(const std::string& name, bool open) const {
    blackbox::MadeProfilerFile file;
    file.append(blackbox::MadeProfilerFile::collective(0, 1'000'000'200, 1'000'000'900));
    if (open) {
      st_box_event event = blackbox::MadeProfilerFile::collective(1, kOpenNs, 0);
      event.flags = ST_BOX_KERNEL_EXPECTED;
      file.put(2, event, ST_BOX_ENDED);
    }
    file.write(path_ + "/" + name);
  }
  std::string path_;
};

TEST_F(ProfilerFolder, ProgressIsTheSumOfWhatProcessesShow) {
  put("a.profiler", true);
  put("b.profiler", false);
  put("b.other", true);
  ProfilerProgress files(path_);
  const Progress progress = files.read();
  EXPECT_EQ(progress.completed, 2U);
  EXPECT_EQ(progress.open, 1U);
  ASSERT_TRUE(progress.oldest_open_ns);
  EXPECT_NEAR(static_cast<double>(*progress.oldest_open_ns - measure_utc_offset_ns()), static_cast<double>(kOpenNs),
              1e6);
}

/// A writer that is killed between the end of an event and its record leaves the event in its slot permanently.
TEST_F(ProfilerFolder, ACallThatOnlyItsSlotHasDoesNotCompleteAnewAtEveryRead) {
  blackbox::MadeProfilerFile file;
  file.append(blackbox::MadeProfilerFile::collective(0, 1'000'000'200, 1'000'000'900));
  file.put(2, blackbox::MadeProfilerFile::collective(1, kOpenNs, kOpenNs + 500), ST_BOX_QUIET);
  file.write(path_ + "/a.profiler");
  ProfilerProgress files(path_);
  const uint64_t completed = files.read().completed;
  EXPECT_EQ(completed, 1U);
  EXPECT_EQ(files.read().completed, completed);
}

TEST_F(ProfilerFolder, FilesThatAppearLaterCount) {
  ProfilerProgress files(path_);
  EXPECT_EQ(files.read().completed, 0U);
  put("a.profiler", false);
  EXPECT_EQ(files.read().completed, 1U);
}

TEST_F(ProfilerFolder, AFileThatIsCutShortIsLeftOut) {
  put("a.profiler", false);
  put("b.profiler", false);
  ProfilerProgress files(path_);
  ASSERT_EQ(files.read().completed, 2U);
  std::filesystem::resize_file(path_ + "/b.profiler", 100);
  EXPECT_EQ(files.read().completed, 1U);
}

TEST(NoFolder, IsNoProgress) { EXPECT_EQ(ProfilerProgress("/nowhere/at/all").read().open, 0U); }

}  // namespace
}  // namespace stalltrace::launch
