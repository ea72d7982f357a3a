// SPDX-License-Identifier: Apache-2.0
#include "store/read/reader.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <thread>

#include "base/process/descriptor_limit.h"
#include "base/text.h"
#include "store/read/cursor.h"
#include "store/sqlite/open.h"

namespace stalltrace::store {
namespace {

class RecordingSource final : public OpenRecordings {
 public:
  static Result<std::unique_ptr<OpenRecordings>> open(std::span<const std::string> paths, ReadReport* report) {
    auto source = std::unique_ptr<RecordingSource>(new RecordingSource);
    source->report_ = report;
    ST_TRY(allow_open_files(paths.size() * kDescriptorsOfFile + kOtherDescriptors,
                            fmt::format("{} recordings at once", paths.size()), "merge some of them first"));
    NodePlan nodes;
    for (const std::string& path : paths) {
      ST_ASSIGN(Database db, open_for_reading(path));
      ST_TRY(nodes.add(db, source->files_.size()));
      source->files_.push_back(std::move(db));
      source->paths_.push_back(path);
    }
    ST_ASSIGN(source->parts_, nodes.parts());
    return source;
  }

  void begin_request() override {
    for (Database& db : files_) {
      db.restart_guard();
    }
  }

  Status read_state(AnyRows rows) override {
    return std::visit([this]<typename T>(std::vector<T>* all) { return read_rows(*all); }, rows);
  }
  Status read_stream(TimeRange range, AnyVisitor visitor) override {
    return std::visit([&]<typename T>(const Visitor<T>* visit) { return read_in_order(range, *visit); }, visitor);
  }

 private:
  RecordingSource() = default;

  /// The rows of every node run, file by file.
  template <typename T>
  Status read_rows(std::vector<T>& rows) {
    int64_t left_out = 0;
    Statement select;  // for the file of the last part
    std::optional<size_t> selects_from;
    int64_t most = 0;
    for (const NodeRun& part : parts_) {
      Database& db = files_[part.file];
      if (selects_from != part.file) {
        ST_ASSIGN(const std::string sql, select_sql(db, EventTraits<T>::kTable, column_names<T>()));
        ST_ASSIGN(select, db.prepare(sql + " AND node_id = ?"));
        selects_from = part.file;
        most = most_rows(paths_[part.file]);
      }
      select.bind(1, static_cast<int64_t>(part.stored));
      int code = SQLITE_DONE;
      for (int64_t count = 0; (code = select.step()) == SQLITE_ROW; ++count) {
        if (count > most) {
          return fail_more_rows(paths_[part.file], EventTraits<T>::kTable);
        }
        extract(select, rows.emplace_back());
        rows.back().node_id = part.shown;
        if (!is_plausible(rows.back())) {
          rows.pop_back();
          ++left_out;
        }
      }
      if (code != SQLITE_DONE) {
        return with_context(paths_[part.file], fail_sqlite(db.get(), EventTraits<T>::kTable).error());
      }
      select.reset();
    }
    note_left_out(EventTraits<T>::kTable, left_out);
    return {};
  }
  Status read_rows(std::vector<Stack>& stacks);

