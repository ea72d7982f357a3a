// SPDX-License-Identifier: Apache-2.0
#include "serve/recordings.h"

#include <gmock/gmock.h>

#include "serve/testing/job_file.h"
#include "tests/support/golden_text.h"

namespace stalltrace::serve {
namespace {

using namespace analysis::small_job;
using testing::HasSubstr;

TEST(RecordingFiles, WorkIsKeptUntilTheFileChanges) {
  MemorySource source;
  fill(source, {});
  const store::TemporaryFolder folder;
  write_recording(folder / "a.db", source);
  const auto recordings = recordings_in_files({folder / "a.db"});
  const auto first = store::must(recordings->snapshot());
  const auto report = store::must(first->report());
  EXPECT_EQ(store::must(recordings->snapshot()), first);
  EXPECT_EQ(store::must(first->report()), report);
  EXPECT_NE(store::must(recordings->snapshot("a.db")), first);
  std::filesystem::remove(folder / "a.db");
  fill(source, hang());
  write_recording(folder / "a.db", source);
  EXPECT_NE(store::must(recordings->snapshot()), first);
}

TEST(RecordingFiles, ARecordingThatIsWrittenShowsItsNewestRows) {
  const store::TemporaryFolder folder;
  const std::string path = folder / "a.db";
  const auto writer = store::must(store::RecordingWriter::create(path));
  const auto write = [&](int64_t from, int64_t to) {
    for (int64_t step = from; step < to; ++step) {
      for (int rank = 0; rank < kRanks; ++rank) {
        writer->accept(call_of(rank, step));
      }
    }
    store::must(writer->flush());
  };
  MemorySource job;
  describe(job, {});
  const std::vector<Node> nodes = store::must(job.nodes());
  for (const Node& node : nodes) {
    writer->accept(node);
  }
  write(0, 30);
  const auto recordings = recordings_in_files({path});
  EXPECT_TRUE(recordings->list().at(0).being_written);
  EXPECT_EQ(store::must(store::must(recordings->snapshot())->report())->collectives, 30 * kRanks);
  const std::weak_ptr<Snapshot> answered = store::must(recordings->snapshot());
  EXPECT_TRUE(answered.expired()) << "a connection that is kept lets the writer not finish the file";
  write(30, 50);
  EXPECT_EQ(store::must(store::must(recordings->snapshot())->report())->collectives, 50 * kRanks);
  store::must(writer->close());
  EXPECT_FALSE(recordings->list().at(0).being_written);
  EXPECT_EQ(store::must(store::must(recordings->snapshot())->report())->collectives, 50 * kRanks);
}

TEST(RecordingFiles, NamesAreUnique) {
  const auto recordings = recordings_in_files({"/x/a.db", "/y/a.db", "/y/b.db"});
  const auto infos = recordings->list();
  EXPECT_EQ(infos[0].name, "/x/a.db");
  EXPECT_EQ(infos[1].name, "/y/a.db");
  EXPECT_EQ(infos[2].name, "b.db");
  golden::expect_text(infos[2].problem->what);
  EXPECT_FALSE(recordings->snapshot().has_value());
  EXPECT_FALSE(recordings->snapshot("a.db").has_value());
}

}  // namespace
}  // namespace stalltrace::serve
