// SPDX-License-Identifier: Apache-2.0
#include "store/read/reader.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <thread>
#include <utility>

#include "base/text.h"
#include "model/streams/node_streams.h"
#include "store/read/cursor.h"
#include "store/read/open_files.h"

namespace stalltrace::store {
namespace {

/// Number of threads in addition to the caller's. More would only wait for the analysis.
size_t helpers() {
  constexpr size_t kMostHelpers = 3;
  return std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostHelpers + 1) - 1;
}

/// Opens files in their order, the next few of them on other threads.
class OpenAhead {
 public:
  explicit OpenAhead(std::span<const std::string> paths)
      : paths_(paths), workers_(paths.size() < kFew ? 0 : helpers()) {}

  /// The next file. Not to be called again after an error.
  Result<OpenFiles::Opened> next() {
    while (begun_ < paths_.size() && opening_.size() < kAhead) {
      auto& one = opening_.emplace_back(std::make_unique<Opening>());
      one->done = workers_.submit(ThreadPool::Job([opening = one.get(), &path = paths_[begun_]]() -> Status {
        ST_ASSIGN(opening->opened, OpenFiles::open(path));
        return {};
      }));
      ++begun_;
    }
    const std::unique_ptr<Opening> first = std::move(opening_.front());
    opening_.pop_front();
    ST_TRY(workers_.finish(first->done));
    return std::move(first->opened);
  }

 private:
  struct Opening {
    OpenFiles::Opened opened;
    std::future<Status> done;
  };
  static constexpr size_t kFew = 16;   // too few to be worth a thread
  static constexpr size_t kAhead = 4;  // files that are open beside those that are kept

  std::span<const std::string> paths_;
  size_t begun_ = 0;
  std::deque<std::unique_ptr<Opening>> opening_;
  ThreadPool workers_;  // last member: its jobs use the others
};

class RecordingSource final : public OpenRecordings, public NodeStreams {
 public:
  static Result<std::unique_ptr<OpenRecordings>> open(std::span<const std::string> paths, ReadReport* report) {
    auto source = std::unique_ptr<RecordingSource>(new RecordingSource(OpenFiles::for_reading(paths.size())));
    source->report_ = report;
    NodePlan nodes;
    OpenAhead ahead(paths);
    for (size_t file = 0; file < paths.size(); ++file) {
      ST_ASSIGN(OpenFiles::Opened opened, ahead.next());
      ST_ASSIGN(OpenFiles::Use use, source->files_.add(std::move(opened)));
      ST_TRY(nodes.add(use.db(), file));
    }
    ST_ASSIGN(source->runs_, nodes.runs());
    return source;
  }

  void begin_request() override { files_.restart_guards(); }

  Status read_state(AnyRows rows) override {
    return std::visit([this]<typename T>(std::vector<T>* all) { return read_rows(*all); }, rows);
  }
  Status read_stream(TimeRange range, AnyVisitor visitor) override {
    return std::visit([&]<typename T>(const Visitor<T>* visit) { return read_in_order(range, *visit); }, visitor);
  }
  Status read_by_node(TimeRange range, const std::set<NodeId>* nodes, AnyVisitor visitor) override {
    return std::visit(
        [&]<typename T>(const Visitor<T>* visit) { return read_one_after_the_other(range, nodes, *visit); }, visitor);
  }

 private:
  explicit RecordingSource(OpenFiles files) : files_(std::move(files)) {}

  /// The rows of every node run, file by file.
  template <typename T>
  Status read_rows(std::vector<T>& rows) {
    int64_t left_out = 0;
    std::optional<OpenFiles::Use> use;  // of the file of the last run
    Statement select;
    std::optional<size_t> selects_from;
    int64_t most = 0;
    for (const NodeRun& run : runs_) {
      const std::string& path = files_.path(run.file);
      if (files_.is_empty(run.file, EventTraits<T>::kTable)) {
        continue;
      }
      if (selects_from != run.file) {
        select = Statement();
        ST_ASSIGN(use, files_.use(run.file));
        ST_ASSIGN(const std::string sql, select_of<T>(run.file, use->db()));
        ST_ASSIGN(select, use->db().prepare(sql + " AND node_id = ?"));
        selects_from = run.file;
        most = most_rows(path);
      }
      select.bind(1, static_cast<int64_t>(run.id_in_file));
      int code = SQLITE_DONE;
      for (int64_t count = 0; (code = select.step()) == SQLITE_ROW; ++count) {
        if (count > most) {
          return fail_more_rows(path, EventTraits<T>::kTable);
        }
        extract(select, rows.emplace_back());
        rows.back().node_id = run.unified_id;
        if (!is_plausible(rows.back())) {
          rows.pop_back();
          ++left_out;
        }
      }
      if (code != SQLITE_DONE) {
        return with_context(path, fail_sqlite(use->db().get(), EventTraits<T>::kTable).error());
      }
      select.reset();
    }
    note_left_out(EventTraits<T>::kTable, left_out);
    return {};
  }
  Status read_rows(std::vector<Stack>& stacks);

