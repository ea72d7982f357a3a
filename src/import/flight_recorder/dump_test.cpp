// SPDX-License-Identifier: Apache-2.0
// Dumps as pickle and JSON; pickles are written byte by byte, after CPython's pickletools and PyTorch's pickler.
#include "import/flight_recorder/dump.h"

#include <gtest/gtest.h>

#include "import/flight_recorder/pickle.h"
#include "import/json.h"
#include "import/testing/evidence_files.h"
#include "model/events/imported_evidence.h"
#include "tests/support/golden_text.h"

namespace stalltrace::import {
namespace {

using namespace std::string_literals;

std::string text(std::string_view value) {
  return "X"s + static_cast<char>(value.size()) + "\0\0\0"s + std::string(value);
}

std::string refusal(const std::string& bytes) {
  ValueTree tree;
  const Result<ValueIndex> top = read_pickle(bytes, tree);
  return top ? "" : top.error().what;
}

TEST(Pickle, ReadsDataOfEachKind) {
  ValueTree tree;
  const std::string bytes = "\x80\x02}q\x00("s + text("a") + "K\x05"s + text("b") + "M\x01\x02"s + text("c") +
                            "J\xff\xff\xff\xff"s + text("d") + "\x8a\x08\0\0\0\0\0\0\0\x40"s + text("e") +
                            "G\x40\x09\x21\xfb\x54\x44\x2d\x18"s + text("f") + "\x88"s + text("g") + "N"s + text("h") +
                            "](K\x01K\x02"s + "e"s + text("i") + text("x") + text("y") + "\x86q\x01"s + text("j") +
                            "h\x01"s + "u."s;
  const Result<ValueIndex> top = read_pickle(bytes, tree);
  ASSERT_TRUE(top) << top.error().what;
  const auto number = [&](std::string_view key) { return tree.integer(tree.find(*top, key)); };
  EXPECT_EQ(number("a"), 5);
  EXPECT_EQ(number("b"), 0x201);
  EXPECT_EQ(number("c"), -1);
  EXPECT_EQ(number("d"), 0x4000000000000000);
  EXPECT_EQ(number("e"), 3);  // of a real number, its whole part
  EXPECT_EQ(number("f"), 1);
  EXPECT_EQ(number("g"), std::nullopt);
  EXPECT_EQ(tree.items(tree.find(*top, "h")).size(), 2U);
  EXPECT_EQ(tree.text(tree.items(tree.find(*top, "i"))[1]), "y");
  EXPECT_EQ(tree.find(*top, "i"), tree.find(*top, "j"));  // by its memo
}

TEST(Pickle, ReadsPyTorchsTypedListsAndRunsNothing) {
  ValueTree tree;
  const std::string list = "](K\x01K\x02"s + "e"s;
  const auto top = read_pickle("\x80\x02"s + "ctorch.jit._pickle\nbuild_intlist\n" + list + "\x85R."s, tree);
  ASSERT_TRUE(top);
  EXPECT_EQ(tree.items(*top).size(), 2U);
  golden::expect_text(refusal("\x80\x02"s + "cos\nsystem\n"s + text("id") + "\x85R."s));
  EXPECT_NE(
      refusal("\x80\x04"s + text("builtins") + text("eval") + "\x93"s + text("1") + "\x85R."s).find("builtins.eval"),
      std::string::npos);
  golden::expect_text(refusal("\x80\x02"s + list + list + "\x85R."s));
  EXPECT_NE(refusal("\x80\x02}}b."s).find("opcode 0x62"), std::string::npos);  // BUILD
}

TEST(Pickle, ADamagedOneIsRefusedWithItsOffset) {
  golden::expect_text(refusal("\x80\x02}"));
  golden::expect_text(refusal("\x80\x02X\xff\xff\xff\xffhello"s));
  golden::expect_text(refusal("\x80\x02h\x07."s));
  golden::expect_text(refusal("\x80\x02u."s));
  golden::expect_text(refusal("\x80\x02(K\x01u."s));
  golden::expect_text(refusal("\x80\x02"s + "a."s));
  golden::expect_text(refusal("\x80\x02."s));
  golden::expect_text(refusal("\x80\x09."s));
  golden::expect_text(refusal(""));
  golden::expect_text(refusal("\x80\x02"s + std::string(3U << 20, ']')));
}

TEST(Pickle, AListThatHoldsItselfIsHarmless) {
  const auto dump =
      read_dump("\x80\x02}q\x00("s + text("entries") + "]q\x01h\x01"s + "a"s + text("version") + text("2.4") + "u."s);
  ASSERT_TRUE(dump) << dump.error().what;
  EXPECT_TRUE(dump->entries.empty());
}

TEST(Json, ReadsAndRefuses) {
  ValueTree tree;
  const auto top = read_json(R"( {"a": [1, -2.5e1, true, null, "x\ny\u0041"], "b": {}} )", tree);
  ASSERT_TRUE(top) << top.error().what;
  const auto& items = tree.items(tree.find(*top, "a"));
  ASSERT_EQ(items.size(), 5U);
  EXPECT_EQ(tree.integer(items[1]), -25);
  EXPECT_EQ(tree.text(items[4]), "x\nyA");
  for (const std::string_view bad : {"{", "[1,", "{\"a\" 1}", "\"x", "\"\\", "{\"a\":}", "[1] 2", "nul", ""}) {
    EXPECT_FALSE(read_json(bad, tree)) << bad;
  }
  EXPECT_FALSE(read_json(std::string(100'000, '['), tree));
}

/// An entry as PyTorch 2.4 to 2.9 write it.
std::string entry(int number, std::string_view state, std::string_view more = "") {
  return fmt::format(
      R"({{"record_id":{0},"pg_id":0,"process_group":["0","default_pg"],"collective_seq_id":{0},"p2p_seq_id":0,"op_id":{0},)"
      R"("profiling_name":"nccl:all_reduce","time_created_ns":{1},"input_sizes":[[4,5]],"input_dtypes":["Float"],)"
      R"("state":"{2}","time_discovered_started_ns":{1},"time_discovered_completed_ns":{3},"retired":false,)"
      R"("timeout_ms":600000,"is_p2p":false{4}}})",
      number, 1'777'975'200'000'000'000 + number * 1000LL, state,
      state == "completed" ? 1'777'975'200'000'000'000 + number * 1000LL + 500 : 0, more);
}
std::string dump_of(std::string_view entries, std::string_view version = "2.4") {
  return fmt::format(
      R"({{"version":"{}","pg_config":{{"0":{{"name":"0","desc":"default_pg","ranks":"[4, 5, 6]"}}}},"entries":[{}]}})",
      version, entries);
}

TEST(Dump, ReadsEntries) {
  const auto dump = read_dump(dump_of(entry(1, "completed") + "," + entry(2, "scheduled")));
  ASSERT_TRUE(dump) << dump.error().what;
  EXPECT_EQ(dump->version, "2.4");
  EXPECT_EQ(dump->groups.at("0"), (std::vector<int32_t>{4, 5, 6}));
  ASSERT_EQ(dump->entries.size(), 2U);
  EXPECT_EQ(dump->entries[0].op, Operation::kAllReduce);
  EXPECT_EQ(dump->entries[0].number, 1);
  EXPECT_EQ(dump->entries[0].count, 20);
  EXPECT_EQ(dump->entries[0].datatype, 7);
  EXPECT_EQ(dump->entries[0].state, DumpEntry::State::kCompleted);
  EXPECT_EQ(dump->entries[1].completed_ns, std::nullopt);  // JSON writes 0
  EXPECT_FALSE(read_dump("{\"a\": 1}"));
  EXPECT_FALSE(read_dump("[1]"));
  EXPECT_TRUE(read_dump("{\"version\": \"2.1\"}"));  // JSON leaves out empty entries
}

TEST(Dump, OlderVersionsCallTheNumberOtherwise) {
  std::string old = entry(7, "started");
  old.replace(old.find("collective_seq_id"), 17, "seq_id");
  EXPECT_EQ(read_dump(dump_of(old, "1.5"))->entries.at(0).number, 7);
}

TEST(Dump, StacksAreKeptOnce) {
  const auto frames = [](int line) {
    return fmt::format(
        R"(,"frames":[{{"name":"step","filename":"/home/u/train.py","line":{}}},{{"name":"main","line":-1}}])", line);
  };
  const auto dump = read_dump(dump_of(entry(1, "completed", frames(88)) + "," + entry(2, "completed", frames(89)) +
                                      "," + entry(3, "completed") + "," + entry(4, "started", frames(88))));
  ASSERT_TRUE(dump) << dump.error().what;
  ASSERT_EQ(dump->stacks.size(), 2U);
  ASSERT_EQ(dump->entries.size(), 4U);
  EXPECT_EQ(dump->entries[0].stack, dump->entries[3].stack);
  EXPECT_NE(dump->entries[0].stack, dump->entries[1].stack);
  EXPECT_FALSE(dump->entries[2].stack);
  const std::vector<PythonFrame>& stack = dump->stacks.at(dump->entries[1].stack.value());
  ASSERT_EQ(stack.size(), 2U);
  EXPECT_EQ(stack[0], (PythonFrame{.function = "step", .file = "/home/u/train.py", .line = 89}));
  EXPECT_EQ(stack[1], (PythonFrame{.function = "main", .file = "", .line = {}}));
}

TEST(Dump, AMemoDoesNotMultiplyItsSize) {
  const std::string file = std::string("X\xc8\0\0\0", 5) + std::string(200, 'f');
  std::string bytes = "\x80\x02}("s + text("version") + text("2.4") + text("entries") + "]("s + "}("s + text("frames") +
                      "]("s + "}("s + text("filename") + file + "uq\x01"s;
  for (int i = 1; i < 64; ++i) {
    bytes += "h\x01"s;
  }
  bytes += "euq\x02"s;
  for (int i = 1; i < 400'000; ++i) {
    bytes += "h\x02"s;
  }
  const auto dump = read_dump(bytes + "eu."s);
  ASSERT_TRUE(dump) << dump.error().what;
  EXPECT_EQ(dump->entries.size(), 100'000U);
  EXPECT_EQ(dump->entries_left, 300'000U);
  EXPECT_EQ(dump->stacks_left, 0U);
  ASSERT_EQ(dump->stacks.size(), 1U);
  EXPECT_EQ(dump->stacks[0].size(), 64U);
  EXPECT_EQ(dump->entries.front().stack, 0U);
}

TEST(Dump, OfStacksThatDifferTheNewestAreKept) {
  std::string bytes = "\x80\x02}("s + text("version") + text("2.4") + text("entries") + "]("s;
  for (const char memo : {'\x01', '\x02'}) {  // two frames, which are no entries
    bytes += "}("s + text("filename") + std::string("X\xff\x01\0\0", 5) + std::string(511, 'f') + text("line") + "K"s +
             memo + "uq"s + memo + "0"s;
  }
  constexpr int kEntries = 10'000;
  for (int i = 0; i < kEntries; ++i) {
    bytes += "}"s + text("frames") + "]("s;
    for (int bit = 0; bit < 64; ++bit) {  // each number is another order of the two
      bytes += "h"s + ((i >> (bit % 32)) % 2 == 0 ? '\x01' : '\x02');
    }
    bytes += "es"s;
  }
  const auto dump = read_dump(bytes + "eu."s);
  ASSERT_TRUE(dump) << dump.error().what;
  ASSERT_EQ(dump->entries.size(), size_t{kEntries});
  EXPECT_GT(dump->stacks.size(), 1000U);
  EXPECT_EQ(dump->stacks.size() + dump->stacks_left, size_t{kEntries});
  EXPECT_GT(dump->stacks_left, 5000U);
  EXPECT_TRUE(dump->entries.back().stack);
  EXPECT_FALSE(dump->entries.front().stack);
}

TEST(Dump, AGroupOfWhichOnlyANumberIsKnownJoinsNoOther) {
  EvidenceFolder folder;
  MemorySource source;
  std::string world = entry(1, "completed");
  const std::string_view group = R"("process_group":["0","default_pg"],)";
  world.erase(world.find(group), group.size());
  std::string part = world;
  part.replace(part.find("\"pg_id\":0"), 9, "\"pg_id\":1");
  const std::string path = folder.write("t_rank_4", R"({"version":"1.5","entries":[)" + world + "," + part + "]}");
  ASSERT_TRUE(import_flight_recorder(std::vector{path}, source, [](const std::string&) {}));
  const std::vector<Collective> calls = calls_of(source);
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_NE(calls[0].comm_id_hash, 0U);
  EXPECT_EQ(calls[0].seq, 1);
  EXPECT_EQ(calls[1].comm_id_hash, 0U);
  EXPECT_EQ(calls[1].seq, std::nullopt);
}

TEST(Dump, RankOfAFile) {
  EXPECT_EQ(rank_of_dump("/tmp/nccl_trace_rank_12"), 12);
  EXPECT_EQ(rank_of_dump("/rank_9/comm_lib_trace_rank_3.json"), 3);
  EXPECT_EQ(rank_of_dump("/tmp/trace7"), 7);
  EXPECT_EQ(rank_of_dump("/tmp/trace"), std::nullopt);
  EXPECT_EQ(rank_of_dump("/tmp/trace_local_rank_3"), std::nullopt);
  EXPECT_EQ(rank_of_dump("3"), 3);
}

TEST(Dump, BecomesRows) {
  EvidenceFolder folder;
  MemorySource source;
  std::vector<std::string> notes;
  const std::string frames = R"(,"frames":[{"name":"step","filename":"/home/u/train.py","line":88}])";
  std::string send = entry(9, "started");
  send.replace(send.find("nccl:all_reduce"), 15, "nccl:send 0->1");
  const std::vector<std::string> paths{
      folder.write("nccl_trace_rank_5",
                   dump_of(entry(1, "completed", frames) + "," + entry(2, "started") + "," + send)),
      folder.write("nccl_trace_rank_6", "\x80\x02}X"),
  };
  const auto summary = import_flight_recorder(paths, source, [&](const std::string& note) { notes.push_back(note); });
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->files, 1U);
  ASSERT_EQ(notes.size(), 1U);
  golden::expect_text(notes[0], {{folder.path(), "FOLDER"}});
  const std::vector<Collective> calls = calls_of(source);
  ASSERT_EQ(calls.size(), 3U);
  EXPECT_EQ(calls[0].seq, 1);
  EXPECT_EQ(calls[0].rank, 1);  // in the group, of ranks 4, 5 and 6
  EXPECT_EQ(calls[0].nranks, 3);
  EXPECT_EQ(calls[0].completion, Completion::kSync);
  EXPECT_EQ(calls[0].duration_ns, 500);
  EXPECT_EQ(calls[1].completion, Completion::kOpen);
  EXPECT_EQ(calls[2].op, Operation::kSend);
  EXPECT_EQ(calls[2].seq, std::nullopt);
  const std::vector<Stack> stacks = source.stacks().value();
  ASSERT_EQ(stacks.size(), 1U);
  EXPECT_EQ(stacks[0].frames, "step (/home/u/train.py:88)");
  EXPECT_EQ(calls[0].stack_id, stacks[0].stack_id);
  EXPECT_EQ(source.processes().value().at(0).rank, 5);
  ASSERT_EQ(source.losses().value().size(), 1U);
  EXPECT_EQ(source.losses().value()[0].source, "dump:unreadable_file");
  EXPECT_EQ(source.nodes().value().size(), 2U);
  EXPECT_TRUE(lacks(source.nodes().value()[0], kLacksPids));
}

TEST(Dump, OfACoalescedGroupTheLastEntryCounts) {
  EvidenceFolder folder;
  MemorySource source;
  const auto summary = import_flight_recorder(
      std::vector{folder.write("t_rank_4", dump_of(entry(1, "scheduled") + "," + entry(1, "completed")))}, source,
      [](const std::string&) {});
  ASSERT_TRUE(summary);
  const std::vector<Collective> calls = calls_of(source);
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].seq, std::nullopt);
  EXPECT_EQ(calls[1].seq, 1);
  EXPECT_EQ(calls[1].completion, Completion::kSync);
}

}  // namespace
}  // namespace stalltrace::import
