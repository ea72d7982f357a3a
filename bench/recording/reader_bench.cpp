// SPDX-License-Identifier: Apache-2.0
// The gain of the page reader (store/btree/) over SQLite on the same file: N threads read ranges of the same
// collectives, through the pages, or each through a read-only connection of its own, with all columns or with only
// those that `explain` uses. Each case runs once per round, in turn.
//
//   bench_readers [ROWS] [ROUNDS] [FOLDER]      default: 1,000,000 rows, 7 rounds, the temporary folder
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <set>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "bench/must.h"
#include "store/read/batch.h"
#include "store/schema/open_recording.h"
#include "store/write/writer.h"

namespace stalltrace {
namespace {

constexpr int64_t kStart = 1'800'000'000LL * kNsPerSecond;
constexpr int64_t kRowsPerFlush = 5'000;  // the rows of a quarter of a second on a busy node
constexpr int64_t kRowsPerRead = 2'048;   // like store/read/reader's read-ahead

Collective collective(int64_t i) {
  Collective row;
  row.event_id = make_event_id(1, static_cast<uint64_t>(i) + 1);
  row.node_id = 1;
  row.timestamp_ns = kStart + i * 100 * kNsPerUs;
  row.duration_ns = 2 * kNsPerMs + i % 1000;
  row.launch_ns = 7'000 + i % 100;
  row.op = i % 3 == 0 ? Operation::kReduceScatter : Operation::kAllReduce;
  row.completion = i % 2 == 0 ? Completion::kSync : Completion::kNetwork;
  row.seq = i;
  row.rank = 3;
  row.rank_source = RankSource::kInit;
  row.nranks = 64;
  row.comm_id_hash = 0xfedcba9876543210;
  row.comm_ptr = 0x7f1234567890;
  row.pid = 4711;
  row.tid = 4712;
  row.cgroup_id = 1234;
  const int64_t count = 1 << (10 + i % 10);
  row.count = count;
  row.datatype = 7;
  row.bytes = count * 4;
  row.reduce_op = 0;
  row.stream = 0x55d0c0ffee;
  row.return_code = 0;
  row.stack_id = 0x1234567;
  return row;
}

/// The columns of a collective that `explain` uses; the narrow case reads the others as NULL.
const std::set<std::string, std::less<>> kUsed{
    "event_id", "node_id", "timestamp_ns", "duration_ns",  "launch_ns",   "library",  "op",      "completion",
    "seq",      "rank",    "nranks",       "comm_id_hash", "comm_ptr",    "pid",      "tid",     "count",
    "datatype", "bytes",   "root",         "peer",         "return_code", "stack_id", "group_id"};

enum class Way { kPages, kSql, kSqlNarrow };

/// One thread reads the ids [first, end); returns a sum that depends on every row.
int64_t read_range(const std::string& path, Way way, int64_t first, int64_t end) {
  store::Database db = must(store::open_for_reading(path));
  store::TableHandle table;
  table.path = path;
  table.open = [&db]() -> Result<store::OpenFiles::Use> { return store::OpenFiles::Use(db); };
  std::vector<std::string> columns = store::column_names<Collective>();
  if (way == Way::kPages) {
    table.pages =
        must(store::find_btree_table(db, EventTraits<Collective>::kTable, store::kIdColumn<Collective>, columns)).table;
    if (table.pages == nullptr) {
      die(Error{.what = "the file is not plain enough for the page reader"});
    }
  }
  if (way == Way::kSqlNarrow) {
    for (std::string& column : columns) {
      column = kUsed.contains(column) ? column : "no_such_column";  // select_sql turns it into NULL
    }
  }
  const std::string sql = must(store::select_sql(db, EventTraits<Collective>::kTable, columns));
  table.sql = fmt::format("{0} AND {1} >= ? AND {1} < ?", sql, store::kIdColumn<Collective>);
  store::Batch<Collective> batch(table, store::NodeRun{.id_in_file = 1, .unified_id = 1}, TimeRange{});
  int64_t sum = 0;
  for (int64_t id = first; id < end; id += kRowsPerRead) {
    const store::RowGroup group{.first_id = id, .end_id = std::min(id + kRowsPerRead, end), .later_min_ns = 0};
    must(batch.read(std::span(&group, 1)));
    for (const store::Timed<Collective>& timed : batch.rows()) {
      sum += timed.row->seq.value_or(0) + static_cast<int64_t>(timed.row->bytes);
    }
  }
  return sum;
}

double seconds_of(const std::string& path, Way way, int64_t rows, size_t threads, int64_t& sum) {
  const auto begun = std::chrono::steady_clock::now();
  std::vector<int64_t> sums(threads);
  {
    std::vector<std::jthread> readers;
    const int64_t first = make_event_id(1, 1);
    for (size_t i = 0; i < threads; ++i) {
      const int64_t from = first + rows * static_cast<int64_t>(i) / static_cast<int64_t>(threads);
      const int64_t to = first + rows * static_cast<int64_t>(i + 1) / static_cast<int64_t>(threads);
      readers.emplace_back([&, i, from, to] { sums[i] = read_range(path, way, from, to); });
    }
  }
  sum = 0;
  for (const int64_t one : sums) {
    sum += one;
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

std::string range_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return fmt::format("{:.2f} ({:.2f} to {:.2f})", values[values.size() / 2], values.front(), values.back());
}

void compare(const std::string& path, int64_t rows, int rounds) {
  for (const size_t threads : {1U, 2U}) {
    std::vector<double> pages, sql_ratio, narrow_ratio;
    for (int round = 0; round < rounds; ++round) {
      int64_t of_pages = 0, of_sql = 0, of_narrow = 0;
      const double page_s = seconds_of(path, Way::kPages, rows, threads, of_pages);
      const double sql_s = seconds_of(path, Way::kSql, rows, threads, of_sql);
      const double narrow_s = seconds_of(path, Way::kSqlNarrow, rows, threads, of_narrow);
      if (of_pages != of_sql || of_pages != of_narrow) {
        die(Error{.what = "the readers read different rows"});
      }
      pages.push_back(page_s * 1e9 / static_cast<double>(rows));
      sql_ratio.push_back(sql_s / page_s);
      narrow_ratio.push_back(narrow_s / page_s);
    }
    fmt::print("{} threads: pages {} ns a row; SQL takes {} times as long, with the used columns alone {}\n", threads,
               range_of(pages), range_of(sql_ratio), range_of(narrow_ratio));
  }
}

}  // namespace
}  // namespace stalltrace

int main(int argc, char** argv) {
  using namespace stalltrace;
  const int64_t rows = argc > 1 ? std::atoll(argv[1]) : 1'000'000;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 7;
  const std::filesystem::path parent = argc > 3 ? argv[3] : std::filesystem::temp_directory_path().string();
  if (rows < 10'000 || rounds < 1) {
    fmt::print(stderr, "usage: bench_readers [ROWS >= 10000] [ROUNDS >= 1] [FOLDER]\n");
    return 2;
  }
  const std::filesystem::path folder = parent / fmt::format("stalltrace-bench-{}", ::getpid());
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "calls.db").string();
  {
    const auto writer = must(store::RecordingWriter::create(path));
    writer->accept(Node{.node_id = 1, .name = "node1"});
    for (int64_t i = 0; i < rows; ++i) {
      writer->accept(collective(i));
      if (i % kRowsPerFlush == kRowsPerFlush - 1) {
        must(writer->flush());
      }
    }
    must(writer->close());
  }
  compare(path, rows, rounds);
  std::filesystem::remove_all(folder);
  return 0;
}