  /// Streams a table. Each file is read in a transaction, so that its segments match its rows while a tracer writes.
  template <typename T>
  Status read_in_order(TimeRange range, const Visitor<T>& visit) {
    std::vector<Transaction> snapshots;
    std::deque<TableHandle> tables;  // a deque, because tables must not move
    for (size_t file = 0; file < files_.size(); ++file) {
      ST_ASSIGN(Transaction snapshot, Transaction::begin(files_[file]));
      snapshots.push_back(std::move(snapshot));
      ST_TRY(access<T>(file, tables.emplace_back()));
    }
    std::vector<std::vector<RowGroup>> row_groups;
    size_t row_group_count = 0;
    for (const NodeRun& part : parts_) {
      ST_ASSIGN(row_groups.emplace_back(), row_groups_of(files_[part.file], EventTraits<T>::kTable, part, range));
      row_group_count += row_groups.back().size();
    }
    const bool ahead = row_group_count > kFewRowGroups && parts_.size() <= kMostAhead;
    const size_t threads = ahead ? helpers() : 0;
    const typename Cursor<T>::PrefetchPolicy pace{
        ahead ? kBatchRowGroups : 1, threads == 0 ? 1 : 1 + std::max<size_t>(1, 2 * (threads + 1) / parts_.size())};
    std::deque<Cursor<T>> cursors;  // a deque, because cursors must not move
    for (size_t i = 0; i < parts_.size(); ++i) {
      cursors.emplace_back(tables[parts_[i].file], parts_[i], std::move(row_groups[i]), range, pace);
    }
    ThreadPool workers(threads);
    for (Cursor<T>& cursor : cursors) {
      ST_TRY(cursor.start(workers));
    }
    Status visited = cursors.size() == 1 ? visit_one(cursors.front(), visit) : visit_merged(cursors, visit);
    int64_t left_out = 0;
    for (const TableHandle& table : tables) {
      left_out += table.left_out;
    }
    note_left_out(EventTraits<T>::kTable, left_out);
    return visited;
  }

  /// A table may be read several times: keeps the largest number of left-out rows.
  void note_left_out(std::string_view table, int64_t rows) {
    if (report_ != nullptr && rows > 0) {
      int64_t& noted = report_->left_out[std::string(table)];
      noted = std::max(noted, rows);
    }
  }

  template <typename T>
  Status access(size_t file, TableHandle& table) {
    const std::vector<std::string> columns = column_names<T>();
    table.path = paths_[file];
    table.db = &files_[file];
    ST_ASSIGN(FoundTable found, find_btree_table(files_[file], EventTraits<T>::kTable, kIdColumn<T>, columns));
    table.pages = std::move(found.table);
    table.fallbacks = report_ != nullptr ? &report_->fallbacks : nullptr;
    table.most_rows = most_rows(paths_[file]);
    if (table.pages == nullptr) {
      table.count(found.reason);
    }
    ST_ASSIGN(const std::string sql, select_sql(files_[file], EventTraits<T>::kTable, columns));
    ST_ASSIGN(table.select, files_[file].prepare(fmt::format("{0} AND {1} >= ? AND {1} < ?", sql, kIdColumn<T>)));
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

  /// Number of threads in addition to the caller's. More would only wait for the analysis.
  static size_t helpers() { return std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostHelpers + 1) - 1; }

  static constexpr size_t kDescriptorsOfFile = 4;  // SQLite's for file, log and index; the page reader's
  static constexpr size_t kOtherDescriptors = 64;
  static constexpr size_t kBatchRowGroups = 2;  // some 2,000 rows: enough to be worth waking a thread
  static constexpr size_t kMostHelpers = 3;
  static constexpr size_t kMostAhead = 64;     // with more node runs, reading batches ahead would take too much memory
  static constexpr size_t kFewRowGroups = 16;  // too few to be worth a thread

  std::vector<std::string> paths_;
  std::vector<Database> files_;
  std::vector<NodeRun> parts_;
  ReadReport* report_ = nullptr;
};

/// Skips stacks that another file had.
Status RecordingSource::read_rows(std::vector<Stack>& stacks) {
  std::map<int64_t, Stack> found;
  for (size_t file = 0; file < files_.size(); ++file) {
    ST_ASSIGN(const std::string sql, select_sql(files_[file], EventTraits<Stack>::kTable, column_names<Stack>()));
    ST_ASSIGN(Statement select, files_[file].prepare(sql));
    const int64_t most = most_rows(paths_[file]);
    int code = SQLITE_DONE;
    for (int64_t count = 0; (code = select.step()) == SQLITE_ROW; ++count) {
      if (count > most) {
        return fail_more_rows(paths_[file], EventTraits<Stack>::kTable);
      }
      Stack stack;
      extract(select, stack);
      found.emplace(stack.stack_id, std::move(stack));
    }
    if (code != SQLITE_DONE) {
      return with_context(paths_[file], fail_sqlite(files_[file].get(), EventTraits<Stack>::kTable).error());
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
