// SPDX-License-Identifier: Apache-2.0
#include "store/write/writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <tuple>

#include "base/clock.h"
#include "base/files/caller.h"
#include "base/files/new_file.h"
#include "model/events/loss_sources.h"
#include "store/schema/finding_table.h"
#include "store/schema/open_recording.h"
#include "store/schema/schema.h"
#include "store/sqlite/by_descriptor.h"
#include "store/sqlite/open.h"
#include "store/write/open_calls.h"
#include "store/write/prune.h"
#include "store/write/stall_window.h"
#include "store/write/table_writer.h"

namespace stalltrace::store {
namespace {

constexpr size_t kKeptWhileFull = 20'000;         // rows per table kept in memory while the disk is full
constexpr size_t kStatesKeptWhileFull = 200'000;  // of processes, communicators, connections: the newest of each

/// The process that writes `path`, for the error message.
std::string holder(const std::string& path) {
  auto db = open_for_reading(path);
  auto pid = db ? db->text("SELECT value FROM meta WHERE key = 'writer_pid'") : Result<std::string>("");
  return pid && !pid->empty() ? " " + *pid : "";
}

Status make_room(const std::string& path, bool overwrite) {
  if (::access(path.c_str(), F_OK) != 0) {
    return {};
  }
  if (is_being_written(path)) {
    return fail(fmt::format("{}: process{} is recording into it", path, holder(path)),
                "give this run a file of its own with --out");
  }
  if (!overwrite) {
    return fail(path + ": exists already", "choose another file with --out");
  }
  if (file_size(path) > 0) {
    auto db = open_for_reading(path);
    if (!db) {
      return fail(path + ": not overwritten: it is not a recording", "choose another file with --out");
    }
  }
  for (const char* suffix : {"-wal", "-shm", "-journal", ""}) {
    ::unlink((path + suffix).c_str());
  }
  return {};
}

constexpr const char* kSideFiles[] = {"-wal", "-shm", "-journal"};

/// The recording's folder and file, held open: a process that can write to the folder can't redirect our writes.
struct OutputFile {
  UniqueFd folder;
  UniqueFd file;
  std::string name;

  /// The path by which SQLite finds both, even if the folder is moved.
  [[nodiscard]] std::string path() const { return descriptor_path(folder.get()) + "/" + name; }
  [[nodiscard]] std::optional<struct stat> look(const std::string& suffix) const {
    struct stat info {};
    const bool there = ::fstatat(folder.get(), (name + suffix).c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
    return there ? std::optional(info) : std::nullopt;
  }
  /// The file, and what SQLite has put beside it.
  void remove() const {
    for (const char* suffix : kSideFiles) {
      if (const auto side = look(suffix); side && S_ISREG(side->st_mode) && side->st_uid == ::geteuid()) {
        ::unlinkat(folder.get(), (name + suffix).c_str(), 0);
      }
    }
    ::unlinkat(folder.get(), name.c_str(), 0);
  }
};

/// Creates the empty file. A leftover log at its path would be read as its own.
Result<OutputFile> create_output(const std::string& path, Readers readers) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  OutputFile output;
  output.name = std::filesystem::path(path).filename().string();
  output.folder = UniqueFd(::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  constexpr const char* kRemedy = "choose a folder you may write to with --out";
  if (!output.folder) {
    return fail_errno(path, errno, kRemedy);
  }
  for (const char* suffix : kSideFiles) {
    if (const auto old = output.look(suffix);
        old && (!S_ISREG(old->st_mode) || old->st_uid != ::geteuid() ||
                ::unlinkat(output.folder.get(), (output.name + suffix).c_str(), 0) != 0)) {
      return fail(fmt::format("{}{}: there already, without a recording", path, suffix),
                  "remove it, or choose another file with --out");
    }
  }
  output.file = UniqueFd(
      ::openat(output.folder.get(), output.name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!output.file || ::fchmod(output.file.get(), file_mode(readers)) != 0) {
    return fail_errno(path, errno, kRemedy);
  }
  struct stat info {};
  if (readers == Readers::kOwner && ::fstat(output.file.get(), &info) == 0 && info.st_uid != ::geteuid()) {
    ::unlinkat(output.folder.get(), output.name.c_str(), 0);
    return fail(fmt::format("{}: the file server made uid {} its owner", path, info.st_uid),
                "choose a file on a disk of this host with --out, or give --group-readable or --world-readable",
                ErrorKind::kNoPrivilege);
  }
  return output;
}

/// Checks that SQLite has opened our file, with a log that it created itself.
Status check_output(const OutputFile& output, const std::string& path) {
  struct stat ours {};
  const auto there = output.look("");
  bool same =
      ::fstat(output.file.get(), &ours) == 0 && there && there->st_dev == ours.st_dev && there->st_ino == ours.st_ino;
  for (const char* suffix : {"-wal", "-shm"}) {
    const auto side = output.look(suffix);
    same = same && (!side || (S_ISREG(side->st_mode) && side->st_uid == ours.st_uid));
  }
  return same ? Status()
              : fail(path + ": another process put a file in its place", "choose a folder of your own with --out",
                     ErrorKind::kNoPrivilege);
}

}  // namespace

struct RecordingWriter::State {
  using Tables = ForTypes<std::tuple, TableWriter, kEventTypes>;

