// SPDX-License-Identifier: Apache-2.0
#include "store/schema/schema.h"

#include <fmt/format.h>

#include <array>

namespace stalltrace::store {
namespace {

// Streamed tables: the primary key is node_id << 40 | number, so that a merged recording keeps one node's rows together
// and an id shows its node. Times and keys come first: SQLite stops decoding a row at the last requested column.
constexpr const char* kFirst = R"sql(
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;

CREATE TABLE node(
  node_id INTEGER PRIMARY KEY, name TEXT, hostname TEXT, boot_id TEXT, kernel TEXT, agent_version TEXT,
  started_ns INTEGER NOT NULL, ended_ns INTEGER, clock_offset_ns INTEGER NOT NULL, missing_evidence TEXT);

CREATE TABLE process(
  node_id INTEGER NOT NULL, pid INTEGER NOT NULL, start_ns INTEGER NOT NULL, exe TEXT, cmdline TEXT, rank INTEGER,
  rank_source TEXT, local_rank INTEGER, world_size INTEGER, job_id TEXT, cgroup_id INTEGER, netns INTEGER,
  exit_ns INTEGER, exit_code INTEGER, exit_signal INTEGER,
  PRIMARY KEY(node_id, pid, start_ns)) WITHOUT ROWID;

CREATE TABLE communicator(
  node_id INTEGER NOT NULL, pid INTEGER NOT NULL, comm_ptr INTEGER NOT NULL, created_ns INTEGER NOT NULL,
  comm_id_hash INTEGER, nccl_comm_hash INTEGER, rank INTEGER, rank_source TEXT, nranks INTEGER, parent_hash INTEGER,
  split_color INTEGER, split_key INTEGER, destroyed_ns INTEGER,
  PRIMARY KEY(node_id, pid, comm_ptr, created_ns)) WITHOUT ROWID;

CREATE TABLE collective(
  event_id INTEGER PRIMARY KEY, node_id INTEGER NOT NULL, timestamp_ns INTEGER NOT NULL, duration_ns INTEGER,
  launch_ns INTEGER, library TEXT NOT NULL, op TEXT NOT NULL, completion TEXT NOT NULL, seq INTEGER, rank INTEGER,
  rank_source TEXT, nranks INTEGER, comm_id_hash INTEGER, comm_ptr INTEGER, pid INTEGER NOT NULL,
  tid INTEGER NOT NULL, cgroup_id INTEGER, count INTEGER, datatype INTEGER, bytes INTEGER, reduce_op INTEGER,
  root INTEGER, peer INTEGER, stream INTEGER NOT NULL, group_id INTEGER, return_code INTEGER, stack_id INTEGER,
  called_ns INTEGER);

CREATE TABLE connection(
  node_id INTEGER NOT NULL, cookie INTEGER NOT NULL, pid INTEGER, netns INTEGER, family INTEGER, saddr TEXT,
  sport INTEGER, daddr TEXT, dport INTEGER, opened_ns INTEGER NOT NULL, closed_ns INTEGER, rank INTEGER,
  peer_rank INTEGER, thread_name TEXT,
  PRIMARY KEY(node_id, cookie)) WITHOUT ROWID;

CREATE TABLE tcp_events(
  event_id INTEGER PRIMARY KEY, node_id INTEGER NOT NULL, timestamp_ns INTEGER NOT NULL, event TEXT NOT NULL,
  pid INTEGER, rank INTEGER, cookie INTEGER, saddr TEXT, sport INTEGER, daddr TEXT, dport INTEGER, seq INTEGER,
  len INTEGER, state INTEGER NOT NULL, cgroup_id INTEGER);
CREATE INDEX tcp_events_by_event_and_time ON tcp_events(event, timestamp_ns);

CREATE TABLE tcp_sample(
  id INTEGER PRIMARY KEY, node_id INTEGER NOT NULL, timestamp_ns INTEGER NOT NULL, cookie INTEGER NOT NULL,
  pid INTEGER, srtt_us INTEGER, cwnd INTEGER NOT NULL, packets_out INTEGER NOT NULL, retrans_out INTEGER NOT NULL,
  lost_out INTEGER NOT NULL, total_retrans INTEGER NOT NULL, dsack_dups INTEGER NOT NULL, mss INTEGER NOT NULL,
  bytes_acked INTEGER NOT NULL, bytes_received INTEGER NOT NULL, unacked_bytes INTEGER NOT NULL,
  notsent_bytes INTEGER NOT NULL, unread_bytes INTEGER NOT NULL, snd_wnd INTEGER NOT NULL, rcv_wnd INTEGER NOT NULL,
  busy_ns INTEGER NOT NULL, receiver_limited_ns INTEGER NOT NULL, sndbuf_limited_ns INTEGER NOT NULL,
  ca_state INTEGER NOT NULL, retransmits INTEGER NOT NULL, backoff INTEGER NOT NULL, tcp_state INTEGER NOT NULL);

CREATE TABLE net_span(
  id INTEGER PRIMARY KEY, node_id INTEGER NOT NULL, timestamp_ns INTEGER NOT NULL, duration_ns INTEGER NOT NULL,
  cookie INTEGER NOT NULL, pid INTEGER, tid INTEGER, is_send INTEGER NOT NULL, bytes INTEGER NOT NULL,
  calls INTEGER NOT NULL);

CREATE TABLE wait_span(
  id INTEGER PRIMARY KEY, node_id INTEGER NOT NULL, timestamp_ns INTEGER NOT NULL, window_ns INTEGER NOT NULL,
  waited_ns INTEGER NOT NULL, open INTEGER NOT NULL, count INTEGER NOT NULL, kind TEXT NOT NULL,
  pid INTEGER NOT NULL, tid INTEGER NOT NULL, thread_name TEXT, by_pid INTEGER, by_name TEXT, by_waited_ns INTEGER);

CREATE TABLE host_sample(
  id INTEGER PRIMARY KEY, node_id INTEGER NOT NULL, timestamp_ns INTEGER NOT NULL, name TEXT NOT NULL, detail TEXT,
  value REAL NOT NULL);

CREATE TABLE port_counter(
  id INTEGER PRIMARY KEY, node_id INTEGER NOT NULL, timestamp_ns INTEGER NOT NULL, device TEXT NOT NULL,
  port INTEGER NOT NULL, name TEXT NOT NULL, value INTEGER NOT NULL);

CREATE TABLE stack(stack_id INTEGER PRIMARY KEY, frames TEXT NOT NULL);

CREATE TABLE finding(
  finding_id INTEGER PRIMARY KEY, cause TEXT NOT NULL, severity TEXT NOT NULL, confidence REAL NOT NULL,
  culprit_node TEXT, culprit_rank INTEGER, culprit_pid INTEGER, src_rank INTEGER, dst_rank INTEGER, src TEXT,
  dst TEXT, comm_id_hash INTEGER, op TEXT NOT NULL, collectives_affected INTEGER NOT NULL, stall_ms REAL NOT NULL,
  from_ns INTEGER, to_ns INTEGER, summary TEXT NOT NULL, evidence TEXT NOT NULL, remedy TEXT NOT NULL);

CREATE TABLE loss(
  node_id INTEGER NOT NULL, source TEXT NOT NULL, count INTEGER NOT NULL,
  PRIMARY KEY(node_id, source)) WITHOUT ROWID;

CREATE TABLE segment(
  source TEXT NOT NULL, first_id INTEGER NOT NULL, node_id INTEGER NOT NULL, min_ns INTEGER NOT NULL,
  end_ns INTEGER, rows INTEGER NOT NULL,
  PRIMARY KEY(source, first_id)) WITHOUT ROWID;

CREATE VIEW nccl_events AS SELECT * FROM collective WHERE library IN ('nccl', 'rccl');

CREATE VIEW event_name AS
  SELECT event_id, ifnull(node.name, e.node_id) || ':' || (event_id & 1099511627775) AS name, e.kind
  FROM (SELECT event_id, node_id, 'collective' AS kind FROM collective
        UNION ALL SELECT event_id, node_id, 'tcp_events' FROM tcp_events) AS e
  LEFT JOIN node USING(node_id);
)sql";

constexpr const char* kSecond = R"sql(
CREATE TABLE proxy_step(
  id INTEGER PRIMARY KEY, node_id INTEGER NOT NULL, timestamp_ns INTEGER NOT NULL, duration_ns INTEGER,
  collective_id INTEGER, comm_id_hash INTEGER, pid INTEGER, tid INTEGER, rank INTEGER, peer INTEGER,
  channel INTEGER NOT NULL, is_send INTEGER NOT NULL, step INTEGER NOT NULL, steps INTEGER NOT NULL,
  bytes INTEGER NOT NULL, gpu_wait_ns INTEGER NOT NULL, peer_wait_ns INTEGER NOT NULL,
  network_wait_ns INTEGER NOT NULL, waits_for TEXT);

CREATE TABLE packet_drop(
  id INTEGER PRIMARY KEY, node_id INTEGER NOT NULL, timestamp_ns INTEGER NOT NULL, duration_ns INTEGER NOT NULL,
  cookie INTEGER NOT NULL, pid INTEGER, incoming INTEGER NOT NULL, netns INTEGER, reason TEXT NOT NULL,
  packets INTEGER NOT NULL, bytes INTEGER NOT NULL);

ALTER TABLE process ADD COLUMN oom_killed INTEGER;
ALTER TABLE connection ADD COLUMN comm_id_hash INTEGER;
ALTER TABLE connection ADD COLUMN channel INTEGER;
ALTER TABLE finding ADD COLUMN detected_ns INTEGER;
ALTER TABLE finding ADD COLUMN ended_ns INTEGER;
)sql";

