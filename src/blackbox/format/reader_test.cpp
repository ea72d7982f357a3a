// SPDX-License-Identifier: Apache-2.0
// Valid files are read completely; each invalid file gives one clear line, or its invalid part is left out.
#include "blackbox/format/reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "blackbox/testing/made_profiler_file.h"
#include "tests/support/golden_text.h"

namespace stalltrace::blackbox {
namespace {

class Reader : public ::testing::Test {
 protected:
  Reader() {
    char name[] = "/tmp/stalltrace-reader-XXXXXX";
    folder_ = ::mkdtemp(name);
    path_ = folder_ + "/a.profiler";
  }
  ~Reader() override { std::filesystem::remove_all(folder_); }

  ProfilerFileContents read(const MadeProfilerFile& file) {
    file.write(path_);
    auto reader = ProfilerFileReader::open(path_);
    EXPECT_TRUE(reader) << (reader ? "" : reader.error().what);
    auto contents = reader->read();
    EXPECT_TRUE(contents);
    return *contents;
  }
  std::string refusal(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    const auto reader = ProfilerFileReader::open(path_);
    EXPECT_FALSE(reader);
    return reader ? "" : reader.error().what;
  }
  std::string refusal(const MadeProfilerFile& file) { return refusal(file.bytes()); }

  std::string folder_;
  std::string path_;
};

TEST_F(Reader, EndedAndOpenEventsAndCommunicators) {
  MadeProfilerFile file;
  file.append(MadeProfilerFile::collective(0, 2000, 9000));
  file.put(2, MadeProfilerFile::collective(1, 10000, 0), ST_BOX_ENDED);
  const ProfilerFileContents contents = read(file);
  ASSERT_EQ(contents.ended.size(), 1);
  EXPECT_EQ(contents.ended[0].u.coll.call_number, 0);
  ASSERT_EQ(contents.open.size(), 1);
  EXPECT_EQ(contents.open[0].u.coll.call_number, 1);
  ASSERT_EQ(contents.communicators.size(), 1);
  EXPECT_EQ(contents.communicators[0].hash, 0xabc);
  EXPECT_FALSE(contents.has_writer);
}

TEST(ProfilerFile, AProcessThatIsGoneButForItsStatusIsEnding) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(0);
  }
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(ProfilerFile::is_ending(child));
  EXPECT_FALSE(ProfilerFile::is_ending(::getpid()));
  EXPECT_FALSE(ProfilerFile::is_ending(0)) << "of another pid namespace";
  ::waitpid(child, nullptr, 0);
}

TEST_F(Reader, FollowsALiveRingAndReturnsEachRecordOnce) {
  MadeProfilerFile file;
  file.append(MadeProfilerFile::collective(0, 2000, 9000));
  file.write(path_);
  auto reader = ProfilerFileReader::open(path_);
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->read()->ended.size(), 1);
  EXPECT_EQ(reader->read()->ended.size(), 0);
  file.append(MadeProfilerFile::collective(1, 12000, 19000));
  st_box_event open = MadeProfilerFile::collective(2, 20000, 0);
  open.u.coll.ops_started = 1;
  file.put(0, open, ST_BOX_ENDED);
  file.write(path_);
  const auto more = reader->read();
  ASSERT_EQ(more->ended.size(), 1);
  EXPECT_EQ(more->ended[0].u.coll.call_number, 1);
  ASSERT_EQ(more->open.size(), 1);
  EXPECT_EQ(more->open[0].start_ns, 20000);
  const auto communicators = reader->read_communicators();
  ASSERT_TRUE(communicators);
  ASSERT_EQ(communicators->size(), 1);
  EXPECT_EQ(communicators->front().hash, 0xabc);
}