  std::string path;
  OutputFile output;  // outlives the database: closing a descriptor of its file drops SQLite's locks
  WriterOptions options;
  UniqueFd lock;  // outlives the database as well
  Database db;
  Tables tables;
  FindingTable findings;
  Statement upsert_segment;
  StallWindows windows;
  OpenCalls open_calls;
  Pruner pruner;
  NodeId node_id = 0;
  size_t buffered = 0;
  WriterStats stats;
  bool disk_full = false;     // the last flush failed, and its caller was informed
  bool without_room = false;  // the last transaction failed for want of it
  bool full = false;          // ... of the disk or of the recording's limit, not of a quota
  bool closing = false;       // the last rows are written whatever the log's size
  bool closed = false;

  template <typename F>
  void each_table(F&& f) {
    std::apply([&](auto&... table) { (f(table), ...); }, tables);
  }

  Status open();
  Status open_log();
  Status prepare();
  int write_rows();
  Status write_transaction();
  Status refused(Error error);
  [[nodiscard]] bool own_limit_refused() const;
  bool drop_older_half();
  void give_up_buffered();
  Status keep_within_size();
  Result<bool> log_is_held();
  Status put_log_away();
  std::vector<PrunableTable> prunable();
  /// The part of max_size_bytes that the log may use.
  [[nodiscard]] int64_t log_bytes() const {
    return std::clamp<int64_t>(options.max_size_bytes / 4, 256 << 10, 8 << 20);
  }
  /// Half a second of a busy node is one transaction, and stays in the log whatever its size.
  [[nodiscard]] int64_t file_bytes() const {
    return options.max_size_bytes - std::max<int64_t>(log_bytes(), 512 << 10);
  }
};

Status RecordingWriter::State::open() {
  ST_ASSIGN(db, Database::open(file_uri(output.path(), "mode=rw"), SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI,
                               by_descriptor_vfs()));
  // The schema is created before the log, so that from here on the file alone is a recording.
  ST_TRY(db.execute("PRAGMA page_size = 4096; PRAGMA secure_delete = OFF; PRAGMA temp_store = MEMORY"));
  ST_TRY(migrate(db));
  ST_TRY(open_log());
  return prepare();
}

Status RecordingWriter::State::open_log() {
  ST_TRY(db.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -8192"));
  if (options.max_size_bytes > 0) {
    ST_TRY(
        db.execute(fmt::format("PRAGMA max_page_count = {}; PRAGMA wal_autocheckpoint = {}; "
                               "PRAGMA journal_size_limit = {}",
                               file_bytes() / 4096, log_bytes() / 2 / 4096, log_bytes() / 2)));
  }
  ST_TRY(
      db.execute(fmt::format("INSERT OR REPLACE INTO meta VALUES('writer_pid', '{}'), ('created_ns', '{}'), "
                             "('creator', 'stalltrace'), ('clock', 'UTC nanoseconds: CLOCK_MONOTONIC plus "
                             "node.clock_offset_ns')",
                             ::getpid(), utc_now_ns())));
  ST_TRY(check_output(output, path));
  lock = lock_writer(output.path());
  return lock ? Status() : fail(path + ": another process is recording into it", "give this run a file of its own");
}

Status RecordingWriter::State::prepare() {
  ST_ASSIGN(upsert_segment, db.prepare(kUpsertSegment));
  Status status;
  each_table([&](auto& table) {
    if (status) {
      status = table.prepare(db);
    }
  });
  return status ? findings.prepare(db) : status;
}

int RecordingWriter::State::write_rows() {
  int code = SQLITE_DONE;
  each_table([&](auto& table) {
    if (code == SQLITE_DONE) {
      code = table.write(upsert_segment);
    }
  });
  return code == SQLITE_DONE ? findings.write() : code;
}

Status RecordingWriter::State::write_transaction() {
  ST_ASSIGN(Transaction transaction, Transaction::begin(db, "BEGIN IMMEDIATE"));
  Status status = write_rows() == SQLITE_DONE ? Status() : fail_sqlite(db.get(), path);
  if (status && stats.lost > 0) {
    status = db.execute(
        fmt::format("INSERT OR REPLACE INTO loss VALUES({}, '{}', {})", node_id, kLostToFullDisk, stats.lost));
  }
  if (status) {
    status = transaction.commit();
  }
  if (!status) {
    without_room = is_without_room(db.get());
    full = is_full(db.get());
    each_table([](auto& table) { table.rolled_back(); });
  }
  return status;
}

/// The rows stay buffered for the next attempt, up to a limit; the job's state (processes, communicators, connections)
/// is kept too, the newest row of each.
Status RecordingWriter::State::refused(Error error) {
  each_table([&]<typename T>(TableWriter<T>& table) {
    const size_t dropped = table.drop_oldest(StreamedType<T> ? kKeptWhileFull : kStatesKeptWhileFull);
    stats.lost += dropped;
    buffered -= std::min(buffered, dropped);
  });
  if (std::exchange(disk_full, true)) {
    return {};
  }
  return std::unexpected(std::move(error));
}

/// After a refusal: whether the limit of the recording, and not the disk, a quota or a limit of the user, refused. What
/// they refuse is kept for the time when there is room again.
bool RecordingWriter::State::own_limit_refused() const {
  std::error_code error;
  const auto space = std::filesystem::space(path, error);
  return full && !error && space.available > static_cast<uintmax_t>(options.max_size_bytes);
}

/// Counts the older half of each table's buffered events as lost. False if there are none.
bool RecordingWriter::State::drop_older_half() {
  size_t dropped = 0;
  each_table([&]<typename T>(TableWriter<T>& table) {
    if constexpr (StreamedType<T>) {
      dropped += table.drop_oldest(table.rows().size() / 2);
    }
  });
  stats.lost += dropped;
  buffered -= std::min(buffered, dropped);
  return dropped > 0;
}

/// Rows that a full disk still refuses when the recording ends are lost; they are counted if at least the count can be
/// written.
void RecordingWriter::State::give_up_buffered() {
  if (buffered == 0) {
    return;
  }
  stats.lost += std::exchange(buffered, 0);
  each_table([](auto& table) { table.clear(); });
  findings.clear();
  (void)write_transaction();
}

std::vector<PrunableTable> RecordingWriter::State::prunable() {
  std::vector<PrunableTable> found;
  each_table([&]<typename T>(TableWriter<T>& table) {
    if constexpr (StreamedType<T>) {
      for (const ZoneMap& list : table.zone_maps()) {
        found.push_back({EventTraits<T>::kTable, kIdColumn<T>, kEndSql<T>, &list});
      }
    }
  });
  return found;
}

Status RecordingWriter::State::keep_within_size() {
  ST_ASSIGN(const int64_t used, used_bytes(db));
  if (used <= file_bytes() / 10 * 8) {
    return {};
  }
  ST_ASSIGN(const auto removed,
            pruner.prune(db, node_id, prunable(), {.windows = windows.windows(), .open_calls = open_calls.sorted()},
                         {.target_bytes = file_bytes() / 10 * 6, .transaction_bytes = log_bytes() / 4}));
  for (const auto& [table, count] : removed) {
    stats.pruned += count;
  }
  return {};
}

/// A program that reads the recording keeps the rows that were written since from leaving the log, which then grows.
Result<bool> RecordingWriter::State::log_is_held() {
  const auto log = output.look("-wal");
  if (options.max_size_bytes == 0 || closing || !log || log->st_size <= log_bytes()) {
    return false;
  }
  ST_ASSIGN(Statement checkpoint, db.prepare("PRAGMA wal_checkpoint(PASSIVE)"));
  if (checkpoint.step() != SQLITE_ROW) {
    return fail_sqlite(db.get(), path);
  }
  constexpr int64_t kPage = 4096;
  return (checkpoint.integer(1) - checkpoint.integer(2)) * kPage > log_bytes();
}

/// Makes the file alone the recording. A reader that has it open keeps the log; the last reader removes it.
Status RecordingWriter::State::put_log_away() {
  sqlite3_busy_timeout(db.get(), 200);
  Status done = db.execute("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE");
  const int code = sqlite3_errcode(db.get()) & 0xff;
  if (done || code == SQLITE_BUSY || code == SQLITE_LOCKED) {
    return {};
  }
  Error error = std::move(done.error());
  error.remedy = fmt::format("the rest is in the files beside it ({}-wal): keep them together", path);
  return with_context(path + ": it is not in one file", std::move(error));
}

RecordingWriter::RecordingWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}

RecordingWriter::~RecordingWriter() { (void)close(); }

Result<std::unique_ptr<RecordingWriter>> RecordingWriter::create(const std::string& path, WriterOptions options) {
  if (options.max_size_bytes != 0 && options.max_size_bytes < kSmallestMaxSize) {
    return fail("--max-size: too small for a recording", "give at least 1m", ErrorKind::kUsage);
  }
  ST_TRY(make_room(path, options.overwrite));
  auto state = std::make_unique<State>();
  state->path = path;
  ST_ASSIGN(state->output, create_output(path, options.readers));
  state->options = options;
  if (auto opened = state->open(); !opened) {
    state->db = Database();
    state->output.remove();
    return with_context(path, std::move(opened.error()));
  }
  return std::unique_ptr<RecordingWriter>(new RecordingWriter(std::move(state)));
}

void RecordingWriter::accept(Event event) {
  std::visit(
      [this]<typename T>(T&& row) {
        using Row = std::remove_cvref_t<T>;
        if constexpr (std::is_same_v<Row, Node>) {
          state_->node_id = row.node_id;
        } else if constexpr (std::is_same_v<Row, Collective>) {
          if (state_->options.max_size_bytes > 0) {
            state_->windows.note(row);
            state_->open_calls.note(row);
          }
        }
        state_->buffered += std::get<TableWriter<Row>>(state_->tables).accept(std::forward<T>(row)) ? 1 : 0;
      },
      std::move(event));
}

void RecordingWriter::accept_finding(int64_t finding_id, Finding finding) {
  state_->findings.accept(finding_id, std::move(finding));
}

Status RecordingWriter::flush() {
  State& state = *state_;
  if (state.buffered + state.findings.buffered() == 0 || state.closed) {
    return {};
  }
  ST_ASSIGN(const bool held, state.log_is_held());
  if (held) {
    return state.refused(fail("cannot write: a program that reads the recording keeps its log from getting smaller",
                              "end that program: recording goes on by itself, what is lost until then is counted as "
                              "store:disk_full")
                             .error());
  }
  Status written = state.write_transaction();
  const bool limited = state.options.max_size_bytes > 0;
  if (!written && limited && state.without_room) {
    ST_TRY(state.keep_within_size());
    written = state.write_transaction();
    // Rows that waited, for a reader's end or for the disk, may be more than the whole recording may hold.
    while (!written && state.own_limit_refused() && state.drop_older_half()) {
      written = state.write_transaction();
    }
  }
  if (!written) {
    Error error = std::move(written.error());
    error.remedy = fmt::format("{}: recording goes on by itself, what is lost until then is counted as store:disk_full",
                               state.without_room ? "free some space" : "look for errors of the disk (dmesg)");
    return state.refused(with_context("cannot write", std::move(error)).error());
  }
  state.disk_full = false;
  state.stats.rows += std::exchange(state.buffered, 0);
  state.each_table([](auto& table) { table.clear(); });
  state.findings.clear();
  return limited ? state.keep_within_size() : Status();
}

size_t RecordingWriter::buffered() const { return state_->buffered; }

Status RecordingWriter::close() {
  State& state = *state_;
  if (state.closed) {
    return {};
  }
  state.closing = true;
  Status status = flush();
  state.give_up_buffered();
  state.closed = true;
  const auto attempt = [&](const std::string& sql) {
    if (auto done = state.db.execute(sql); !done && status) {
      status = with_context(state.path, std::move(done.error()));
    }
  };
  attempt(
      fmt::format("UPDATE node SET ended_ns = {} WHERE ended_ns IS NULL;"
                  "INSERT OR REPLACE INTO meta VALUES('ended_ns', '{}');"
                  "DELETE FROM meta WHERE key = 'writer_pid'",
                  utc_now_ns(), utc_now_ns()));
  state.each_table([]<typename T>(TableWriter<T>& table) { table = TableWriter<T>(); });
  state.findings = FindingTable();
  state.upsert_segment = Statement();
  Status whole = state.put_log_away();
  state.db = Database();
  state.lock.reset();
  if (!state.output.look("-wal")) {
    (void)hand_to_caller(state.output.file.get());
  }
  Status stored = store_and_close(std::move(state.output.file), state.path);
  (void)::fsync(state.output.folder.get());  // some file systems do not support this
  return !status ? status : !whole ? whole : stored;
}

WriterStats RecordingWriter::stats() const {
  WriterStats stats = state_->stats;
  stats.bytes = static_cast<uint64_t>(file_size(state_->output.path()) + file_size(state_->output.path() + "-wal"));
  return stats;
}

const std::string& RecordingWriter::path() const { return state_->path; }

}  // namespace stalltrace::store