constexpr const char* kThird = R"sql(
ALTER TABLE process ADD COLUMN settings TEXT;
)sql";

constexpr const char* kFourth = R"sql(
CREATE TABLE python_stack(
  id INTEGER PRIMARY KEY, node_id INTEGER NOT NULL, timestamp_ns INTEGER NOT NULL, duration_ns INTEGER NOT NULL,
  pid INTEGER NOT NULL, rank_pid INTEGER NOT NULL, tid INTEGER, state TEXT, activity TEXT,
  collecting INTEGER NOT NULL, stack_id INTEGER, problem TEXT);
)sql";

constexpr const char* kFifth = R"sql(
ALTER TABLE collective ADD COLUMN kernel_start_ns INTEGER;
ALTER TABLE collective ADD COLUMN kernel_end_ns INTEGER;
)sql";

constexpr const char* kSixth = R"sql(
CREATE TABLE log_line(
  id INTEGER PRIMARY KEY, node_id INTEGER NOT NULL, timestamp_ns INTEGER NOT NULL, pid INTEGER, rank INTEGER,
  kind TEXT NOT NULL, line INTEGER NOT NULL, file TEXT, text TEXT);
)sql";

constexpr const char* kSeventh = R"sql(
CREATE TABLE kernel_message(
  id INTEGER PRIMARY KEY, node_id INTEGER NOT NULL, timestamp_ns INTEGER NOT NULL, kind TEXT NOT NULL, code INTEGER,
  device TEXT, pid INTEGER, process TEXT, line INTEGER NOT NULL, file TEXT, text TEXT);

