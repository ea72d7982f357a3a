// SPDX-License-Identifier: Apache-2.0
// The kernel side's walk over a traceback, on processes of each installed CPython, and the names in recorded results of
// every version. STALLTRACE_UPDATE_GOLDEN=1 records them anew.
#include "capture/python/traceback.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "capture/kernel/python_layouts.h"
#include "capture/python/python_exceptions.h"
#include "model/memory_source.h"
#include "stacks/memory/memory.h"
#include "stacks/python/layout.h"
#include "stacks/testing/python_process.h"
#include "tests/support/source_tree.h"

namespace stalltrace::capture {
namespace {

stacks::Memory* walked = nullptr;  // what the walk reads

long bpf_probe_read_user(void* into, uint32_t bytes, const void* address) {
  return walked->read(reinterpret_cast<uint64_t>(address), {static_cast<std::byte*>(into), bytes}) ? 0 : -1;
}
uint64_t user_u64(uint64_t address) {
  uint64_t value = 0;
  return bpf_probe_read_user(&value, sizeof value, reinterpret_cast<const void*>(address)) == 0 ? value : 0;
}

#include "python_traceback.h"  // reads by the functions above

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Record = std::unique_ptr<st_python_exception>;

Record walk(uint32_t minor, stacks::Memory& memory, uint64_t traceback) {
  walked = &memory;
  auto record = std::make_unique<st_python_exception>();
  const st_python_layout layout = python_layout(minor);
  record->minor = static_cast<uint16_t>(minor);
  record->traceback = traceback;
  record->depth = walk_traceback(&layout, traceback, record.get());
  for (uint32_t i = 0; i < ST_PYTHON_FRAMES && i < record->depth; ++i) {
    read_frame(&layout, &record->frames[i]);
  }
  walked = nullptr;
  return record;
}

std::string_view bytes_of(const st_python_exception& record) {
  return {reinterpret_cast<const char*>(&record), sizeof record};
}

std::string shown(const st_python_exception& record) { return frames_to_text(frames_of(record)); }

std::string path_of(uint32_t minor) {
  return source_path(fmt::format("src/capture/testdata/python3.{}.traceback", minor));
}

constexpr size_t kPiece = 64;

/// Removes what was read behind the objects, and this host's paths.
void clean(st_python_exception& record) {
  const stacks::Layout layout = *stacks::layout_of(record.minor);
  const auto clear_from = [](auto& memory, uint64_t used) {
    std::memset(memory + std::min<uint64_t>(used, sizeof memory), 0,
                sizeof memory - std::min<uint64_t>(used, sizeof memory));
  };
  const auto number_at = [](const __u8* memory, uint32_t offset) {
    uint64_t number = 0;
    std::memcpy(&number, memory + offset, sizeof number);
    return number;
  };
  for (st_python_frame& frame : record.frames) {
    clear_from(frame.file_memory, layout.text_compact_data + number_at(frame.file_memory, layout.text_length));
    clear_from(frame.name_memory, layout.text_compact_data + 2 * number_at(frame.name_memory, layout.text_length));
    clear_from(frame.table_memory, layout.bytes_data + number_at(frame.table_memory, layout.bytes_size));
    const std::string here = source_path();
    auto* const file = reinterpret_cast<char*>(frame.file_memory);
    const size_t at = std::string_view(file, sizeof frame.file_memory).find(here);
    if (at != std::string_view::npos) {
      std::memset(file + at + 1, 's', here.size() - 1);
    }
  }
}

void store(const st_python_exception& record) {
  const std::string_view bytes = bytes_of(record);
  std::ofstream file(path_of(record.minor));
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    const std::string_view piece = bytes.substr(at, kPiece);
    if (piece.find_first_not_of('\0') != std::string_view::npos) {
      std::string line = fmt::format("{:x} ", at / kPiece);
      for (const char byte : piece) {
        line += fmt::format("{:02x}", static_cast<unsigned char>(byte));
      }
      file << line << "\n";
    }
  }
  file << "\n" << shown(record) << "\n";
}

struct Golden {
  Record record = std::make_unique<st_python_exception>();
  std::string expected;
};

Golden load(uint32_t minor) {
  Golden golden;
  const std::string text = read_file(path_of(minor)).value_or("");
  const size_t end = text.find("\n\n");
  if (end == std::string::npos) {
    return golden;
  }
  golden.expected = std::string(trim(std::string_view(text).substr(end + 2)));
  auto* const bytes = reinterpret_cast<char*>(golden.record.get());
  for (const std::string_view line : split(std::string_view(text).substr(0, end), '\n')) {
    const auto words = split(line, ' ');
    const size_t at = kPiece * std::stoull(std::string(words.at(0)), nullptr, 16);
    for (size_t i = 0; 2 * i < words.at(1).size() && at + i < sizeof *golden.record; ++i) {
      bytes[at + i] = static_cast<char>(std::stoul(std::string(words[1].substr(2 * i, 2)), nullptr, 16));
    }
  }
  return golden;
}

void expect_traceback(const std::string& text) {
  const auto lines = split(text, '\n');
  ASSERT_THAT(lines, SizeIs(ST_PYTHON_FRAMES)) << text;
  EXPECT_TRUE(lines[0].starts_with("load_batch (/") && lines[0].ends_with("/raised_exception.py:10)")) << lines[0];
  EXPECT_THAT(text, HasSubstr("/raised_exception.py:17)\n")) << "the line of the call, not of the function";
  EXPECT_THAT(std::string(lines[12]), HasSubstr("中文 (/")) << "the gap";
  EXPECT_THAT(std::string(lines[14]), HasSubstr("step (/"));
  EXPECT_THAT(std::string(lines[14]), HasSubstr("raised_exception.py:24)"));
  EXPECT_THAT(std::string(lines[15]), HasSubstr("<module> (/"));
  EXPECT_THAT(std::string(lines[15]), HasSubstr("raised_exception.py:28)"));
}

class EachVersion : public testing::TestWithParam<uint32_t> {};

TEST_P(EachVersion, NamesOfARecordedTraceback) {
  const Golden golden = load(GetParam());
  EXPECT_EQ(shown(*golden.record), golden.expected);
  expect_traceback(golden.expected);
  EXPECT_EQ(traceback_text(bytes_of(*golden.record)), golden.expected);
  EXPECT_EQ(traceback_text(bytes_of(*golden.record).substr(1)), "") << "no record";
}

TEST_P(EachVersion, AnyByteOfItMayBeFalse) {
  const Golden golden = load(GetParam());
  auto* const bytes = reinterpret_cast<unsigned char*>(golden.record.get());
  size_t named = 0;
  for (size_t at = sizeof(st_header); at < sizeof *golden.record; at += 389) {
    const unsigned char before = bytes[at];
    for (const unsigned value : {0x00U, 0x7fU, 0xffU}) {
      bytes[at] = static_cast<unsigned char>(value);
      named += frames_of(*golden.record).size();
    }
    bytes[at] = before;
  }
  EXPECT_GT(named, 0U);
  EXPECT_EQ(shown(*golden.record), golden.expected);
}

TEST_P(EachVersion, OfLongObjectsWhatWasReadIsNamed) {
  const Golden golden = load(GetParam());
  const stacks::Layout layout = *stacks::layout_of(GetParam());
  st_python_frame& innermost =
      golden.record->frames[ST_PYTHON_OUTERMOST + (golden.record->depth - 1 - ST_PYTHON_OUTERMOST) %
                                                      (ST_PYTHON_FRAMES - ST_PYTHON_OUTERMOST)];
  innermost.name_bytes = static_cast<__u16>(layout.text_ascii_data + 4);
  innermost.table_bytes = static_cast<__u16>(layout.bytes_data);
  innermost.line = -1;
  const PythonFrame frame = frames_of(*golden.record).front();
  EXPECT_EQ(frame.function, "load...");
  EXPECT_EQ(frame.line, std::nullopt) << "not that of the zeros behind";
  innermost.code_bytes = 0;
  EXPECT_THAT(frames_of(*golden.record), SizeIs(ST_PYTHON_FRAMES - 1));
}

INSTANTIATE_TEST_SUITE_P(Python, EachVersion, testing::Values(9U, 10U, 11U, 12U, 13U),
                         [](const auto& version) { return fmt::format("Version3_{}", version.param); });

/// Of this host's interpreters. The walk is the kernel side's own code.
TEST(Traceback, OfLiveProcesses) {
  if (stacks::interpreters().empty()) {
    FAIL() << "no CPython 3.9 to 3.13 is installed";
  }
  for (const stacks::Interpreter& interpreter : stacks::interpreters()) {
    SCOPED_TRACE(interpreter.path);
    const auto process = stacks::start_test_process(interpreter, "raised_exception.py");
    ASSERT_TRUE(process);
    auto memory = stacks::ProcessMemory::open(Procfs(), process->process.pid());
    const auto address = parse_integer(process->text);
    ASSERT_TRUE(memory && address);
    const Record record = walk(interpreter.minor, *memory, static_cast<uint64_t>(*address));
    EXPECT_EQ(record->depth, interpreter.minor >= 12 ? 24U : 25U) << "from 3.12 a list comprehension is no function";
    expect_traceback(shown(*record));
    if (std::getenv("STALLTRACE_UPDATE_GOLDEN") != nullptr) {
      clean(*record);
      store(*record);
    }
  }
}

/// A process whose memory leads in circles.
class CircularMemory final : public stacks::Memory {
 public:
  bool read(uint64_t /*address*/, std::span<std::byte> into) override {
    std::ranges::fill(into, std::byte{0x10});
    return true;
  }
};

TEST(Traceback, TheKernelSideKnowsEachVersion) {
  for (uint32_t minor = 0; minor < ST_PYTHON_VERSIONS; ++minor) {
    EXPECT_EQ(python_layout(minor).known, stacks::layout_of(minor) ? 1U : 0U) << minor;
  }
}

TEST(Traceback, WalksEnd) {
  CircularMemory memory;
  const Record record = walk(12, memory, 0x1000);
  EXPECT_EQ(record->depth, ST_PYTHON_MOST_DEPTH);
  EXPECT_THAT(frames_of(*record), IsEmpty());
}

class Exceptions : public testing::Test {
 protected:
  static constexpr int32_t kPid = 70;
  void SetUp() override { ASSERT_TRUE(shares_.begin(kPid, 1000, 1)); }
  /// Other tests of this program count its children.
  void TearDown() override {
    exceptions_.reset();
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
  }
  void note(const st_python_exception& record) { EXPECT_TRUE(exceptions_->note(std::as_bytes(std::span(&record, 1)))); }
  std::vector<PythonException> rows() {
    std::vector<PythonException> rows;
    EXPECT_TRUE(sink_.python_exceptions({}, [&](const PythonException& row) { rows.push_back(row); }));
    return rows;
  }
  MemorySource sink_;
  Node node_{.node_id = 1, .clock_offset_ns = 1000};
  UserShares shares_;
  std::optional<PythonExceptions> exceptions_{std::in_place, node_, shares_, sink_};
};

TEST_F(Exceptions, BecomeRowsOnceEach) {
  const Golden golden = load(11);
  st_python_exception& record = *golden.record;
  record.header = {.time_ns = 5'000, .tgid = kPid, .tid = kPid};
  std::strcpy(record.type,
              "Value\x1b"
              "Error");
  note(record);
  record.header.time_ns += 1'000'000;  // another function prints it
  note(record);
  record.header.tid = kPid + 1;
  record.depth = 0;
  note(record);
  const auto rows = this->rows();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].timestamp_ns, 6'000);
  EXPECT_EQ(rows[0].depth, 25);
  EXPECT_EQ(rows[0].type, printable("Value\x1b"
                                    "Error"));
  EXPECT_NE(rows[0].stack_id, 0);
  EXPECT_EQ(rows[1].stack_id, 0) << "it has no frame";
  EXPECT_EQ(rows[1].tid, kPid + 1);
  const auto stacks = sink_.stacks();
  ASSERT_THAT(*stacks, SizeIs(1));
  EXPECT_EQ((*stacks)[0].frames, golden.expected);
  EXPECT_EQ((*stacks)[0].stack_id, rows[0].stack_id);
  EXPECT_FALSE(exceptions_->note(std::as_bytes(std::span(&record, 1)).first(100)));
}

TEST_F(Exceptions, WhatOneUserPrintsWithoutEndIsCounted) {
  auto record = std::make_unique<st_python_exception>();
  const auto at_once = static_cast<uint64_t>(UserShares::limits(UserShares::Kind::kStack).rows_at_once);
  for (uint64_t i = 0; i < at_once + 10; ++i) {
    record->header = {.time_ns = 1'000'000'000'000 + i, .tgid = kPid, .tid = kPid};
    record->traceback = i + 1;
    note(*record);
  }
  const size_t kept = rows().size();
  EXPECT_LE(kept, at_once + 1);
  const auto losses = shares_.losses(1);
  ASSERT_THAT(losses, SizeIs(1));
  EXPECT_EQ(losses[0].count, at_once + 10 - kept);
}

}  // namespace
}  // namespace stalltrace::capture
