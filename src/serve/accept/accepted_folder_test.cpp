// SPDX-License-Identifier: Apache-2.0
#include "serve/accept/accepted_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "serve/http/compressed_file.h"
#include "serve/json/json.h"
#include "store/testing/test_support.h"
#include "tests/support/golden_text.h"

namespace stalltrace::serve {
namespace {

using store::must;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kStartedNs = 1'800'000'000LL * 1'000'000'000;

class AcceptingFolder : public ::testing::Test {
 protected:
  void open(const AcceptLimits& limits = {}) { accepted_ = must(AcceptedFolder::open(path_, limits)); }

  /// A recording's file.
  std::string record(const std::string& node, int rows) {
    const std::string path = folder_ / "made.db";
    std::filesystem::remove(path);
    auto writer = must(store::RecordingWriter::create(path));
    writer->accept(store::node_row(3, node, kStartedNs));
    for (int i = 0; i < rows; ++i) {
      writer->accept(store::collective_row(3, static_cast<uint64_t>(i) + 1, 1'000 + i, 5));
    }
    must(writer->close());
    return path;
  }
  static std::string compressed(const std::string& path) {
    auto pieces = must(CompressedFile::open(UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC))));
    std::string all;
    for (std::string piece = must(pieces->next()); !piece.empty(); piece = must(pieces->next())) {
      all += piece;
    }
    return all;
  }
  static HttpRequest request(int64_t bytes) {
    return {.method = "POST", .path = "/v1/recordings", .headers = {{"stalltrace-bytes", fmt::format("{}", bytes)}}};
  }
  /// In pieces of 1000 bytes.
  HttpAnswer push(const std::string& body, int64_t bytes) {
    const Upload upload = accepted_->begin_recording(request(bytes));
    if (!upload.body) {
      return upload.refusal;
    }
    for (size_t i = 0; i < body.size(); i += 1000) {
      if (auto refused = upload.body->add(std::string_view(body).substr(i, 1000))) {
        return *refused;
      }
    }
    return upload.body->finish();
  }
  HttpAnswer push_file(const std::string& path) {
    return push(compressed(path), static_cast<int64_t>(store::bytes_of(path).size()));
  }
  /// Hidden ones too.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      all.push_back(entry.path().filename().string());
    }
    std::ranges::sort(all);
    return all;
  }

  store::TemporaryFolder folder_;
  std::string path_ = folder_ / "accepted";
  std::unique_ptr<AcceptedFolder> accepted_;
};

