// SPDX-License-Identifier: Apache-2.0
#include "store/merge.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/clock.h"
#include "base/files/caller.h"
#include "base/files/new_file.h"
#include "store/read/node_runs.h"
#include "store/schema/open_recording.h"
#include "store/schema/schema.h"
#include "store/schema/table.h"
#include "store/sqlite/by_descriptor.h"
#include "store/sqlite/table_columns.h"

namespace stalltrace::store {
namespace {

/// The column names of T for an INSERT, and for a SELECT that yields the unified ids of a node run.
struct ColumnLists {
  std::string insert;
  std::string select;
};

/// All nodes share the stacks.
template <typename T>
concept OfOneNode = requires(const T& row) {
  row.node_id;
};

/// Ids hold the node in their upper bits, so another node number means a constant difference.
std::string renumbered(std::string_view column, const NodeRun& run) {
  const int64_t shift = make_event_id(run.unified_id, 0) - make_event_id(run.id_in_file, 0);
  return shift == 0 ? std::string(column) : fmt::format("{} + {}", column, shift);
}

template <typename T>
ColumnLists column_lists(const NodeRun& run, const std::set<std::string, std::less<>>& present) {
  ColumnLists lists;
  const auto add = [&](const std::string& name, const std::string& expression) {
    lists.insert += (lists.insert.empty() ? "" : ", ") + name;
    lists.select += (lists.select.empty() ? "" : ", ") + (present.contains(name) ? expression : "NULL");
  };
  if constexpr (EventTraits<T>::kKind == TableKind::kNumbered) {
    add("id", renumbered("id", run));
  }
  for (const std::string& name : column_names<T>()) {
    if (name == "node_id") {
      add(name, fmt::format("{}", run.unified_id));
    } else {
      add(name, name == "event_id" || name == "collective_id" ? renumbered(name, run) : name);
    }
  }
  return lists;
}

/// Fills `output`, an empty file.
class Merger {
 public:
  Merger(std::span<const std::string> inputs, int output, const MergeOptions& options)
      : inputs_(inputs), output_(output), options_(options) {}

  Result<MergeSummary> run() {
    ST_TRY(plan());
    ST_ASSIGN(db_, Database::open(file_uri(descriptor_path(output_), "mode=rw"),
                                  SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI, by_descriptor_vfs()));
    // No other process sees the file before it is complete, so it needs no journal; it is synced once, at the end.
    ST_TRY(
        db_.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA secure_delete = OFF;"
                    "PRAGMA cache_size = -65536"));
    ST_TRY(migrate(db_));
    for (size_t file = 0; file < inputs_.size(); ++file) {
      ST_TRY(copy_file(file));
      if (options_.progress) {
        options_.progress(file + 1, inputs_.size());
      }
    }
    ST_TRY(
        db_.execute(fmt::format("INSERT OR REPLACE INTO meta VALUES('creator', 'stalltrace merge'), "
                                "('created_ns', '{}'), ('merged_from', '{}'), ('clock', 'UTC nanoseconds: "
                                "CLOCK_MONOTONIC plus node.clock_offset_ns')",
                                utc_now_ns(), inputs_.size())));
    db_ = Database();
    return summary_;
  }

 private:
  Status plan() {
    NodePlan nodes;
    for (size_t file = 0; file < inputs_.size(); ++file) {  // one open file at a time: there may be thousands
      ST_ASSIGN(Database db, open_for_reading(inputs_[file]));
      ST_ASSIGN(const int64_t given, db.integer("SELECT count(*) FROM node"));
      nodes_given_ += static_cast<size_t>(given);
      ST_TRY(nodes.add(db, file));
    }
    ST_ASSIGN(runs_, nodes.runs());
    summary_.nodes = runs_.size();
    summary_.duplicate_nodes = nodes_given_ > runs_.size() ? nodes_given_ - runs_.size() : 0;
    summary_.renumbered_nodes = static_cast<size_t>(
        std::count_if(runs_.begin(), runs_.end(), [](const NodeRun& run) { return run.unified_id != run.id_in_file; }));
    return {};
  }

  /// Attaches one input at a time, so that SQLite's limit on attached files does not limit the inputs.
  Status copy_file(size_t file) {
    ST_TRY(attach_for_reading(db_, inputs_[file]));
    Status status;
    {
      auto transaction = Transaction::begin(db_);
      status = transaction ? copy_runs(file) : Status(std::unexpected(std::move(transaction.error())));
      if (status) {
        status = transaction->commit();
      }
    }
    const Status detached = db_.execute("DETACH input");
    status = status ? detached : status;
    return status ? status : with_context(inputs_[file], std::move(status.error()));
  }