TEST_F(Reader, AWrappedRingCountsWhatItLost) {
  MadeProfilerFile file;
  for (uint64_t n = 0; n < 21; ++n) {
    file.append(MadeProfilerFile::collective(n, 1000 + n, 2000 + n));
  }
  const ProfilerFileContents contents = read(file);
  EXPECT_EQ(contents.ended.size(), 16);
  EXPECT_EQ(contents.ended.front().u.coll.call_number, 5);
  EXPECT_EQ(contents.overwritten, 5);
}

TEST_F(Reader, ARecordThatWasNeverFinishedIsCountedAndLeftOut) {
  MadeProfilerFile file;
  file.append(MadeProfilerFile::collective(0, 2000, 9000));
  file.append(MadeProfilerFile::collective(1, 2000, 9000));
  file.ring[0].commit = ST_BOX_RING_WRITING(0);
  const ProfilerFileContents contents = read(file);
  EXPECT_EQ(contents.ended.size(), 1);
  EXPECT_EQ(contents.torn, 1);
}

TEST_F(Reader, SlotsOfAnotherGenerationTagOrPhaseDoNotCount) {
  MadeProfilerFile file;
  for (uint64_t slot = 0; slot < 5; ++slot) {
    file.put(slot, MadeProfilerFile::collective(slot, 2000, 0), ST_BOX_OPEN);
  }
  file.slots[0].id += 1ULL << ST_BOX_ID_GENERATION_SHIFT;
  file.slots[1].id += 1ULL << ST_BOX_ID_TAG_SHIFT;
  file.slots[2].id += 1;
  file.put(3, MadeProfilerFile::collective(3, 2000, 0), ST_BOX_WRITING);
  const ProfilerFileContents contents = read(file);
  ASSERT_EQ(contents.open.size(), 1);
  EXPECT_EQ(contents.open[0].u.coll.call_number, 4);
}

TEST_F(Reader, WhatIsQuietOrClosingHasEnded) {
  MadeProfilerFile file;
  file.put(0, MadeProfilerFile::collective(0, 2000, 3000), ST_BOX_QUIET);
  file.put(1, MadeProfilerFile::collective(1, 2000, 3000), ST_BOX_CLOSING);
  const ProfilerFileContents contents = read(file);
  EXPECT_EQ(contents.ended.size(), 2);
  EXPECT_TRUE(contents.open.empty());
}

TEST_F(Reader, RefusesWhatIsNoProfilerFile) {
  golden::expect_text(refusal(""), {{folder_, "FOLDER"}});
  golden::expect_text(refusal(std::string(8192, 'x')), {{folder_, "FOLDER"}});
  EXPECT_FALSE(ProfilerFileReader::open(folder_ + "/none.profiler"));
  EXPECT_FALSE(ProfilerFileReader::open(folder_)) << "a folder";
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  const auto pipe = ProfilerFileReader::open(folder_ + "/pipe");
  ASSERT_FALSE(pipe);
  golden::expect_text(pipe.error().what, {{folder_, "FOLDER"}});
}

TEST_F(Reader, RefusesAnotherVersionOrByteOrder) {
  MadeProfilerFile later;
  later.header.version = 9;
  golden::expect_text(refusal(later), {{folder_, "FOLDER"}});
  MadeProfilerFile swapped;
  swapped.header.byte_order = 0x04030201;
  golden::expect_text(refusal(swapped), {{folder_, "FOLDER"}});
  MadeProfilerFile grown;
  grown.header.event_bytes = 136;
  golden::expect_text(refusal(grown), {{folder_, "FOLDER"}});
}

TEST_F(Reader, RefusesATruncatedFile) {
  const std::string whole = MadeProfilerFile().bytes();
  golden::expect_text(refusal(whole.substr(0, whole.size() - 1)), {{folder_, "FOLDER"}});
}

