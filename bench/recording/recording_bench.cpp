// SPDX-License-Identifier: Apache-2.0
// The cost of a recording compared with bare SQLite on the same schema and rows, in pairs within one run:
//   writing: RecordingWriter against a loop of prepared inserts      budget: at least 80 % of its rate
//   merging: merge_recordings against INSERT ... SELECT              budget: at most 1.5 times its time
//   reading: collectives streamed in time order                      goal: 10 million in 2 s
//
//   bench_recording [ROWS] [PAIRS] [FOLDER]      default: 500,000 rows, 5 pairs, the temporary folder
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/clock.h"
#include "bench/must.h"
#include "store/merge.h"
#include "store/read/reader.h"
#include "store/schema/bind.h"
#include "store/schema/schema.h"
#include "store/schema/table.h"
#include "store/sqlite/open.h"
#include "store/write/writer.h"

namespace stalltrace {
namespace {

constexpr int64_t kRowsPerFlush = 5'000;  // the rows of a quarter of a second on a busy node
constexpr int kNodes = 4;
constexpr int64_t kStart = 1'800'000'000LL * kNsPerSecond;

double seconds_of(const auto& work) {
  const auto begun = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Collective collective(NodeId node, int64_t i) {
  Collective row;
  row.event_id = make_event_id(node, static_cast<uint64_t>(i) + 1);
  row.node_id = node;
  row.timestamp_ns = kStart + i * 100 * kNsPerUs;
  row.called_ns = row.timestamp_ns;
  row.duration_ns = 2 * kNsPerMs + i % 1000;
  row.launch_ns = 7'000;
  row.completion = Completion::kSync;
  row.seq = i;
  row.rank = 3;
  row.rank_source = RankSource::kInit;
  row.nranks = 64;
  row.comm_id_hash = 0xfedcba9876543210;
  row.comm_ptr = 0x7f1234567890;
  row.pid = 4711;
  row.tid = 4712;
  row.cgroup_id = 1234;
  row.count = 1 << 20;
  row.datatype = 7;
  row.bytes = 4 << 20;
  row.reduce_op = 0;
  row.stream = 0x55d0c0ffee;
  row.return_code = 0;
  return row;
}

TcpSample sample(NodeId node, int64_t i) {
  TcpSample row;
  row.node_id = node;
  row.timestamp_ns = kStart + i * 100 * kNsPerUs;
  row.cookie = 5;
  row.pid = 4711;
  row.srtt_us = 120;
  row.cwnd = 10;
  row.mss = 1448;
  row.bytes_acked = static_cast<uint64_t>(i) * 65'536;
  row.bytes_received = static_cast<uint64_t>(i) * 65'536;
  row.busy_ns = static_cast<uint64_t>(i) * 1000;
  row.tcp_state = 1;
  return row;
}

/// Writes the same rows with the same schema by bare SQLite: insert statements, one transaction for as many rows.
void write_bare(const std::string& path, int64_t rows) {
  store::Database db = must(store::Database::open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
  must(store::migrate(db));
  must(db.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL"));
  store::Statement insert_collective = must(db.prepare(store::insert_sql<Collective>()));
  store::Statement insert_sample = must(db.prepare(store::insert_sql<TcpSample>()));
  for (int64_t i = 0; i < rows / 2; ++i) {
    if (i % (kRowsPerFlush / 2) == 0) {
      must(db.execute("BEGIN"));
    }
    const Collective call = collective(1, i);
    store::each_column(call, store::Binder(insert_collective.get(), 1));
    insert_collective.step();
    insert_collective.reset();
    insert_sample.bind(1, make_event_id(1, static_cast<uint64_t>(i) + 1));
    const TcpSample state = sample(1, i);
    store::each_column(state, store::Binder(insert_sample.get(), 2));
    insert_sample.step();
    insert_sample.reset();
    if (i % (kRowsPerFlush / 2) == kRowsPerFlush / 2 - 1 || i + 1 == rows / 2) {
      must(db.execute("COMMIT"));
    }
  }
  insert_collective = store::Statement();
  insert_sample = store::Statement();
  must(db.execute("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE"));
}

/// Writes as the tracer does: accept, and flush after as many rows.
void write_recording(const std::string& path, NodeId node, int64_t rows) {
  const auto writer = must(store::RecordingWriter::create(path));
  Node run;
  run.node_id = node;
  run.name = fmt::format("node{}", node);
  writer->accept(run);
  for (int64_t i = 0; i < rows / 2; ++i) {
    writer->accept(collective(node, i));
    writer->accept(sample(node, i));
    if (i % (kRowsPerFlush / 2) == kRowsPerFlush / 2 - 1) {
      must(writer->flush());
    }
  }
  must(writer->close());
}

void merge_bare(const std::vector<std::string>& inputs, const std::string& output) {
  store::Database db =
      must(store::Database::open(output, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI));
  must(db.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536"));
  must(store::migrate(db));
  for (const std::string& input : inputs) {
    must(db.execute(fmt::format("ATTACH {} AS input; BEGIN", store::quote_text(input))));
    for (const char* table : {"collective", "tcp_sample", "node", "segment"}) {
      must(db.execute(fmt::format("INSERT INTO main.{0} SELECT * FROM input.{0}", table)));
    }
    must(db.execute("COMMIT; DETACH input"));
  }
}

class Bench {
 public:
  Bench(int64_t rows, int pairs, std::filesystem::path folder)
      : rows_(rows), pairs_(pairs), folder_(std::move(folder)) {}

  bool writing() {
    std::vector<double> ratios;
    for (int pair = 0; pair < pairs_; ++pair) {
      const double bare = seconds_of([&] { write_bare(fresh("bare.db"), rows_); });
      const double ours = seconds_of([&] { write_recording(fresh("ours.db"), 1, rows_); });
      ratios.push_back(bare / ours);
      fmt::print("writing: bare inserts {:9.0f} rows/s, recording {:9.0f} rows/s, ratio {:.2f}\n", rate(bare),
                 rate(ours), bare / ours);
    }
    const auto bytes = std::filesystem::file_size(folder_ / "ours.db");
    fmt::print("writing: median ratio {:.2f} (budget: at least 0.80), {} bytes a row\n", median(ratios),
               bytes / static_cast<uintmax_t>(rows_));
    return median(ratios) >= 0.8;
  }

  bool merging() {
    std::vector<std::string> inputs;
    for (int node = 1; node <= kNodes; ++node) {
      inputs.push_back(fresh(fmt::format("node{}.db", node)));
      write_recording(inputs.back(), static_cast<NodeId>(node), rows_ / kNodes);
    }
    std::vector<double> ratios;
    for (int pair = 0; pair < pairs_; ++pair) {
      const double bare = seconds_of([&] { merge_bare(inputs, fresh("bare.db")); });
      const double ours = seconds_of([&] { must(store::merge_recordings(inputs, fresh("merged.db"))); });
      ratios.push_back(ours / bare);
      fmt::print("merging: bare INSERT ... SELECT {:.3f} s, merge {:.3f} s, ratio {:.2f}\n", bare, ours, ours / bare);
    }
    fmt::print("merging: median ratio {:.2f} (budget: at most 1.50)\n", median(ratios));
    return median(ratios) <= 1.5;
  }

  /// Informative only: explain's budget includes reading.
  void reading() {
    for (const char* name : {"ours.db", "merged.db"}) {
      std::vector<double> times;
      int64_t count = 0;
      for (int pair = 0; pair < pairs_; ++pair) {
        count = 0;
        times.push_back(seconds_of([&] {
          const auto source = must(store::open_recording((folder_ / name).string()));
          must(source->collectives({}, [&](const Collective&) { ++count; }));
        }));
      }
      fmt::print("reading: {} collectives of {} in {:.3f} s, {:.2f} s for 10 million (goal: 2)\n", count, name,
                 median(times), median(times) * 1e7 / static_cast<double>(count));
    }
  }

 private:
  [[nodiscard]] double rate(double seconds) const { return static_cast<double>(rows_) / seconds; }

  std::string fresh(const std::string& name) {
    for (const char* suffix : {"", "-wal", "-shm"}) {
      std::filesystem::remove(folder_ / (name + suffix));
    }
    return (folder_ / name).string();
  }

  int64_t rows_;
  int pairs_;
  std::filesystem::path folder_;
};

}  // namespace
}  // namespace stalltrace

int main(int argc, char** argv) {
  const int64_t rows = argc > 1 ? std::atoll(argv[1]) : 500'000;
  const int pairs = argc > 2 ? std::atoi(argv[2]) : 5;
  const std::filesystem::path parent = argc > 3 ? argv[3] : std::filesystem::temp_directory_path().string();
  if (rows < 10'000 || pairs < 1) {
    fmt::print(stderr, "usage: bench_recording [ROWS >= 10000] [PAIRS >= 1] [FOLDER]\n");
    return 2;
  }
  const std::filesystem::path folder = parent / fmt::format("stalltrace-bench-{}", ::getpid());
  std::filesystem::create_directories(folder);
  stalltrace::Bench bench(rows, pairs, folder);
  const bool wrote = bench.writing();
  const bool merged = bench.merging();
  bench.reading();
  std::filesystem::remove_all(folder);
  return wrote && merged ? 0 : 1;
}