  /// What selects the table's rows in this file: made once for all files with the same declarations.
  template <typename T>
  Result<std::string> select_of(size_t file, Database& db) {
    std::string& sql = selects_[{files_.schema(file), EventTraits<T>::kTable}];
    if (sql.empty()) {
      ST_ASSIGN(sql, select_sql(db, EventTraits<T>::kTable, column_names<T>()));
    }
    return sql;
  }

  /// One table of one file while it is streamed: in a transaction, so that its segments match its rows while a tracer
  /// writes.
  struct FileTable {
    std::optional<Transaction> snapshot;
    TableHandle table;
    std::vector<std::pair<NodeRun, std::vector<RowGroup>>> runs;  // those with rows in the range
  };

  /// Opens the table for the node runs [begin, end), all of one file.
  template <typename T>
  Status open_table(size_t begin, size_t end, TimeRange range, const std::set<NodeId>* nodes, KeepsOpen keeps,
                    FileTable& out) {
    const size_t file = runs_[begin].file;
    if (files_.is_empty(file, EventTraits<T>::kTable)) {
      return {};
    }
    ST_ASSIGN(OpenFiles::Use use, files_.use(file));
    if (!files_.is_complete(file)) {
      ST_ASSIGN(Transaction snapshot, Transaction::begin(use.db()));
      out.snapshot.emplace(std::move(snapshot));
    }
    for (size_t i = begin; i < end; ++i) {
      if (nodes != nullptr && !nodes->contains(runs_[i].unified_id)) {
        continue;
      }
      ST_ASSIGN(std::vector<RowGroup> groups, row_groups_of(use.db(), EventTraits<T>::kTable, runs_[i], range));
      if (!groups.empty()) {
        out.runs.emplace_back(runs_[i], std::move(groups));
      }
    }
    return out.runs.empty() ? Status() : make_handle<T>(file, use.db(), keeps, out.table);
  }

  /// The first node run of the next file.
  [[nodiscard]] size_t end_of_file(size_t run) const {
    const size_t file = runs_[run].file;
    while (run < runs_.size() && runs_[run].file == file) {
      ++run;
    }
    return run;
  }

  template <typename T>
  Status read_in_order(TimeRange range, const Visitor<T>& visit) {
    const KeepsOpen keeps = files_.have_room_for(files_.size()) ? KeepsOpen::kYes : KeepsOpen::kNo;
    std::deque<FileTable> tables;  // a deque, because tables must not move
    size_t row_group_count = 0;
    size_t run_count = 0;
    for (size_t begin = 0; begin < runs_.size();) {
      const size_t end = end_of_file(begin);
      FileTable& table = tables.emplace_back();
      ST_TRY(open_table<T>(begin, end, range, nullptr, keeps, table));
      for (const auto& [run, groups] : table.runs) {
        row_group_count += groups.size();
        ++run_count;
      }
      if (table.runs.empty()) {
        tables.pop_back();
      }
      begin = end;
    }
    const bool ahead = row_group_count > kFewRowGroups && run_count <= kMostAhead;
    const size_t threads = ahead ? helpers() : 0;
    const typename Cursor<T>::PrefetchPolicy prefetch{
        ahead ? kBatchRowGroups : 1, threads == 0 ? 1 : 1 + std::max<size_t>(1, 2 * (threads + 1) / run_count)};
    std::deque<Cursor<T>> cursors;  // a deque, because cursors must not move
    for (FileTable& table : tables) {
      for (auto& [run, groups] : table.runs) {
        cursors.emplace_back(table.table, run, std::move(groups), range, prefetch);
      }
    }
    ThreadPool workers(threads);
    for (Cursor<T>& cursor : cursors) {
      ST_TRY(cursor.start(workers));
    }
    Status visited = cursors.size() == 1 ? visit_one(cursors.front(), visit) : visit_merged(cursors, visit);
    int64_t left_out = 0;
    for (const FileTable& table : tables) {
      left_out += table.table.left_out;
    }
    note_left_out(EventTraits<T>::kTable, left_out);
    return visited;
  }