TEST_F(AcceptingFolder, ARecordingAppearsUnderTheNameOfItsNodeOnce) {
  open();
  const std::string path = record("node7", 100);
  for (const char* was_there : {"false", "true"}) {
    const HttpAnswer answer = push_file(path);
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.body, fmt::format(R"({{"name":"node7-20270115T080000Z.db","was_there":{}}})"
                                       "\n",
                                       was_there));
  }
  EXPECT_THAT(names(), ElementsAre("node7-20270115T080000Z.db"));
  EXPECT_TRUE(store::bytes_of(path_ + "/node7-20270115T080000Z.db") == store::bytes_of(path));
  struct stat status {};
  ASSERT_EQ(::stat((path_ + "/node7-20270115T080000Z.db").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  EXPECT_EQ(push_file(record("node7", 200)).status, 200);
  EXPECT_THAT(names(), ElementsAre("node7-20270115T080000Z-2.db", "node7-20270115T080000Z.db"));
}

TEST_F(AcceptingFolder, TheNameOfANodeIsNoPath) {
  open();
  EXPECT_EQ(push_file(record("../../etc/x y", 1)).status, 200);
  EXPECT_THAT(names(), ElementsAre("_._.._etc_x_y-20270115T080000Z.db"));
}

TEST_F(AcceptingFolder, WhatIsBrokenOffLeavesNothing) {
  open();
  const std::string path = record("node7", 1000);
  const std::string body = compressed(path);
  const auto bytes = static_cast<int64_t>(store::bytes_of(path).size());
  {
    const Upload upload = accepted_->begin_recording(request(bytes));
    ASSERT_TRUE(upload.body);
    EXPECT_FALSE(upload.body->add(std::string_view(body).substr(0, body.size() / 2)));
    EXPECT_EQ(names().size(), 1U);
  }
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_EQ(push(body.substr(0, body.size() - 1), bytes).status, 400);
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(AcceptingFolder, WhatIsNoRecordingIsNotTaken) {
  open();
  const std::string path = record("node7", 10);
  const std::string body = compressed(path);
  const auto bytes = static_cast<int64_t>(store::bytes_of(path).size());
  std::ofstream(folder_ / "text") << "no recording";
  std::ofstream(folder_ / "zeros") << std::string(100'000, '\0');
  EXPECT_EQ(push("plain", bytes).status, 400);
  EXPECT_EQ(push(body + "x", bytes).status, 400);
  EXPECT_EQ(push(body, bytes - 1).status, 400);
  EXPECT_EQ(push(body, bytes + 1).status, 400);
  EXPECT_EQ(push("", bytes).status, 400);
  EXPECT_EQ(push_file(folder_ / "text").status, 400);
  EXPECT_EQ(push_file(folder_ / "zeros").status, 400);
  must(must(store::Database::open(path, SQLITE_OPEN_READWRITE)).execute("CREATE VIEW more AS SELECT 1"));
  const HttpAnswer foreign = push_file(path);
  EXPECT_EQ(foreign.status, 400);
  golden::expect_text(foreign.body);
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(AcceptingFolder, SizesAreGivenAndBounded) {
  open({.most_file_bytes = 1 << 20, .most_bytes = 3 << 20});
  EXPECT_EQ(accepted_->begin_recording({.method = "POST", .path = "/v1/recordings"}).refusal.status, 400);
  for (const int64_t wrong : {int64_t{0}, int64_t{-1}}) {
    EXPECT_EQ(accepted_->begin_recording(request(wrong)).refusal.status, 400);
  }
  EXPECT_EQ(accepted_->begin_recording(request((1 << 20) + 1)).refusal.status, 413);
  EXPECT_EQ(accepted_->begin_recording(request(INT64_MAX)).refusal.status, 413);
  {
    const Upload first = accepted_->begin_recording(request(1 << 20));
    const Upload second = accepted_->begin_recording(request(1 << 20));
    EXPECT_TRUE(first.body && second.body);
    EXPECT_EQ(push_file(record("node7", 10)).status, 200);
    const Upload beyond = accepted_->begin_recording(request(1 << 20));
    EXPECT_FALSE(beyond.body);
    EXPECT_EQ(beyond.refusal.status, 507);
  }
  EXPECT_TRUE(accepted_->begin_recording(request(1 << 20)).body) << "what was broken off is free again";
  const std::string bomb = folder_ / "bomb";
  std::ofstream(bomb) << std::string(8 << 20, '\0');
  EXPECT_EQ(push(compressed(bomb), 1 << 20).status, 400);
  EXPECT_THAT(names(), ElementsAre("node7-20270115T080000Z.db"));
}

/// A limit on the size of files ends a write as a full disk does.
TEST_F(AcceptingFolder, AFullDiskIsTheServersFault) {
  open();
  const std::string path = record("node7", 5000);
  const std::string body = compressed(path);
  const auto bytes = static_cast<int64_t>(store::bytes_of(path).size());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const HttpAnswer answer = push(body, bytes);
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(answer.status, 507) << answer.body;
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_EQ(push(body, bytes).status, 200);
}

TEST_F(AcceptingFolder, NoOtherUserMayWriteToIt) {
  std::filesystem::create_directory(path_);
  std::filesystem::permissions(path_, std::filesystem::perms::all);
  EXPECT_FALSE(AcceptedFolder::open(path_, {}));
}

TEST_F(AcceptingFolder, WhatAKilledServerLeftIsRemoved) {
  std::filesystem::create_directory(path_);
  std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
  std::ofstream(path_ + "/.stalltrace-new-abcdefgh") << "half";
  open();
  EXPECT_THAT(names(), IsEmpty());
}

std::string finding(const std::string& node, int number) {
  return fmt::format(R"({{"node":"{}","started_ns":{},"number":{},"cause":"late_rank"}})"
                     "\n",
                     node, kStartedNs, number);
}

TEST_F(AcceptingFolder, FindingsOfAnAgentAreLinesOfAFile) {
  open();
  EXPECT_EQ(accepted_->add_findings(finding("node7", 1)).status, 200);
  const std::string more = finding("node7", 2) + finding("node7", 3);
  EXPECT_EQ(accepted_->add_findings(more).status, 200);
  EXPECT_EQ(accepted_->add_findings(more).status, 200) << "of a client that got no answer";
  EXPECT_EQ(accepted_->add_findings(finding("node8", 1)).status, 200);
  EXPECT_THAT(names(), ElementsAre("node7-20270115T080000Z.findings.jsonl", "node8-20270115T080000Z.findings.jsonl"));
  EXPECT_EQ(store::bytes_of(path_ + "/node7-20270115T080000Z.findings.jsonl"), finding("node7", 1) + more);
}

TEST_F(AcceptingFolder, ALineThatWasCutShortStaysAlone) {
  open();
  const std::string file = path_ + "/node7-20270115T080000Z.findings.jsonl";
  std::ofstream(file) << R"({"node":"no)";
  EXPECT_EQ(accepted_->add_findings(finding("node7", 1)).status, 200);
  EXPECT_EQ(store::bytes_of(file), "{\"node\":\"no\n" + finding("node7", 1));
}

TEST_F(AcceptingFolder, WhatAreNoFindingsIsNotTaken) {
  open({.most_finding_bytes = 1000});
  for (const std::string& wrong :
       {std::string(), std::string("\n"), std::string("x"), std::string("[]"), std::string("{}"),
        std::string(R"({"node":7,"started_ns":1})"), std::string(R"({"node":"a","started_ns":-1})"),
        std::string(R"({"node":"a","started_ns":"1"})"), std::string("{\"node\":\"\xff\",\"started_ns\":1}"),
        finding("node7", 1) + finding("node8", 1), std::string(100'000, '[')}) {
    EXPECT_EQ(accepted_->add_findings(wrong).status, 400) << wrong.substr(0, 100);
  }
  EXPECT_THAT(names(), IsEmpty());
  int status = 200;
  for (int i = 0; i < 100 && status == 200; ++i) {
    status = accepted_->add_findings(finding("node7", i)).status;
  }
  EXPECT_EQ(status, 413) << "a client that tried it again would do so for ever";
  EXPECT_LE(std::filesystem::file_size(path_ + "/node7-20270115T080000Z.findings.jsonl"), 1000U);
}

/// Each takes a block of the disk, however short it is.
TEST_F(AcceptingFolder, ManySmallFilesOfFindingsFillIt) {
  open({.most_bytes = 64 << 10});
  int taken = 0;
  while (taken < 100 && accepted_->add_findings(finding(fmt::format("node{}", taken), 1)).status == 200) {
    ++taken;
  }
  EXPECT_GE(taken, 8);
  EXPECT_LE(taken, 16);
  EXPECT_EQ(accepted_->add_findings(finding("another", 1)).status, 507);
}

TEST_F(AcceptingFolder, ARecordingWhoseNodesAreDamagedIsNotTaken) {
  open();
  const std::string path = record("node7", 10);
  int64_t page = 0;
  int64_t page_bytes = 0;
  {
    store::Database db = must(store::Database::open(path, SQLITE_OPEN_READWRITE));
    page = must(db.integer("SELECT rootpage FROM sqlite_schema WHERE name = 'node'"));
    page_bytes = must(db.integer("PRAGMA page_size"));
  }
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp((page - 1) * page_bytes);
  file << std::string(static_cast<size_t>(page_bytes), '\xff');
  file.close();
  EXPECT_EQ(push_file(path).status, 400);
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(AcceptingFolder, ALinkIsNoFileOfFindings) {
  open();
  std::filesystem::create_symlink(folder_ / "other", path_ + "/node7-20270115T080000Z.findings.jsonl");
  EXPECT_EQ(accepted_->add_findings(finding("node7", 1)).status, 507);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "other"));
}

}  // namespace
}  // namespace stalltrace::serve