CREATE TABLE benchmark_run(
  node_id INTEGER NOT NULL, run INTEGER NOT NULL, started_ns INTEGER NOT NULL, test TEXT, nranks INTEGER, hosts TEXT,
  most_bytes INTEGER, ended INTEGER NOT NULL, failed INTEGER NOT NULL, problem TEXT, line INTEGER NOT NULL, file TEXT,
  PRIMARY KEY(node_id, run)) WITHOUT ROWID;

CREATE TABLE benchmark_result(
  id INTEGER PRIMARY KEY, node_id INTEGER NOT NULL, timestamp_ns INTEGER NOT NULL, run INTEGER NOT NULL,
  bytes INTEGER NOT NULL, count INTEGER NOT NULL, datatype TEXT, reduce_op TEXT, root INTEGER, in_place INTEGER NOT NULL,
  time_us REAL NOT NULL, algbw_gbs REAL NOT NULL, busbw_gbs REAL NOT NULL, wrong INTEGER, line INTEGER NOT NULL);
)sql";

constexpr const char* kEighth = R"sql(
CREATE TABLE trace_profile(
  node_id INTEGER PRIMARY KEY, started_ns INTEGER NOT NULL, duration_ns INTEGER NOT NULL, rank INTEGER,
  world_size INTEGER, backend TEXT, on_device INTEGER NOT NULL, compute_ns INTEGER NOT NULL,
  communication_ns INTEGER NOT NULL, overlap_ns INTEGER NOT NULL, copy_ns INTEGER NOT NULL, idle_ns INTEGER NOT NULL,
  steps INTEGER NOT NULL, kernels INTEGER NOT NULL, file TEXT);

