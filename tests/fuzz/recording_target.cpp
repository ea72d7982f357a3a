// SPDX-License-Identifier: Apache-2.0
// Fuzzes all readers of a recording. An input is a list of edits to a small valid recording: a value of a column in
// some rows, a declaration in its schema, or bytes of its pages. The result is explained, inspected, queried, exported,
// merged and asked about by the MCP server's tools, within limits of time and memory.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "analysis/explain.h"
#include "base/clock.h"
#include "base/text.h"
#include "export/encode/chrome_encoder.h"
#include "export/encode/perfetto_encoder.h"
#include "export/testing/decoded_trace.h"
#include "export/trace_export.h"
#include "report/inspection.h"
#include "report/query_format.h"
#include "report/report_json.h"
#include "report/report_text.h"
#include "store/merge.h"
#include "store/query.h"
#include "store/read/reader.h"
#include "store/sqlite/sqlite.h"
#include "store/write/writer.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/mcp_answers.h"
#include "tests/fuzz/rows.h"

using namespace stalltrace;
using fuzz::require;

namespace {

constexpr int64_t kStart = 1'769'827'620 * kNsPerSecond;
constexpr int kRanks = 4;
constexpr int kCalls = 40;
constexpr int kStalled = 25;
constexpr int64_t kMostNs = 8 * kNsPerSecond;  // per input, under sanitizers

NodeId node_of_rank(int rank) { return rank < kRanks / 2 ? 5 : 9; }

Collective call(int rank, int seq) {
  Collective row;
  row.node_id = node_of_rank(rank);
  row.event_id = make_event_id(row.node_id, static_cast<uint64_t>(seq * kRanks + rank + 1));
  row.timestamp_ns = kStart + seq * 40 * kNsPerMs + (seq > kStalled ? 3 * kNsPerSecond : 0);
  row.duration_ns = 10 * kNsPerMs + (seq == kStalled ? 3 * kNsPerSecond : 0);
  row.completion = Completion::kSync;
  if (seq + 1 == kCalls && rank == 0) {  // one call hangs
    row.duration_ns.reset();
    row.completion = Completion::kOpen;
  }
  row.seq = seq;
  row.rank = rank;
  row.nranks = kRanks;
  row.comm_id_hash = seq % 8 == 7 ? 0xbeef : 0x5eed;
  row.pid = row.tid = 100 + rank;
  row.count = 1 << 20;
  row.bytes = 4 << 20;
  row.stack_id = 3;
  return row;
}

template <typename T>
T must(Result<T> result) {
  require(result.has_value());
  return std::move(*result);
}

/// A second job, whose ranks do not meet: what its ranks were given, a port that refuses, an end, and an open set-up.
void record_set_up(store::RecordingWriter& writer) {
  for (int rank = 0; rank < 3; ++rank) {
    Process process{.node_id = 5, .pid = 200 + rank, .start_ns = kStart + kNsPerSecond, .exe = "/usr/bin/python3"};
    process.rank = rank;
    process.world_size = 3;
    process.rank_source = RankSource::kEnvironment;
    process.settings = fmt::format("MASTER_ADDR=10.0.0.1\nMASTER_PORT=2950{}\nWORLD_SIZE=3", rank);
    if (rank == 2) {
      process.exit_ns = kStart + 2 * kNsPerSecond;
      process.exit_code = 1;
    }
    writer.accept(process);
    for (int i = 0; i < 6; ++i) {
      TcpEvent event{.event_id = make_event_id(5, static_cast<uint64_t>(2000 + rank * 10 + i)), .node_id = 5};
      event.timestamp_ns = kStart + (1 + i) * kNsPerSecond;
      event.event = TcpEventKind::kConnectFailed;
      event.pid = 200 + rank;
      event.cookie = event.event_id;
      event.destination = {"10.0.0.1", static_cast<uint16_t>(29500 + rank)};
      event.state = 111;
      writer.accept(event);
    }
  }
  Collective set_up{.event_id = make_event_id(5, 3000), .node_id = 5, .timestamp_ns = kStart + kNsPerSecond};
  set_up.op = Operation::kCommInitRank;
  set_up.library = Library::kGloo;
  set_up.completion = Completion::kOpen;
  set_up.comm_id_hash = 0xbad;
  set_up.nranks = 3;
  set_up.pid = set_up.tid = 200;
  writer.accept(set_up);
}

/// Where each rank was in Python during the stall.
void record_samples(store::RecordingWriter& writer, int64_t stall_ns) {
  writer.accept(Stack{4, "load_batch (data.py:212)\ntrain (train.py:88)"});
  for (int rank = 0; rank < kRanks; ++rank) {
    PythonStack sample{.node_id = node_of_rank(rank), .timestamp_ns = stall_ns + kNsPerSecond, .duration_ns = kNsPerMs};
    sample.rank_pid = sample.pid = sample.tid = 100 + rank;
    sample.stack_id = 4;
    sample.activity = "reading FIFO /data/in";
    writer.accept(sample);
  }
}

void record(const std::string& path) {
  const auto writer = must(store::RecordingWriter::create(path));
  for (const NodeId id : {NodeId{5}, NodeId{9}}) {
    Node node{.node_id = id, .name = fmt::format("node{}", id), .boot_id = fmt::format("boot{}", id)};
    node.started_ns = kStart;
    writer->accept(node);
    writer->accept(Loss{id, "ring:tcp", 3});
  }
  writer->accept(Stack{3, "main\ntrain"});
  for (int rank = 0; rank < kRanks; ++rank) {
    const NodeId node = node_of_rank(rank);
    Process process{.node_id = node, .pid = 100 + rank, .start_ns = kStart, .exe = "/usr/bin/train"};
    process.rank = rank;
    process.world_size = kRanks;
    writer->accept(process);
    Communicator communicator{.node_id = node, .pid = 100 + rank, .comm_ptr = 0xc0, .comm_id_hash = 0x5eed};
    communicator.rank = rank;
    communicator.nranks = kRanks;
    communicator.created_ns = kStart;
    writer->accept(communicator);
    Connection connection{.node_id = node, .cookie = static_cast<uint64_t>(rank + 1), .pid = 100 + rank};
    connection.source = {fmt::format("10.0.0.{}", rank), 4000};
    connection.destination = {fmt::format("10.0.0.{}", (rank + 1) % kRanks), 5000};
    connection.opened_ns = kStart;
    connection.rank = rank;
    connection.peer_rank = (rank + 1) % kRanks;
    connection.comm_id_hash = 0x5eed;
    writer->accept(connection);
  }
  const int64_t stall_ns = call(0, kStalled).timestamp_ns;
  for (int seq = 0; seq < kCalls; ++seq) {
    for (int rank = 0; rank < kRanks; ++rank) {
      writer->accept(call(rank, seq));
    }
  }
  record_set_up(*writer);
  record_samples(*writer, stall_ns);
  for (int i = 0; i < 20; ++i) {
    const int64_t at = stall_ns + i * 100 * kNsPerMs;
    TcpEvent event{.event_id = make_event_id(5, static_cast<uint64_t>(1000 + i)), .node_id = 5, .timestamp_ns = at};
    event.pid = 101;
    event.cookie = 2;
    event.len = 1448;
    writer->accept(event);
    writer->accept(TcpSample{.node_id = 5, .timestamp_ns = at, .cookie = 2, .pid = 101, .total_retrans = 3});
    writer->accept(NetSpan{.node_id = 5, .timestamp_ns = at, .duration_ns = kNsPerMs, .cookie = 2, .pid = 101});
    writer->accept(
        WaitSpan{.node_id = 5, .timestamp_ns = at, .window_ns = 90 * kNsPerMs, .waited_ns = 80 * kNsPerMs, .pid = 100});
    writer->accept(HostSample{.node_id = 9, .timestamp_ns = at, .name = "cpu_user", .detail = "0", .value = 1.0 * i});
    writer->accept(ProxyStep{.node_id = 9,
                             .timestamp_ns = at,
                             .duration_ns = kNsPerMs,
                             .comm_id_hash = 0x5eed,
                             .pid = 102,
                             .network_wait_ns = kNsPerMs});
    writer->accept(PacketDrop{.node_id = 9, .timestamp_ns = at, .cookie = 3, .pid = 102, .reason = "NETFILTER_DROP"});
    writer->accept(PortCounter{.node_id = 9,
                               .timestamp_ns = at,
                               .device = "mlx5_0",
                               .port = 1,
                               .name = "symbol_error",
                               .value = static_cast<uint64_t>(i)});
  }
  require(writer->close().has_value());
  // Small pages give few bytes, and trees with several levels.
  auto db = must(store::Database::open(path, SQLITE_OPEN_READWRITE));
  require(db.execute("PRAGMA page_size = 512; VACUUM").has_value());
}

/// A valid recording, and a folder for files made from it.
class Workplace {
 public:
  Workplace() {
    char name[] = "/dev/shm/stalltrace-fuzz-XXXXXX";
    require(::mkdtemp(name) != nullptr);
    folder_ = name;
    record(path());
    std::ifstream file(path(), std::ios::binary);
    valid_.assign(std::istreambuf_iterator<char>(file), {});
    auto db = must(store::Database::open(path(), SQLITE_OPEN_READWRITE));
    auto select =
        must(db.prepare("SELECT m.name, t.name FROM sqlite_schema m, pragma_table_info(m.name) t"
                        " WHERE m.type = 'table' ORDER BY 1, 2"));
    while (select.step() == SQLITE_ROW) {
      columns_.emplace_back(select.text(0), select.text(1));
    }
  }
  ~Workplace() { std::filesystem::remove_all(folder_); }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  [[nodiscard]] std::string path() const { return folder_ + "/r.db"; }
  [[nodiscard]] std::string merged() const { return folder_ + "/m.db"; }
  [[nodiscard]] const std::string& valid() const { return valid_; }
  [[nodiscard]] const std::pair<std::string, std::string>& column(size_t at) const {
    return columns_[at % columns_.size()];
  }

