// SPDX-License-Identifier: Apache-2.0
// The symbol reader over libraries built for it (testdata/*.c), and over damaged ones: an error, never a crash.
#include "capture/discover/elf_symbols.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "base/clock.h"
#include "base/file.h"
#include "base/handle.h"
#include "base/process/command.h"
#include "base/text.h"
#include "stacks/testing/python_process.h"
#include "wire/python.h"

namespace stalltrace::capture {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

std::string fixture(const std::string& name) { return std::string(STALLTRACE_TEST_LIBRARIES) + "/" + name; }

std::set<std::string_view> symbols_of(const FileSymbols& symbols) {
  std::set<std::string_view> result;
  for (const ProbePoint& point : symbols.points) {
    result.insert(call_table()[point.row].symbol);
  }
  return result;
}

class ElfSymbolsTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "elf_symbols_test_" + std::to_string(::getpid());
    bytes_ = read_file(fixture("libcollective_fixture.so")).value_or("");
    ASSERT_GT(bytes_.size(), 4096U);
  }
  void TearDown() override { ::unlink(path_.c_str()); }
  Result<FileSymbols> read_as(const std::string& bytes) {
    EXPECT_TRUE(write_file(path_, bytes));
    return find_probe_points(path_);
  }
  std::string path_;
  std::string bytes_;
};

/// Weak aliases are one point; data of a function's name, names outside the table and the hidden runtime are none.
TEST_F(ElfSymbolsTest, ALibrarysFunctionsOnce) {
  const auto symbols = find_probe_points(fixture("libcollective_fixture.so"));
  ASSERT_TRUE(symbols) << symbols.error().what;
  EXPECT_TRUE(symbols->has_collectives);
  EXPECT_THAT(symbols_of(*symbols), UnorderedElementsAre("ncclAllReduce", "ncclBroadcast"));
  EXPECT_THAT(symbols->points, SizeIs(2));
}

TEST_F(ElfSymbolsTest, AnOffsetLeadsToTheFunctionsBytes) {
  const std::string library = fixture("libcollective_fixture.so");
  const auto symbols = find_probe_points(library);
  ASSERT_TRUE(symbols);
  const std::unique_ptr<void, Free<dlclose>> handle(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
  ASSERT_TRUE(handle) << dlerror();
  for (const ProbePoint& point : symbols->points) {
    const std::string name(call_table()[point.row].symbol);
    const void* address = dlsym(handle.get(), name.c_str());
    ASSERT_TRUE(address) << name;
    ASSERT_LE(point.offset + 8, bytes_.size());
    EXPECT_EQ(std::memcmp(address, bytes_.data() + point.offset, 8), 0) << name;
  }
}

TEST_F(ElfSymbolsTest, ALibraryLinkedIntoAnotherIsFound) {
  const auto symbols = find_probe_points(fixture("libinside_fixture.so"));
  ASSERT_TRUE(symbols) << symbols.error().what;
  EXPECT_TRUE(symbols->has_collectives);
  EXPECT_THAT(symbols_of(*symbols), UnorderedElementsAre("ncclAllReduce", "ncclGroupEnd"));
}

TEST_F(ElfSymbolsTest, MpichsHandlesAreIntsOthersPointers) {
  const auto handles_of = [](const std::string& name) {
    const auto symbols = find_probe_points(fixture(name));
    std::map<std::string_view, bool> result;
    for (const ProbePoint& point : symbols ? symbols->points : std::vector<ProbePoint>()) {
      result[call_table()[point.row].symbol] = point.int_handles;
    }
    return result;
  };
  EXPECT_THAT(handles_of("libmpi_fixture.so"),
              AllOf(Contains(Pair("MPI_Allreduce", true)), Contains(Pair("MPI_Test", true))));
  EXPECT_THAT(handles_of("libcollective_fixture.so"),
              UnorderedElementsAre(Pair("ncclAllReduce", false), Pair("ncclBroadcast", false)));
}

#if defined(__x86_64__)
TEST_F(ElfSymbolsTest, ALoadBeforeAPushIsNotStoodOn) {
  const std::string library = fixture("libmpi_fixture.so");
  const auto symbols = find_probe_points(library);
  ASSERT_TRUE(symbols) << symbols.error().what;
  const std::string bytes = read_file(library).value_or("");
  const std::map<std::string_view, std::string> expected{
      {"MPI_Wait", "\x41\x54\x41\x5c"}, {"MPI_Barrier", "\x48\x8b\x05"}};  // push r12, pop r12; the load
  size_t found = 0;
  for (const ProbePoint& point : symbols->points) {
    if (const auto start = expected.find(call_table()[point.row].symbol); start != expected.end()) {
      EXPECT_EQ(bytes.substr(point.offset, start->second.size()), start->second) << start->first;
      ++found;
    }
  }
  EXPECT_EQ(found, expected.size());
}
#endif

TEST_F(ElfSymbolsTest, ARuntimeIsNoCollectiveLibrary) {
  const auto symbols = find_probe_points(fixture("libruntime_fixture.so"));
  ASSERT_TRUE(symbols) << symbols.error().what;
  EXPECT_FALSE(symbols->has_collectives);
  EXPECT_THAT(symbols_of(*symbols), UnorderedElementsAre("cudaStreamSynchronize", "cudaEventRecord"));
}

TEST_F(ElfSymbolsTest, AProgramWithoutCallsHasNoPoints) {
  const auto symbols = find_probe_points("/bin/sh");
  ASSERT_TRUE(symbols) << symbols.error().what;
  EXPECT_THAT(symbols->points, SizeIs(0));
  EXPECT_FALSE(symbols->has_collectives);
}

TEST_F(ElfSymbolsTest, WhatIsNoElfFileIsAnError) {
  EXPECT_FALSE(find_probe_points("/nonexistent/libnccl.so.2"));
  EXPECT_FALSE(find_probe_points("/"));
  EXPECT_FALSE(read_as(""));
  EXPECT_FALSE(read_as("#!/bin/sh\n"));
  EXPECT_FALSE(
      read_as("\x7f"
              "ELF"));
}

/// A library of its own making: one function, in a segment that this test chooses.
struct MadeElf {
  Elf64_Ehdr header{};
  Elf64_Phdr segment{};
  std::array<Elf64_Shdr, 3> sections{};
  std::array<Elf64_Sym, 2> symbols{};
  std::array<char, 32> names{};
  std::array<char, 64> code{};

  MadeElf() {
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
#if defined(__x86_64__)
    header.e_machine = EM_X86_64;
#else
    header.e_machine = EM_AARCH64;
#endif
    header.e_phentsize = sizeof segment;
    header.e_shentsize = sizeof sections[0];
    header.e_phoff = offsetof(MadeElf, segment);
    header.e_shoff = offsetof(MadeElf, sections);
    header.e_phnum = 1;
    header.e_shnum = 3;
    segment = {
        .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = 0, .p_vaddr = 0x4000, .p_filesz = sizeof(MadeElf)};
    sections[1] = {.sh_type = SHT_DYNSYM,
                   .sh_offset = offsetof(MadeElf, symbols),
                   .sh_size = sizeof symbols,
                   .sh_link = 2,
                   .sh_entsize = sizeof symbols[0]};
    sections[2] = {.sh_type = SHT_STRTAB, .sh_offset = offsetof(MadeElf, names), .sh_size = sizeof names};
    symbols[1] = {.st_name = 1,
                  .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                  .st_shndx = 1,
                  .st_value = 0x4000 + offsetof(MadeElf, code),
                  .st_size = 16};
    std::strcpy(names.data() + 1, "ncclAllReduce");
  }
  [[nodiscard]] std::string bytes() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }
};