CREATE TABLE trace_step(
  id INTEGER PRIMARY KEY, node_id INTEGER NOT NULL, timestamp_ns INTEGER NOT NULL, duration_ns INTEGER NOT NULL,
  step INTEGER NOT NULL, compute_ns INTEGER NOT NULL, communication_ns INTEGER NOT NULL, overlap_ns INTEGER NOT NULL,
  idle_ns INTEGER NOT NULL);

CREATE TABLE trace_collective(
  node_id INTEGER NOT NULL, number INTEGER NOT NULL, op TEXT, process_group TEXT, datatype TEXT, elements INTEGER,
  ordinal INTEGER, calls INTEGER NOT NULL, total_ns INTEGER NOT NULL, exposed_ns INTEGER NOT NULL,
  shortest_ns INTEGER NOT NULL, longest_ns INTEGER NOT NULL, PRIMARY KEY(node_id, number)) WITHOUT ROWID;

CREATE TABLE packet_capture(
  node_id INTEGER PRIMARY KEY, started_ns INTEGER NOT NULL, duration_ns INTEGER NOT NULL, packets INTEGER NOT NULL,
  tcp_packets INTEGER NOT NULL, flows INTEGER NOT NULL, missed INTEGER NOT NULL, too_big INTEGER NOT NULL,
  least_mtu INTEGER, too_big_from TEXT, unreachable INTEGER NOT NULL, cut INTEGER NOT NULL, file TEXT);

CREATE TABLE packet_flow(
  node_id INTEGER NOT NULL, flow INTEGER NOT NULL, started_ns INTEGER NOT NULL, duration_ns INTEGER NOT NULL,
  saddr TEXT, sport INTEGER, daddr TEXT, dport INTEGER, packets INTEGER NOT NULL, payload_bytes INTEGER NOT NULL,
  retransmits INTEGER NOT NULL, retransmitted_bytes INTEGER NOT NULL, lost_before INTEGER NOT NULL,
  spurious INTEGER NOT NULL, syn_retransmits INTEGER NOT NULL, reordered INTEGER NOT NULL,
  duplicate_acks INTEGER NOT NULL, zero_windows INTEGER NOT NULL, zero_window_ns INTEGER NOT NULL,
  resets INTEGER NOT NULL, missing_bytes INTEGER NOT NULL, opened INTEGER NOT NULL, closed INTEGER NOT NULL,
  mss INTEGER, largest_delivered_bytes INTEGER NOT NULL, unacked_bytes INTEGER NOT NULL, unacked_ns INTEGER NOT NULL,
  repeats INTEGER NOT NULL, repeated_bytes INTEGER NOT NULL, PRIMARY KEY(node_id, flow)) WITHOUT ROWID;