  Status copy_runs(size_t file) {
    ST_ASSIGN(const bool as_it_is, can_copy_as_it_is(file));
    if (as_it_is) {
      ST_TRY(copy_tables());
    } else {
      for (const NodeRun& run : runs_) {
        if (run.file == file) {
          ST_TRY(copy_run(run));
        }
      }
    }
    // A stack's id is a hash of its content: the same id is the same stack.
    return insert("INSERT OR IGNORE INTO main.stack SELECT stack_id, frames FROM input.stack");
  }

  /// True if every row of the file is wanted unchanged and the file has this schema version.
  Result<bool> can_copy_as_it_is(size_t file) {
    size_t unchanged = 0;
    size_t runs = 0;
    for (const NodeRun& run : runs_) {
      if (run.file == file) {
        unchanged += run.unified_id == run.id_in_file ? 1 : 0;
        runs = run.runs_in_file;
      }
    }
    ST_ASSIGN(const int64_t different, db_.integer("SELECT count(*) FROM main.sqlite_schema AS ours "
                                                   "LEFT JOIN input.sqlite_schema AS theirs USING(type, name) "
                                                   "WHERE ours.type = 'table' AND ours.sql IS NOT theirs.sql"));
    return runs > 0 && unchanged == runs && different == 0;
  }

  /// SQLite copies such rows without decoding them.
  Status copy_tables() {
    Status status;
    const auto copy_table = [&](std::string_view table) {
      if (status) {
        status = insert(fmt::format("INSERT INTO main.{0} SELECT * FROM input.{0}", table));
      }
    };
    for_each_type(kEventTypes, [&]<typename T>() {
      if constexpr (OfOneNode<T>) {
        copy_table(EventTraits<T>::kTable);
      }
    });
    copy_table("segment");
    return status;
  }

  Status copy_run(const NodeRun& run) {
    Status status;
    for_each_type(kEventTypes, [&]<typename T>() {
      if constexpr (OfOneNode<T>) {
        if (status) {
          status = copy<T>(run, condition_of<T>(run));
        }
      }
    });
    return status ? copy_segments(run) : status;
  }

  /// The condition that selects the node run's rows in T's table.
  template <typename T>
  static std::string condition_of(const NodeRun& run) {
    if constexpr (StreamedType<T>) {
      return fmt::format("{0} >= {1} AND {0} < {2} ORDER BY {0}", kIdColumn<T>, run.first_id, run.end_id);
    } else {
      return fmt::format("node_id = {}", run.id_in_file);
    }
  }

  template <typename T>
  Status copy(const NodeRun& run, const std::string& condition) {
    ST_ASSIGN(const auto present, visible_columns(db_, EventTraits<T>::kTable, "input"));
    if (present.empty()) {
      return {};  // a table that the input's older schema lacks
    }
    const ColumnLists lists = column_lists<T>(run, present);
    return insert(fmt::format("INSERT INTO main.{0}({1}) SELECT {2} FROM input.{0} WHERE {3}", EventTraits<T>::kTable,
                              lists.insert, lists.select, condition));
  }

  Status copy_segments(const NodeRun& run) {
    return insert(
        fmt::format("INSERT INTO main.segment(source, first_id, node_id, min_ns, end_ns, rows) "
                    "SELECT source, {}, {}, min_ns, end_ns, rows FROM input.segment WHERE node_id = {}",
                    renumbered("first_id", run), run.unified_id, run.id_in_file));
  }

  Status insert(const std::string& sql) {
    ST_TRY(db_.execute(sql));
    summary_.rows += static_cast<uint64_t>(sqlite3_changes64(db_.get()));
    return {};
  }

  std::span<const std::string> inputs_;
  int output_;
  const MergeOptions& options_;
  Database db_;
  std::vector<NodeRun> runs_;
  size_t nodes_given_ = 0;
  MergeSummary summary_;
};

Status exists_already(const std::string& output) {
  return fail(output + ": exists already", "choose another file with --out");
}

}  // namespace

Result<MergeSummary> merge_recordings(std::span<const std::string> inputs, const std::string& output,
                                      const MergeOptions& options) {
  if (inputs.empty()) {
    return fail("merge: no recordings given", "name at least one", ErrorKind::kUsage);
  }
  if (::access(output.c_str(), F_OK) == 0) {
    ST_TRY(exists_already(output));
  }
  auto file = NewFile::create(output, file_mode(options.readers));
  if (!file) {
    file.error().remedy = "choose a folder you may write to with --out";
    return std::unexpected(std::move(file.error()));
  }
  Result<MergeSummary> summary = Merger(inputs, file->descriptor(), options).run();
  if (!summary) {
    return with_context("merge into " + output, std::move(summary.error()));
  }
  (void)hand_to_caller(file->descriptor());
  if (Status published = file->publish(IfThere::kFail); !published) {
    if (::access(output.c_str(), F_OK) == 0) {
      ST_TRY(exists_already(output));
    }
    return std::unexpected(std::move(published.error()));
  }
  return summary;
}

}  // namespace stalltrace::store