TEST_F(ElfSymbolsTest, OnlyFunctionsInsideExecutableSegmentsOfTheFile) {
  const auto points = [&](const auto& change) {
    MadeElf made;
    change(made);
    const auto symbols = read_as(made.bytes());
    return symbols ? symbols->points.size() : 0;
  };
  EXPECT_EQ(points([](MadeElf&) {}), 1U);
  EXPECT_EQ(points([](MadeElf& m) { m.symbols[1].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT); }), 0U);
  EXPECT_EQ(points([](MadeElf& m) { m.symbols[1].st_shndx = SHN_UNDEF; }), 0U);
  EXPECT_EQ(points([](MadeElf& m) { m.segment.p_flags = PF_R | PF_W; }), 0U) << "data";
  EXPECT_EQ(points([](MadeElf& m) { m.segment.p_type = PT_NOTE; }), 0U);
  EXPECT_EQ(points([](MadeElf& m) { m.segment.p_filesz = offsetof(MadeElf, code) + 8; }), 0U) << "half inside";
  EXPECT_EQ(points([](MadeElf& m) { m.symbols[1].st_value = 0x4000 + sizeof(MadeElf); }), 0U);
  EXPECT_EQ(points([](MadeElf& m) {
              m.segment.p_filesz = 1 << 20;
              m.symbols[1].st_value = 0x4000 + sizeof(MadeElf) + 4096;
            }),
            0U)
      << "behind the file's end";
  EXPECT_EQ(points([](MadeElf& m) { m.symbols[1].st_value = UINT64_MAX - 8; }), 0U);
  EXPECT_EQ(points([](MadeElf& m) { m.segment.p_offset = UINT64_MAX - 8; }), 0U);
  EXPECT_EQ(points([](MadeElf& m) { m.header.e_machine = EM_RISCV; }), 0U) << "another machine's";
  EXPECT_EQ(points([](MadeElf& m) { m.header.e_ident[EI_DATA] = ELFDATA2MSB; }), 0U);
  EXPECT_EQ(points([](MadeElf& m) { m.sections[2].sh_flags = SHF_COMPRESSED; }), 1U) << "nothing is inflated";
}