CREATE TABLE packet_event(
  id INTEGER PRIMARY KEY, node_id INTEGER NOT NULL, timestamp_ns INTEGER NOT NULL, kind TEXT NOT NULL,
  flow INTEGER NOT NULL, saddr TEXT, sport INTEGER, daddr TEXT, dport INTEGER, seq INTEGER NOT NULL,
  len INTEGER NOT NULL, packet INTEGER NOT NULL);

CREATE TABLE python_exception(
  id INTEGER PRIMARY KEY, node_id INTEGER NOT NULL, timestamp_ns INTEGER NOT NULL, pid INTEGER NOT NULL,
  tid INTEGER NOT NULL, type TEXT NOT NULL, stack_id INTEGER, depth INTEGER NOT NULL);

ALTER TABLE finding ADD COLUMN attempt INTEGER;
)sql";

constexpr const char* kNinth = R"sql(
CREATE TABLE competitor(
  node_id INTEGER NOT NULL, pid INTEGER NOT NULL, start_ns INTEGER NOT NULL, cmdline TEXT, cgroup TEXT,
  rank_pid INTEGER, exit_ns INTEGER,
  PRIMARY KEY(node_id, pid, start_ns)) WITHOUT ROWID;

CREATE TABLE graph_use(
  node_id INTEGER NOT NULL, pid INTEGER NOT NULL, start_ns INTEGER NOT NULL, captured INTEGER NOT NULL,
  launches INTEGER NOT NULL, first_launch_ns INTEGER, last_launch_ns INTEGER,
  PRIMARY KEY(node_id, pid, start_ns)) WITHOUT ROWID;
)sql";

constexpr const char* kTenth = R"sql(
CREATE TABLE clock_reading(
  id INTEGER PRIMARY KEY, node_id INTEGER NOT NULL, timestamp_ns INTEGER NOT NULL, utc_ns INTEGER NOT NULL,
  window_ns INTEGER NOT NULL, max_error_ns INTEGER);
)sql";

constexpr const char* kEleventh = R"sql(
ALTER TABLE communicator ADD COLUMN calls_before INTEGER;
)sql";

constexpr std::array kMigrations{kFirst,   kSecond, kThird, kFourth, kFifth,   kSixth,
                                 kSeventh, kEighth, kNinth, kTenth,  kEleventh};

}  // namespace

std::span<const char* const> migrations() { return kMigrations; }
int64_t schema_version() { return static_cast<int64_t>(kMigrations.size()); }

namespace {

std::unexpected<Error> fail_newer(int64_t version) {
  return fail(fmt::format("made by a newer stalltrace (schema {}, this one knows up to {})", version, schema_version()),
              "read it with that version", ErrorKind::kUnsupported);
}

}  // namespace

Status migrate(Database& db, std::span<const char* const> steps) {
  const auto known = static_cast<int64_t>(steps.size());
  ST_ASSIGN(const int64_t version, db.integer("PRAGMA user_version"));
  if (version > known) {
    return fail_newer(version);
  }
  if (version == known) {
    return {};
  }
  ST_ASSIGN(Transaction transaction, Transaction::begin(db, "BEGIN IMMEDIATE"));
  for (int64_t step = version; step < known; ++step) {
    ST_TRY(db.execute(steps[static_cast<size_t>(step)]));
  }
  ST_TRY(
      db.execute(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {};"
                             "INSERT OR REPLACE INTO meta VALUES('schema_version', '{}')",
                             kApplicationId, known, known)));
  return transaction.commit();
}

Status check_schema(Database& db) {
  ST_ASSIGN(const int64_t application, db.integer("PRAGMA application_id"));
  ST_ASSIGN(const int64_t version, db.integer("PRAGMA user_version"));
  if (application != kApplicationId || version < 1) {
    return fail("an SQLite database, but not a recording of stalltrace", "give a file made by 'stalltrace trace'",
                ErrorKind::kCorrupt);
  }
  return version > schema_version() ? Status(fail_newer(version)) : Status();
}

}  // namespace stalltrace::store