TEST_F(Reader, RefusesImpossibleSizes) {
  using Spoil = void (*)(st_box_header&);
  const Spoil spoils[] = {
      [](st_box_header& h) { h.ring_capacity = 1ULL << 60; },
      [](st_box_header& h) { h.ring_capacity = 15; },
      [](st_box_header& h) { h.ring_capacity = 0; },
      [](st_box_header& h) { h.slot_capacity = 1ULL << 40; },
      [](st_box_header& h) { h.slot_capacity = MadeProfilerFile::kSlots + 1; },  // overlaps the ring
      [](st_box_header& h) { h.slot_offset = 0; },                               // overlaps the header
      [](st_box_header& h) { h.slot_offset = ~0ULL - 64; },
      [](st_box_header& h) { h.communicator_capacity = 1ULL << 50; },
      [](st_box_header& h) { h.communicator_offset = ~0ULL; },
      [](st_box_header& h) { h.ring_offset = ~0ULL - 127; },
      [](st_box_header& h) { h.file_bytes = ~0ULL; },
  };
  for (size_t i = 0; i < std::size(spoils); ++i) {
    MadeProfilerFile file;
    spoils[i](file.header);
    EXPECT_FALSE(refusal(file).empty()) << i;
  }
}

TEST_F(Reader, AFileThatShrinksUnderUsIsAnError) {
  MadeProfilerFile file;
  file.append(MadeProfilerFile::collective(0, 2000, 9000));
  file.write(path_);
  auto reader = ProfilerFileReader::open(path_);
  ASSERT_TRUE(reader);
  ASSERT_EQ(::truncate(path_.c_str(), 5000), 0);
  const auto contents = reader->read();
  ASSERT_FALSE(contents);
  golden::expect_text(contents.error().what, {{folder_, "FOLDER"}});
}

TEST_F(Reader, AnImpossibleHeadYieldsNoRecords) {
  MadeProfilerFile file;
  file.append(MadeProfilerFile::collective(0, 2000, 9000));
  file.header.ring_head = ~0ULL - 5;
  const ProfilerFileContents contents = read(file);
  EXPECT_TRUE(contents.ended.empty());
}

TEST(Text, EndsAtItsFieldAndPrints) {
  const char endless[] = {'a', 'b', 'c'};
  EXPECT_EQ(text_of(endless), "abc");
  const char nasty[] = {'a', '\x1b', '[', '\n', 0, 'z'};
  EXPECT_EQ(text_of(nasty), "a?[?");
}

TEST_F(Reader, SlotsAreReadOnceTheRingIsReadToItsEnd) {
  MadeProfilerFile file;
  for (uint64_t n = 0; n < 3; ++n) {
    file.append(MadeProfilerFile::collective(n, 2000, 9000));
  }
  file.put(0, MadeProfilerFile::collective(3, 2000, 0), ST_BOX_OPEN);
  file.write(path_);
  auto reader = ProfilerFileReader::open(path_);
  ASSERT_TRUE(reader);
  auto contents = reader->read({.most_records = 2});
  EXPECT_EQ(contents->unread, 1);
  EXPECT_FALSE(contents->drained);
  EXPECT_FALSE(contents->open_parts);
  EXPECT_TRUE(contents->open.empty());
  contents = reader->read({.most_records = 2});
  EXPECT_EQ(contents->unread, 0);
  EXPECT_TRUE(contents->drained);
  EXPECT_TRUE(contents->open_parts);
  EXPECT_EQ(contents->open.size(), 1);
}

TEST_F(Reader, WhatHasEndedInASlotIsReturnedWhereItIsAskedFor) {
  MadeProfilerFile file;
  file.put(0, MadeProfilerFile::collective(0, 2000, 3000), ST_BOX_QUIET);
  file.put(1, MadeProfilerFile::collective(1, 2000, 0), ST_BOX_OPEN);
  file.write(path_);
  auto reader = ProfilerFileReader::open(path_);
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->read()->ended.size(), 1);
  const auto contents = reader->read({.ended_slots = false});
  EXPECT_TRUE(contents->ended.empty());
  EXPECT_EQ(contents->open.size(), 1);
}

}  // namespace
}  // namespace stalltrace::blackbox