  /// Reads one node run after the other while the first batches of the next few are read.
  template <typename T>
  Status read_one_after_the_other(TimeRange range, const std::set<NodeId>* nodes, const Visitor<T>& visit) {
    struct OpenRun {
      std::shared_ptr<FileTable> file;
      Cursor<T> cursor;
    };
    const size_t threads = runs_.empty() ? 0 : helpers();
    const size_t at_once = std::min(runs_.size(), threads + 1);  // node runs of which batches are read
    const typename Cursor<T>::PrefetchPolicy prefetch{
        kBatchRowGroups, threads == 0 ? 1 : 1 + std::max<size_t>(1, 2 * (threads + 1) / at_once)};
    SpareRows<T> spare;
    std::deque<OpenRun> runs;  // a deque, because cursors must not move
    ThreadPool workers(threads);
    int64_t left_out = 0;
    const auto finish_first = [&]() -> Status {
      ST_TRY(runs.front().cursor.fill());
      ST_TRY(visit_one(runs.front().cursor, visit));
      runs.front().cursor.give_storage_to(spare);
      const std::shared_ptr<FileTable> file = std::move(runs.front().file);
      runs.pop_front();
      left_out += file.use_count() == 1 ? file->table.left_out.load() : 0;
      return {};
    };
    for (size_t begin = 0; begin < runs_.size();) {
      const size_t end = end_of_file(begin);
      const auto file = std::make_shared<FileTable>();
      ST_TRY(open_table<T>(begin, end, range, nodes, KeepsOpen::kYes, *file));
      for (auto& [run, groups] : file->runs) {
        runs.push_back({file, Cursor<T>(file->table, run, std::move(groups), range, prefetch)});
        runs.back().cursor.use_storage_of(spare);
        runs.back().cursor.begin(workers);
        while (runs.size() > threads + 1) {
          ST_TRY(finish_first());
        }
      }
      begin = end;
    }
    while (!runs.empty()) {
      ST_TRY(finish_first());
    }
    note_left_out(EventTraits<T>::kTable, left_out);
    return {};
  }

  /// A table may be read several times: keeps the largest number of left-out rows.
  void note_left_out(std::string_view table, int64_t rows) {
    if (report_ != nullptr && rows > 0) {
      int64_t& noted = report_->left_out[std::string(table)];
      noted = std::max(noted, rows);
    }
  }

  template <typename T>
  Status make_handle(size_t file, Database& db, KeepsOpen keeps, TableHandle& table) {
    table.path = files_.path(file);
    std::optional<TableLayout>& layout = layouts_[{files_.schema(file), EventTraits<T>::kTable}];
    if (!layout) {
      ST_ASSIGN(layout, find_table_layout(db, EventTraits<T>::kTable, kIdColumn<T>, column_names<T>()));
    }
    ST_ASSIGN(FoundTable found, find_btree_table(db, EventTraits<T>::kTable, *layout, keeps));
    table.pages = std::move(found.table);
    table.fallbacks = report_ != nullptr ? &report_->fallbacks : nullptr;
    table.most_rows = most_rows(table.path);
    if (table.pages == nullptr) {
      table.count(found.reason);
    }
    ST_ASSIGN(const std::string sql, select_of<T>(file, db));
    table.sql = fmt::format("{0} AND {1} >= ? AND {1} < ?", sql, kIdColumn<T>);
    table.open = [this, file] { return files_.use(file); };
    return {};
  }

  template <typename T>
  static Status visit_one(Cursor<T>& cursor, const Visitor<T>& visit) {
    while (!cursor.block_done()) {
      for (const Timed<T>& timed : cursor.block()) {
        visit(*timed.row);
      }
      cursor.skip_block();
      ST_TRY(cursor.fill());
    }
    return {};
  }

