// SPDX-License-Identifier: Apache-2.0
#include "base/python_frames.h"

#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <vector>

namespace stalltrace {
namespace {

const PythonFrame kReduce{"all_reduce", "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", 1320};
const PythonFrame kWrapper{"_exception_logger.<locals>.wrapper",
                           "/usr/lib/python3/dist-packages/torch/distributed/c10d_logger.py", 50};
const PythonFrame kStep{"train.<locals>.step", "/home/u/train.py", 88};
const PythonFrame kModule{"<module>", "/home/u/train.py", 120};
const PythonFrame kFrozen{"_call_with_frames_removed", "<frozen importlib._bootstrap>", 241};

TEST(PythonFrames, TheLocationIsTheInnermostOfTheProgramItself) {
  const std::vector<PythonFrame> inside{kReduce, kStep, kModule};
  PythonLocation location = location_in(inside);
  EXPECT_EQ(*location.own, kStep);
  EXPECT_EQ(*location.called, kReduce);
  EXPECT_EQ(*location.innermost, kReduce);
  const std::vector<PythonFrame> logged{kReduce, kWrapper, kStep, kModule};
  EXPECT_EQ(*location_in(logged).called, kReduce);
  const std::vector<PythonFrame> own{kStep, kModule};
  location = location_in(own);
  EXPECT_EQ(*location.own, kStep);
  EXPECT_EQ(*location.called, kStep);
  const std::vector<PythonFrame> none_own{kFrozen, kReduce};
  EXPECT_EQ(*location_in(none_own).own, kFrozen);
  EXPECT_EQ(location_in({}).own, nullptr);
  const PythonFrame generated{"Config.__init__", "<string>", 7};  // of a dataclass
  const std::vector<PythonFrame> made{kReduce, generated, kStep};
  EXPECT_EQ(*location_in(made).own, kStep);
  const PythonFrame given{"step", "<string>", 2};  // python -c
  const std::vector<PythonFrame> command{kReduce, given};
  EXPECT_EQ(*location_in(command).own, given);
}

TEST(PythonFrames, WhoWaitsForWorkers) {
  const PythonFrame select{"select", "/usr/lib/python3.11/selectors.py", 415};
  const PythonFrame poll{"wait", "/usr/lib/python3.11/multiprocessing/connection.py", 930};
  const PythonFrame loader{"_try_get_data", "/usr/lib/python3/dist-packages/torch/utils/data/dataloader.py", 1120};
  EXPECT_TRUE(waits_for_workers(std::vector{select, poll, kStep}));
  EXPECT_TRUE(waits_for_workers(std::vector{loader, kStep}));
  EXPECT_FALSE(waits_for_workers(std::vector{select, kStep, loader})) << "its own code inside of it is what runs";
  EXPECT_FALSE(waits_for_workers(std::vector{kReduce, kStep}));
  EXPECT_FALSE(waits_for_workers({}));
}

TEST(PythonFrames, TextForPeople) {
  EXPECT_EQ(brief_text(kStep), "step (train.py:88)");
  EXPECT_EQ(brief_text({"f", "a/b.py", std::nullopt}), "f (b.py)");
  EXPECT_EQ(brief_text({"f\x1b[31m", "b\n.py", 1}), "f?[31m (b?.py:1)");
}

TEST(PythonFrames, ThereAndBack) {
  const std::vector<PythonFrame> frames{
      kReduce, kFrozen, {"f", "/a (b):c/d.py", 7}, {"g", "/x:y.py", std::nullopt}, {"<listcomp>", "<stdin>", 1}};
  EXPECT_EQ(frames_from_text(frames_to_text(frames)), frames);
  EXPECT_TRUE(frames_from_text("").empty());
  EXPECT_TRUE(frames_from_text("(12 more)\nwithout a location\n").empty());
}

TEST(NativeFrames, TheirTextAndBack) {
  const std::vector<PythonFrame> frames{{"clock_nanosleep", "/usr/lib/x86_64-linux-gnu/libc.so.6", std::nullopt, true},
                                        {"step(int) [clone .part.0]", "/home/u/train", std::nullopt, true},
                                        {"+0x1f40", "/home/u/a (1)/train.so", std::nullopt, true},
                                        {"load_batch", "/home/u/data.py", 212}};
  const std::string text = frames_to_text(frames);
  EXPECT_EQ(frames_from_text(text), frames) << text;
  EXPECT_EQ(brief_text(frames[1]), "step(int) [clone .part.0] (train)");
  const PythonLocation location = location_in(frames);
  EXPECT_EQ(location.own->file, "/home/u/train");
  EXPECT_EQ(location.called->function, "clock_nanosleep");
}

TEST(NativeFrames, TheCallerAndWhatItCalled) {
  const PythonFrame sleep{"usleep", "/usr/lib/x86_64-linux-gnu/libc.so.6", std::nullopt, true};
  const PythonFrame loop{"c10d::runLoop()", "/usr/lib/libtorch_cpu.so", std::nullopt, true};
  const PythonFrame step{"step(int)", "/home/u/train", std::nullopt, true};
  const std::vector<PythonFrame> called{sleep, step};
  auto location = native_location_in(called);
  ASSERT_TRUE(location);
  EXPECT_EQ(*location->caller, step);
  ASSERT_NE(location->called, nullptr);
  EXPECT_EQ(*location->called, sleep);
  const std::vector<PythonFrame> in_libraries{sleep, loop};
  location = native_location_in(in_libraries);
  ASSERT_TRUE(location);
  EXPECT_EQ(*location->caller, loop);
  EXPECT_EQ(*location->called, sleep);
  const std::vector<PythonFrame> own{step};
  location = native_location_in(own);
  ASSERT_TRUE(location);
  EXPECT_EQ(location->called, nullptr) << "it is in its own code";
  EXPECT_FALSE(native_location_in(std::vector{sleep})) << "the system's code alone";
  EXPECT_FALSE(native_location_in({}));
  EXPECT_EQ(native_location_text({}), "");
}

TEST(NativeFrames, AFileCannotLookLikeAnother) {
  const PythonFrame frame{"f", "/tmp/x [/bin/sh\n", std::nullopt, true};
  const auto back = frames_from_text(frames_to_text(std::span(&frame, 1)));
  ASSERT_EQ(back.size(), 1U);
  EXPECT_EQ(back[0].function, "f");
  EXPECT_TRUE(frames_from_text("f []\n [x]\nf [x").size() <= 1U);
}

}  // namespace
}  // namespace stalltrace