 private:
  std::string folder_;
  std::string valid_;
  std::vector<std::pair<std::string, std::string>> columns_;
};

constexpr std::array kValues{"0",
                             "1",
                             "-1",
                             "2147483647",
                             "-2147483648",
                             "4294967296",
                             "1099511627776",
                             "4611686018427387904",
                             "9223372036854775807",
                             "-9223372036854775808",
                             "1e308",
                             "-1e308",
                             "9e999",
                             "NULL",
                             "''",
                             "'ALL_REDUCE'",
                             "'open'",
                             "'environment'",
                             "char(10) || 'MASTER_PORT=1' || char(10)",
                             "x'ff00'",
                             "'a' || char(27) || ']0;x' || char(7) || char(0x202e)",
                             "replace(hex(zeroblob(2000)), '0', 'y')"};
constexpr std::array kTests{"1", "abs(random()) % 2 = 0", "abs(random()) % 20 = 0",
                            "rowid = (SELECT max(rowid) FROM {0})"};
constexpr std::array kSchemaEdits{
    "CREATE VIEW v AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
    "CREATE TRIGGER t AFTER INSERT ON node BEGIN DELETE FROM node; END",
    "CREATE INDEX i ON collective(abs(seq))",
    "DROP TABLE stack",
    "DROP VIEW event_name",
    "PRAGMA user_version = 1"};

/// SQL edits come first, then edits of bytes.
void make(Workplace& call_site, const uint8_t* data, size_t size) {
  std::ofstream(call_site.path(), std::ios::binary | std::ios::trunc) << call_site.valid();
  std::vector<std::pair<uint64_t, uint8_t>> bytes;
  {
    auto db = must(store::Database::open(call_site.path(), SQLITE_OPEN_READWRITE));
    static_cast<void>(db.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA writable_schema = ON"));
    fuzz::Input input(data, size);
    for (int edits = 0; !input.empty() && edits < 64; ++edits) {
      const uint64_t kind = input.number(1);
      if (kind % 4 == 0) {
        const uint64_t at = input.number(3);
        bytes.emplace_back(at, static_cast<uint8_t>(input.number(1)));
      } else if (kind == 255) {
        static_cast<void>(db.execute(kSchemaEdits[input.number(1) % kSchemaEdits.size()]));
      } else {
        const auto& [table, column] = call_site.column(input.number(1));
        const uint64_t which = input.number(1);
        const std::string value = kind % 4 == 1   ? kValues[which % kValues.size()]
                                  : kind % 4 == 2 ? fmt::format("{}", static_cast<int64_t>(input.number(8)))
                                                  : fmt::format("{} * {} + {}", column, which % 5, input.number(2));
        const char* test = kTests[which / 32 % kTests.size()];
        static_cast<void>(db.execute(fmt::format("UPDATE OR IGNORE {} SET {} = {} WHERE {}", table, column, value,
                                                 fmt::format(fmt::runtime(test), table))));
      }
    }
  }
  std::fstream file(call_site.path(), std::ios::in | std::ios::out | std::ios::binary);
  for (const auto& [at, value] : bytes) {
    file.seekp(static_cast<std::streamoff>(at % call_site.valid().size()));
    file.put(static_cast<char>(value));
  }
}

/// Nothing but line breaks may control a terminal.
void require_printable(const std::string& text) {
  for (const std::string_view line : split(text, '\n')) {
    require(printable(line) == line);
  }
}

void require_one_line(const Error& error) { require(!error.what.empty() && printable(error.what).size() < 10'000); }

void explain_it(const std::string& path) {
  store::ReadReport read;
  const auto source = store::open_recordings(std::span(&path, 1), &read);
  if (!source) {
    return require_one_line(source.error());
  }
  for (const std::optional<EventId> instance : {std::optional<EventId>(), std::optional(make_event_id(5, 101))}) {
    const auto result = explain(**source, {.instance = instance});
    if (!result) {
      require_one_line(result.error());
      continue;
    }
    require_printable(report::report_to_text(result->report, {}));
    require_printable(report::report_to_json(result->report));
    if (result->inspection) {
      require_printable(report::inspection_to_text(*result->inspection));
      require_printable(report::inspection_to_json(*result->inspection));
    }
  }
}

/// Whatever the rows hold, both formats are valid.
void export_it(const std::string& path) {
  using namespace trace_export;
  const auto source = store::open_recordings(std::span(&path, 1));
  const Result<ExplainResult> result =
      source ? explain(**source, {.stalled_calls = true}) : Result<ExplainResult>(fail("not opened"));
  if (!result) {
    return;
  }
  std::string bytes;
  const ByteSink sink = [&bytes](std::string_view piece) {
    bytes += piece;
    return Status();
  };
  for (const bool chrome : {false, true}) {
    bytes.clear();
    const auto encoder = chrome ? make_chrome_encoder(sink) : make_perfetto_encoder(sink);
    if (const auto done = export_trace(**source, result->report, result->clocks, {}, *encoder); !done) {
      require_one_line(done.error());
    } else if (chrome) {
      require_printable(bytes);
    } else {
      const DecodedTrace trace(bytes);
      require(trace.problems.empty() && trace.slices.size() == done->slices);
    }
  }
}

void query_it(const std::string& path) {
  for (const char* sql : {"SELECT * FROM collective LEFT JOIN process USING(pid) LIMIT 300", "SELECT * FROM event_name",
                          "SELECT * FROM sqlite_schema", "SELECT count(*), sum(bytes) FROM collective"}) {
    std::string text;
    const auto format =
        report::make_query_formatter(report::QueryFormat::kTable, [&](std::string_view piece) { text += piece; });
    if (store::query_recording(path, sql, {.time_limit_ns = kNsPerSecond}, *format)) {
      require(format->finish().has_value());
    }
    require_printable(text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Workplace call_site;
  make(call_site, data, size);
  const int64_t begun_ns = monotonic_now_ns();
  explain_it(call_site.path());
  query_it(call_site.path());
  fuzz::ask_all_tools(call_site.path());
  export_it(call_site.path());
  std::filesystem::remove(call_site.merged());
  const std::string path = call_site.path();
  if (store::merge_recordings(std::span(&path, 1), call_site.merged())) {
    require(store::open_recording(call_site.merged()).has_value());
  }
  require(monotonic_now_ns() - begun_ns < kMostNs);
  return 0;
}