  /// A heap of the cursors by the time of their next row; equal times by file order.
  template <typename T>
  static Status visit_merged(std::deque<Cursor<T>>& cursors, const Visitor<T>& visit) {
    struct Head {
      int64_t time_ns;
      size_t cursor;
      auto operator<=>(const Head&) const = default;
    };
    std::priority_queue<Head, std::vector<Head>, std::greater<>> heap;
    for (size_t i = 0; i < cursors.size(); ++i) {
      if (!cursors[i].block_done()) {
        heap.push({cursors[i].row().timestamp_ns, i});
      }
    }
    while (!heap.empty()) {
      const size_t index = heap.top().cursor;
      heap.pop();
      Cursor<T>& cursor = cursors[index];
      bool first = true;
      while (!cursor.block_done()) {
        const Head head{cursor.row().timestamp_ns, index};
        if (!first && !heap.empty() && head > heap.top()) {
          heap.push(head);
          break;
        }
        visit(cursor.row());
        first = false;
        cursor.next();
        if (cursor.block_done()) {
          ST_TRY(cursor.fill());
        }
      }
    }
    return {};
  }

  static constexpr size_t kBatchRowGroups = 2;  // some 2,000 rows: enough to be worth waking a thread
  static constexpr size_t kMostAhead = 64;      // with more node runs, reading batches ahead would take too much memory
  static constexpr size_t kFewRowGroups = 16;   // too few to be worth a thread

  OpenFiles files_;
  std::vector<NodeRun> runs_;                            // by file
  using OfSchema = std::pair<size_t, std::string_view>;  // OpenFiles::schema, table
  std::map<OfSchema, std::string> selects_;
  std::map<OfSchema, std::optional<TableLayout>> layouts_;
  ReadReport* report_ = nullptr;
};

/// Skips stacks that another file had.
Status RecordingSource::read_rows(std::vector<Stack>& stacks) {
  std::map<int64_t, Stack> found;
  for (size_t file = 0; file < files_.size(); ++file) {
    if (files_.is_empty(file, EventTraits<Stack>::kTable)) {
      continue;
    }
    ST_ASSIGN(OpenFiles::Use use, files_.use(file));
    ST_ASSIGN(const std::string sql, select_of<Stack>(file, use.db()));
    ST_ASSIGN(Statement select, use.db().prepare(sql));
    const int64_t most = most_rows(files_.path(file));
    int code = SQLITE_DONE;
    for (int64_t count = 0; (code = select.step()) == SQLITE_ROW; ++count) {
      if (count > most) {
        return fail_more_rows(files_.path(file), EventTraits<Stack>::kTable);
      }
      Stack stack;
      extract(select, stack);
      found.emplace(stack.stack_id, std::move(stack));
    }
    if (code != SQLITE_DONE) {
      return with_context(files_.path(file), fail_sqlite(use.db().get(), EventTraits<Stack>::kTable).error());
    }
  }
  for (auto& [id, stack] : found) {
    stacks.push_back(std::move(stack));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<OpenRecordings>> open_recordings(std::span<const std::string> paths, ReadReport* report) {
  return RecordingSource::open(paths, report);
}

int64_t ReadReport::rows_left_out() const {
  int64_t rows = 0;
  for (const auto& [table, count] : left_out) {
    rows += count;
  }
  return rows;
}

std::vector<std::string> ReadReport::notes() const {
  std::vector<std::string> notes;
  for (size_t i = 0; i < fallbacks.size(); ++i) {
    const auto reason = static_cast<Fallback>(i);
    if (fallbacks[i] > 0 && reason != Fallback::kOpenFile) {
      notes.push_back(
          fmt::format("rows were read with SQL instead of from the file's pages, which is slower: {} ({} times)",
                      to_text(reason), fallbacks[i].load()));
    }
  }
  for (const auto& [table, count] : left_out) {
    notes.push_back(
        fmt::format("{} of table {} {} left out: a time before 1970 or after 2096, or a duration or size that no "
                    "job has; the recording is damaged, or was altered",
                    count_of(count, "row"), table, count == 1 ? "was" : "were"));
  }
  return notes;
}

Result<std::unique_ptr<EventSource>> open_recording(const std::string& path) {
  return open_recordings(std::span(&path, 1));
}

}  // namespace stalltrace::store