TEST_F(ElfSymbolsTest, ClaimsCostLittle) {
  const int64_t begun_ns = monotonic_now_ns();
  for (const uint64_t claim : {uint64_t{1} << 20, uint64_t{1} << 30, uint64_t{1} << 40, UINT64_MAX}) {
    MadeElf made;
    made.sections[1].sh_size = claim;
    EXPECT_TRUE(read_as(made.bytes()));
    made.sections[2].sh_size = claim;
    EXPECT_TRUE(read_as(made.bytes()));
    ASSERT_TRUE(write_file(path_, made.bytes()));
    ASSERT_EQ(::truncate(path_.c_str(), static_cast<off_t>(std::min(claim, uint64_t{1} << 33))), 0);  // a hole
    EXPECT_TRUE(find_probe_points(path_));
  }
  MadeElf crowded;
  crowded.header.e_phnum = crowded.header.e_shnum = UINT16_MAX;
  EXPECT_FALSE(read_as(crowded.bytes()).value_or(FileSymbols{}).of_interest());
  EXPECT_LT(monotonic_now_ns() - begun_ns, 5 * kNsPerSecond);
}

TEST_F(ElfSymbolsTest, ChangedCodeIsSeen) {
  MadeElf made;
  const auto symbols = read_as(made.bytes());
  ASSERT_TRUE(symbols);
  const UniqueFd fd(::open(path_.c_str(), O_RDWR));
  EXPECT_TRUE(has_same_code(fd.get(), *symbols));
  ASSERT_EQ(::pwrite(fd.get(), "x", 1, static_cast<off_t>(symbols->points[0].offset) + 3), 1);
  EXPECT_FALSE(has_same_code(fd.get(), *symbols));
}

TEST_F(ElfSymbolsTest, AnObjectsAddressInAProcess) {
  const MpiWorld world{.address = 0x9000, .segment_address = 0x2100, .segment_offset = 0x1100, .segment_bytes = 0x800};
  const auto mapped = [](uint64_t start, uint64_t bytes, uint64_t offset) {
    return MappedFile{.start = start, .end = start + bytes, .offset = offset};
  };
  EXPECT_EQ(world.address_in(mapped(0x7f0000001000, 0x1000, 0x1000)), 0x9000 + 0x7f0000001000 - 0x2000);
  EXPECT_EQ(world.address_in(mapped(0x7f0000001000, 0x1000, 0x3000)), 0U) << "another segment";
}

TEST(ElfSymbols, InterpretersOfThisHost) {
  for (const stacks::Interpreter& interpreter : stacks::interpreters()) {
    SCOPED_TRACE(interpreter.path);
    const auto output = run_and_capture(
        {.argv = {interpreter.path, "-c",
                  "import sysconfig as s; print(s.get_config_var('LIBDIR') + '/' + s.get_config_var('INSTSONAME'))"}},
        std::chrono::seconds(20));
    ASSERT_TRUE(output);
    const auto library = find_probe_points(std::string(trim(output->out)));
    const auto program = find_probe_points(interpreter.path);
    ASSERT_TRUE(program);
    const bool inside = !library || library->python.empty() || !program->python.empty();
    const FileSymbols& symbols = inside ? *program : *library;
    ASSERT_THAT(symbols.python, SizeIs(2));
    EXPECT_EQ(symbols.python[0].minor, interpreter.minor);
    EXPECT_EQ(symbols.python[0].function, static_cast<uint32_t>(ST_PYTHON_PRINTS));
    EXPECT_NE(symbols.python[0].offset, symbols.python[1].offset);
    EXPECT_TRUE(symbols.can_be_probed());
    EXPECT_FALSE(symbols.has_collectives);
  }
}

/// A truncated file gives an error, or at most the points of the whole file.
TEST_F(ElfSymbolsTest, ATruncatedFileNeverCrashes) {
  for (size_t size = 0; size < bytes_.size(); size += 61) {
    const auto symbols = read_as(bytes_.substr(0, size));
    if (symbols) {
      EXPECT_LE(symbols->points.size(), 2U) << size;
    }
  }
}

TEST_F(ElfSymbolsTest, AGarbledFileNeverCrashes) {
  std::mt19937 random(20261121);
  for (int round = 0; round < 500; ++round) {
    std::string garbled = bytes_;
    for (int i = 0; i < 40; ++i) {
      garbled[random() % garbled.size()] = static_cast<char>(random());
    }
    if (round % 2 == 0) {  // the header and what it points at
      garbled[16 + random() % 48] = static_cast<char>(random());
    }
    static_cast<void>(read_as(garbled));
  }
}

}  // namespace
}  // namespace stalltrace::capture
