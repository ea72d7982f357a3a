// SPDX-License-Identifier: Apache-2.0
// Replays recorded memory of each version, so that every version is tested on hosts without it, and the same memory
// with hostile changes. STALLTRACE_UPDATE_GOLDEN=1 records the images of this host's interpreters anew.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "stacks/python/layout.h"
#include "stacks/python/python_threads.h"
#include "stacks/testing/image.h"
#include "stacks/testing/python_process.h"
#include "tests/support/golden_text.h"
#include "tests/support/source_tree.h"

namespace stalltrace::stacks {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// Everything that was read, as text for comparison.
std::string shown(const Result<PythonThreads>& threads) {
  if (!threads) {
    return "error: " + threads.error().what + "\n";
  }
  std::string text;
  for (const PythonThread& thread : threads->threads) {
    text += fmt::format("thread {} gil {} collecting {} changing {} problem '{}'\n", thread.tid,
                        thread.holds_gil ? (*thread.holds_gil ? "held" : "no") : "?", thread.collecting,
                        thread.changing, thread.problem);
    for (const PythonFrame& frame : thread.frames) {
      text += fmt::format("  {} ({}:{})\n", frame.function, frame.file, frame.line.value_or(0));
    }
  }
  return text + fmt::format("locks {}\n", threads->gils.size());
}

Result<PythonThreads> read_image(const Image& image, unsigned flip = 0) {
  ImageMemory memory(image, flip);
  return read_python_threads(memory, image.program, image.tids, image.main, {.pause_ns = 0});
}

std::string path_of(uint32_t minor) { return source_path(fmt::format("src/stacks/testdata/python3.{}.image", minor)); }

struct Golden {
  Image image;
  std::string expected;
};

Golden load(uint32_t minor) {
  Golden golden;
  const std::string text = read_file(path_of(minor)).value_or("");
  const size_t end = text.find("\n\n");
  if (end == std::string::npos) {
    return golden;
  }
  golden.expected = text.substr(end + 2);
  golden.image = image_of_text(text);
  return golden;
}

/// Stores what is read.
class RecordingMemory final : public Memory {
 public:
  RecordingMemory(Memory& memory, Image& image) : memory_(memory), image_(image) {}
  bool read(uint64_t address, std::span<std::byte> into) override {
    if (!memory_.read(address, into)) {
      return false;
    }
    for (size_t i = 0; i < into.size(); ++i) {
      image_.pieces[(address + i) / Image::kPieceBytes][(address + i) % Image::kPieceBytes] = into[i];
    }
    return true;
  }

