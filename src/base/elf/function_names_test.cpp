// SPDX-License-Identifier: Apache-2.0
#include "base/elf/function_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "base/clock.h"
#include "base/elf/elf_file.h"
#include "base/elf/testing/small_elf.h"

namespace stalltrace {
namespace {

using testing::SizeIs;
using testing::StartsWith;

TEST(FunctionNames, OnlyWhatASymbolCovers) {
  const auto locations = SmallElf("train").look({0xff, 0x100, 0x10f, 0x110, 0x2000});
  EXPECT_FALSE(locations[0]);
  ASSERT_TRUE(locations[1] && locations[2]);
  EXPECT_EQ(locations[1]->function, "train");
  EXPECT_EQ(locations[2]->into, 0xfU);
  EXPECT_FALSE(locations[3]);
  EXPECT_FALSE(locations[4]);
  SmallElf sizeless("train");
  sizeless.symbol.st_size = 0;
  EXPECT_FALSE(sizeless.look({0x100})[0]) << "it would cover all that follows";
}

TEST(FunctionNames, HostileFilesCostLittleAndNothingBreaks) {
  const SmallElf whole("train");
  for (size_t bytes = 1; bytes < sizeof whole; ++bytes) {
    EXPECT_THAT(whole.look({0x100}, bytes), SizeIs(1));
  }
  const int64_t begun_ns = monotonic_now_ns();
  SmallElf endless("train");
  endless.sections[0].sh_size = UINT64_MAX;
  endless.sections[1].sh_offset = UINT64_MAX - 3;
  endless.symbol.st_name = UINT32_MAX;
  EXPECT_THAT(endless.look({0x100}), SizeIs(1));
  SmallElf tiny("train");
  tiny.sections[0].sh_entsize = 1;
  EXPECT_FALSE(tiny.look({0x100})[0]);
  SmallElf crowded("train");
  crowded.header.e_shnum = crowded.header.e_phnum = UINT16_MAX;
  EXPECT_FALSE(crowded.look({0x100})[0]);
  // Each parameter expands to twice the length of the one before.
  std::string doubling = "_Z1f1aIiiE";
  for (int i = 0; i < 60; ++i) {
    doubling += "S_IS" + std::to_string(i) + "_S" + std::to_string(i) + "_E";
  }
  EXPECT_THAT(SmallElf(doubling).look({0x100})[0]->function, StartsWith("_Z1f1aIiiES_IS0_S0_E"));
  EXPECT_LE(SmallElf(std::string(399, 'x')).look({0x100})[0]->function.size(), 170U);
  EXPECT_EQ(SmallElf("a\x1b[31m").look({0x100})[0]->function, "a?[31m");
  EXPECT_LT(monotonic_now_ns() - begun_ns, 5 * kNsPerSecond);
}

TEST(ElfFile, BuildIds) {
  const auto id_of = [](const SmallElf& file) {
    const UniqueFd fd = file.open();
    const auto elf = ElfFile::open(fd.get());
    return elf ? elf->build_id() : "?";
  };
  SmallElf file("train");
  EXPECT_EQ(id_of(file), "");
  file.add_build_id();
  EXPECT_EQ(id_of(file), "0123456789abcdef");
  SmallElf other = file;
  other.build.owner = {'X', 'Y', 'Z', 0};
  EXPECT_EQ(id_of(other), "");
  SmallElf endless = file;
  endless.build.note = {.n_namesz = 0, .n_descsz = 0, .n_type = 0};
  endless.note.p_filesz = UINT64_MAX;
  EXPECT_EQ(id_of(endless), "");
  SmallElf large = file;
  large.build.note.n_descsz = UINT32_MAX;
  EXPECT_EQ(id_of(large), "");
}

TEST(FunctionNames, AddressesOfAStrippedFile) {
  SmallElf file("train");
  file.add_build_id();
  const UniqueFd fd = file.open();
  const std::vector<uint64_t> offsets{0x100, 0x2000};
  const CodeAddresses code = code_addresses(fd.get(), offsets);
  EXPECT_EQ(code.build_id, "0123456789abcdef");
  EXPECT_EQ(code.addresses, (std::vector<uint64_t>{0x4100, 0}));
  const auto locations = functions_at_addresses(fd.get(), code.addresses);
  ASSERT_TRUE(locations[0]);
  EXPECT_EQ(locations[0]->function, "train");
  EXPECT_FALSE(locations[1]);
}

TEST(ElfFile, SymbolsAndSectionsByName) {
  SmallElf file("train");
  file.sections[1].sh_flags = SHF_ALLOC;
  file.sections[1].sh_addr = 0x7000;
  file.sections[1].sh_name = 6;
  file.header.e_shstrndx = 1;
  std::memcpy(file.strings.data() + 6, ".data", 5);
  const UniqueFd fd = file.open();
  const auto elf = ElfFile::open(fd.get());
  ASSERT_TRUE(elf);
  const std::array<std::string_view, 3> names{"trai", "train", "trains"};
  const auto values = elf->symbol_values(names);
  EXPECT_FALSE(values[0]);
  EXPECT_EQ(values[1], 0x4100U);
  EXPECT_FALSE(values[2]);
  EXPECT_EQ(elf->section_address(".data"), 0x7000U);
  EXPECT_FALSE(elf->section_address(".dat"));
  EXPECT_FALSE(elf->section_address(".data."));
}

TEST(ElfFile, ASegmentThatBeginsInsideAPageIsMappedFromThePagesBegin) {
  SmallElf file("train");
  file.segment.p_offset = 0x1234;
  file.segment.p_vaddr = 0x5234;
  const UniqueFd fd = file.open();
  const auto elf = ElfFile::open(fd.get());
  ASSERT_TRUE(elf);
  EXPECT_EQ(elf->load_bias(0x7f0000001000, 0x7f0000003000, 0x1000), 0x7f0000001000U - 0x5000U);
  EXPECT_EQ(elf->load_bias(0x5000, 0x7000, 0x1000), 0U) << "loaded where it was linked to";
  EXPECT_FALSE(elf->load_bias(0x7f0000001000, 0x7f0000003000, 0x3000));
  EXPECT_EQ(elf->code_address(0x1234), 0x5234U);
  EXPECT_FALSE(elf->code_address(0x1000));
}

TEST(ElfFile, SizesThatAreLies) {
  SmallElf file("train");
  file.sections[1].sh_size = 60U << 20;
  file.header.e_shstrndx = UINT16_MAX;
  const UniqueFd fd = file.open();
  const auto elf = ElfFile::open(fd.get());
  ASSERT_TRUE(elf);
  const std::array<std::string_view, 1> names{"train"};
  EXPECT_FALSE(elf->symbol_values(names)[0]);
  EXPECT_FALSE(elf->section_address(".data"));
  EXPECT_EQ(elf->text_at(UINT64_MAX, 8), "");
}

}  // namespace
}  // namespace stalltrace