 private:
  Memory& memory_;
  Image& image_;
};

/// Replaces a text everywhere in the image: paths of the host where it was recorded.
void replace(Image& image, std::string_view text, char filler) {
  for (auto first = image.pieces.begin(); first != image.pieces.end();) {
    std::string run;
    auto last = first;
    for (uint64_t next = first->first; last != image.pieces.end() && last->first == next; ++last, ++next) {
      run.append(reinterpret_cast<const char*>(last->second.data()), last->second.size());
    }
    for (size_t at = run.find(text); at != std::string::npos; at = run.find(text, at + 1)) {
      run.replace(at, text.size(), "/" + std::string(text.size() - 1, filler));
    }
    for (size_t done = 0; first != last; ++first, done += Image::kPieceBytes) {
      std::memcpy(first->second.data(), run.data() + done, Image::kPieceBytes);
    }
  }
}

/// Records a process whose threads are blocked, and removes every piece that the result does not depend on.
void record(const Interpreter& interpreter) {
  const auto process = start_test_process(interpreter, "blocked_threads.py");
  ASSERT_TRUE(process);
  const Procfs procfs;
  const pid_t pid = process->process.pid();
  auto memory = ProcessMemory::open(procfs, pid);
  auto program = find_python(procfs, pid);
  ASSERT_TRUE(memory && program);
  Image image{.program = *program, .tids = procfs.threads(pid), .main = pid, .pieces = {}};
  RecordingMemory recording(*memory, image);
  ASSERT_TRUE(read_python_threads(recording, image.program, image.tids, image.main));
  replace(image, source_path(), 's');
  const char* home = std::getenv("HOME");
  replace(image, home != nullptr ? home : "/root", 'h');
  const std::string whole = shown(read_image(image));
  for (const uint64_t together : {64U, 8U, 1U}) {  // starts with whole pages
    std::set<uint64_t> groups;
    for (const auto& [number, piece] : image.pieces) {
      groups.insert(number / together);
    }
    for (const uint64_t group : groups) {
      Image without = image;
      std::erase_if(without.pieces, [&](const auto& piece) { return piece.first / together == group; });
      if (shown(read_image(without)) == whole) {
        image = std::move(without);
      }
    }
  }
  std::ofstream(path_of(interpreter.minor)) << image_text(image) << whole;
}

class EachVersion : public testing::TestWithParam<uint32_t> {};

TEST_P(EachVersion, ARecordedProcess) {
  if (std::getenv("STALLTRACE_UPDATE_GOLDEN") != nullptr) {
    for (const Interpreter& interpreter : interpreters()) {
      if (interpreter.minor == GetParam()) {
        record(interpreter);
        break;
      }
    }
  }
  const Golden golden = load(GetParam());
  ASSERT_THAT(golden.image.tids, SizeIs(testing::Ge(10U)));
  const std::string read = shown(read_image(golden.image));
  EXPECT_EQ(read, golden.expected);
  EXPECT_THAT(read, HasSubstr("load_batch (/"));
  EXPECT_THAT(read, HasSubstr("/blocked_threads.py:22)\n")) << "the line of a call of several lines";
  EXPECT_THAT(read, HasSubstr("中文 (/tmp/中.py:5)"));
}

TEST_P(EachVersion, WithoutTheTypesSymbol) {
  Golden golden = load(GetParam());
  golden.image.program.code_type = 0;
  // The image lacks the type's tp_name, so nothing is recognised as code.
  const auto threads = read_image(golden.image);
  ASSERT_TRUE(threads);
  golden::expect_text(threads->threads.front().problem);
  for (const PythonThread& thread : threads->threads) {
    EXPECT_THAT(thread.frames, IsEmpty());
    EXPECT_EQ(thread.problem, threads->threads.front().problem);
  }
}

TEST_P(EachVersion, AnyPieceMayBeMissingOrWrong) {
  const Golden golden = load(GetParam());
  const int64_t begun_ns = monotonic_now_ns();
  size_t different = 0;
  size_t number = 0;
  for (const auto& [at, piece] : golden.image.pieces) {
    Image damaged = golden.image;
    if (++number % 3 == 0) {
      damaged.pieces.erase(at);
    } else {
      damaged.pieces[at].fill(number % 3 == 1 ? std::byte{0xff} : std::byte{0x7f});
    }
    const auto threads = read_image(damaged);
    different += shown(threads) != golden.expected ? 1 : 0;
    for (const PythonThread& thread : threads ? threads->threads : std::vector<PythonThread>()) {
      EXPECT_LE(thread.frames.size(), 250U);
      for (const PythonFrame& frame : thread.frames) {
        EXPECT_LE(frame.function.size(), 1000U);
      }
    }
  }
  EXPECT_GE(different, number / 2) << "an image has what matters";
  EXPECT_LT(monotonic_now_ns() - begun_ns, 30 * kNsPerSecond);
}

TEST_P(EachVersion, MemoryThatChangesWhileItIsRead) {
  const Golden golden = load(GetParam());
  for (unsigned flip = 2; flip < 40; ++flip) {
    const auto threads = read_image(golden.image, flip);
    for (const PythonThread& thread : threads ? threads->threads : std::vector<PythonThread>()) {
      // Either the recorded content, or a reason for its absence.
      const bool reported = thread.changing > 0 || !thread.problem.empty();
      for (const PythonFrame& frame : thread.frames) {
        EXPECT_TRUE(reported || golden.expected.find(fmt::format("{} (", frame.function)) != std::string::npos ||
                    frame.function == "?")
            << frame.function;
      }
    }
  }
}

TEST_P(EachVersion, ACycleOfFramesOrThreadsEnds) {
  const Golden golden = load(GetParam());
  const auto put = [](Image& image, uint64_t address, uint64_t value) {
    for (size_t i = 0; i < sizeof value; ++i) {
      image.pieces[(address + i) / Image::kPieceBytes][(address + i) % Image::kPieceBytes] =
          static_cast<std::byte>(value >> (8 * i));
    }
  };
  Image image = golden.image;
  ImageMemory memory(image);
  BoundedMemory bounded(memory, {});
  const auto layout = layout_in(bounded, image.program.runtime, image.program.minor);
  ASSERT_TRUE(layout);
  uint64_t interpreter = 0;
  uint64_t thread = 0;
  ASSERT_TRUE(bounded.read(image.program.runtime + layout->interpreters_head, interpreter));
  ASSERT_TRUE(bounded.read(interpreter + layout->interpreter_threads, thread));
  Image ring = image;
  put(ring, thread + layout->thread_next, thread);
  EXPECT_FALSE(read_image(ring)) << "a list of threads that has no end";
  Image interpreters_ring = image;
  put(interpreters_ring, interpreter + layout->interpreter_next, interpreter);
  EXPECT_FALSE(read_image(interpreters_ring));
  uint64_t frame = 0;
  uint64_t holder = thread;
  if (layout->thread_cframe != kAbsent) {
    ASSERT_TRUE(bounded.read(thread + layout->thread_cframe, holder));
  }
  ASSERT_TRUE(
      bounded.read(holder + (layout->thread_cframe != kAbsent ? layout->cframe_frame : layout->thread_frame), frame));
  Image own = image;
  put(own, frame + layout->frame_previous, frame);
  const auto threads = read_image(own);
  ASSERT_TRUE(threads);
  golden::expect_text(threads->threads.front().problem);
  EXPECT_EQ(threads->threads.back().problem, "") << "the others are read";
  Image none = image;
  put(none, image.program.runtime + layout->interpreters_head, 0);
  ASSERT_FALSE(read_image(none));
  golden::expect_text(read_image(none).error().what);
}

INSTANTIATE_TEST_SUITE_P(Images, EachVersion, testing::Values(9U, 10U, 11U, 12U, 13U),
                         [](const auto& one) { return "Python3_" + std::to_string(one.param); });

/// Memory that is one endless list: every word points to the next page.
class EndlessMemory final : public Memory {
 public:
  bool read(uint64_t address, std::span<std::byte> into) override {
    for (size_t i = 0; i + 8 <= into.size(); i += 8) {
      const uint64_t next = (address & ~uint64_t{4095}) + 4096;
      std::memcpy(into.data() + i, &next, 8);
    }
    return true;
  }
};

TEST(ReadPythonThreads, EndlessMemoryCostsNoMoreThanItsBounds) {
  for (const uint32_t minor : {9U, 10U, 11U, 12U, 13U}) {
    EndlessMemory memory;
    const int64_t begun_ns = monotonic_now_ns();
    const PythonProgram program{.minor = minor, .version = "3", .file = "", .runtime = 0x10000, .code_type = 0};
    const auto threads =
        read_python_threads(memory, program, {}, 1, {.most_bytes = 64U << 20, .most_ns = kNsPerSecond, .pause_ns = 0});
    EXPECT_FALSE(threads);
    EXPECT_LT(monotonic_now_ns() - begun_ns, 10 * kNsPerSecond);
  }
}

TEST(ReadPythonThreads, VersionsThatAreNotKnown) {
  for (const uint32_t minor : {0U, 8U, 14U, 255U}) {
    EndlessMemory memory;
    const PythonProgram program{.minor = minor, .version = "3", .file = "", .runtime = 0x10000, .code_type = 0};
    const auto threads = read_python_threads(memory, program, {}, 1);
    ASSERT_FALSE(threads);
    EXPECT_EQ(threads.error().kind, ErrorKind::kUnsupported);
    golden::expect_text(threads.error().what);
  }
}

TEST(BoundedMemory, ReadsAcrossPagesAndRemembersThem) {
  Image image;
  image.pieces[4096 / 64 - 1].fill(std::byte{1});
  image.pieces[4096 / 64].fill(std::byte{2});
  ImageMemory memory(image);
  BoundedMemory bounded(memory, {});
  uint16_t value = 0;
  EXPECT_TRUE(bounded.read(4095, value));
  EXPECT_EQ(value, 0x0201);
  EXPECT_FALSE(bounded.read(8191, value)) << "half of it is in no page";
  EXPECT_FALSE(bounded.read(UINT64_MAX, value));
  image.pieces[4096 / 64].fill(std::byte{3});
  memory = ImageMemory(image);
  EXPECT_TRUE(bounded.read(4095, value));
  EXPECT_EQ(value, 0x0201) << "of the moment of the first reading";
  bounded.forget();
  EXPECT_TRUE(bounded.read(4095, value));
  EXPECT_EQ(value, 0x0301);
  BoundedMemory small(memory, {.most_bytes = 4096});
  EXPECT_FALSE(small.read(4095, value));
  EXPECT_TRUE(small.exhausted());
}

TEST(VersionText, ReleasesAndOthers) {
  EXPECT_EQ(version_text(0x030b02f0), "3.11.2");
  EXPECT_EQ(version_text(0x030d00c2), "3.13.0rc2");
  EXPECT_EQ(version_text(0x030e00a1), "3.14.0a1");
}

}  // namespace
}  // namespace stalltrace::stacks
