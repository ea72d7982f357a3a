// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/guard.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "store/sqlite/sqlite.h"

namespace stalltrace::store {
namespace {

constexpr int kStepsPerCheck = 1000;  // virtual machine steps between two checks: well under a millisecond
/// An analysis reads each table a few times with some 50 steps a row, and rows have at least 20 bytes: some 30 steps
/// per byte of the file. Pages that refer to each other in a cycle exceed any factor.
constexpr int64_t kStepsPerByte = 512;
constexpr int64_t kFreeSteps = 50'000'000;
constexpr int64_t kLeastRowBytes = 4;  // a cell and its pointer
/// For all connections of the process; mainly sorts and temporary tables of a query.
constexpr int64_t kHeapBytes = int64_t{1} << 30;
/// From here on caches of pages reuse their own memory: many recordings are open at once, each with a cache.
constexpr int64_t kCachesBytes = kHeapBytes / 4;

/// More than recordings and queries need. SQLite's own limits are larger by a factor of 10 to 10,000.
constexpr std::array<std::pair<int, int>, 10> kLimits{{{SQLITE_LIMIT_LENGTH, 16 << 20},
                                                       {SQLITE_LIMIT_SQL_LENGTH, 256 << 10},
                                                       {SQLITE_LIMIT_COLUMN, 256},
                                                       {SQLITE_LIMIT_EXPR_DEPTH, 200},
                                                       {SQLITE_LIMIT_COMPOUND_SELECT, 50},
                                                       {SQLITE_LIMIT_VDBE_OP, 100'000},
                                                       {SQLITE_LIMIT_FUNCTION_ARG, 100},
                                                       {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 100},
                                                       {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
                                                       {SQLITE_LIMIT_WORKER_THREADS, 0}}};

/// Functions of numbers, texts, times, JSON and groups; none has access to anything outside of the row.
constexpr auto kAllowedFunctions = std::to_array<std::string_view>({"->",
                                                                    "->>",
                                                                    "abs",
                                                                    "acos",
                                                                    "acosh",
                                                                    "asin",
                                                                    "asinh",
                                                                    "atan",
                                                                    "atan2",
                                                                    "atanh",
                                                                    "avg",
                                                                    "ceil",
                                                                    "ceiling",
                                                                    "changes",
                                                                    "char",
                                                                    "coalesce",
                                                                    "concat",
                                                                    "concat_ws",
                                                                    "cos",
                                                                    "cosh",
                                                                    "count",
                                                                    "cume_dist",
                                                                    "current_date",
                                                                    "current_time",
                                                                    "current_timestamp",
                                                                    "date",
                                                                    "datetime",
                                                                    "degrees",
                                                                    "dense_rank",
                                                                    "exp",
                                                                    "first_value",
                                                                    "floor",
                                                                    "format",
                                                                    "glob",
                                                                    "group_concat",
                                                                    "hex",
                                                                    "ifnull",
                                                                    "iif",
                                                                    "instr",
                                                                    "json",
                                                                    "json_array",
                                                                    "json_array_length",
                                                                    "json_error_position",
                                                                    "json_extract",
                                                                    "json_group_array",
                                                                    "json_group_object",
                                                                    "json_insert",
                                                                    "json_object",
                                                                    "json_patch",
                                                                    "json_quote",
                                                                    "json_remove",
                                                                    "json_replace",
                                                                    "json_set",
                                                                    "json_type",
                                                                    "json_valid",
                                                                    "julianday",
                                                                    "lag",
                                                                    "last_insert_rowid",
                                                                    "last_value",
                                                                    "lead",
                                                                    "length",
                                                                    "like",
                                                                    "likelihood",
                                                                    "likely",
                                                                    "ln",
                                                                    "log",
                                                                    "log10",
                                                                    "log2",
                                                                    "lower",
                                                                    "ltrim",
                                                                    "max",
                                                                    "min",
                                                                    "mod",
                                                                    "nth_value",
                                                                    "ntile",
                                                                    "nullif",
                                                                    "octet_length",
                                                                    "percent_rank",
                                                                    "pi",
                                                                    "pow",
                                                                    "power",
                                                                    "printf",
                                                                    "quote",
                                                                    "radians",
                                                                    "random",
                                                                    "randomblob",
                                                                    "rank",
                                                                    "replace",
                                                                    "round",
                                                                    "row_number",
                                                                    "rtrim",
                                                                    "sign",
                                                                    "sin",
                                                                    "sinh",
                                                                    "sqlite_version",
                                                                    "sqrt",
                                                                    "strftime",
                                                                    "string_agg",
                                                                    "substr",
                                                                    "substring",
                                                                    "sum",
                                                                    "tan",
                                                                    "tanh",
                                                                    "time",
                                                                    "timediff",
                                                                    "total",
                                                                    "total_changes",
                                                                    "trim",
                                                                    "trunc",
                                                                    "typeof",
                                                                    "unhex",
                                                                    "unicode",
                                                                    "unixepoch",
                                                                    "unlikely",
                                                                    "upper",
                                                                    "zeroblob"});
static_assert(std::ranges::is_sorted(kAllowedFunctions));

/// Pragmas that show the schema; their argument can only be a table, and they change nothing.
constexpr std::array<std::string_view, 10> kAllowedPragmas{
    "table_info",  "table_xinfo",   "table_list",   "index_list",     "index_info",
    "index_xinfo", "database_list", "user_version", "application_id", "integrity_check"};

template <size_t n>
bool contains(const std::array<std::string_view, n>& names, const char* name) {
  return name != nullptr && std::ranges::any_of(names, [&](std::string_view known) {
           return known.size() == std::strlen(name) &&
                  sqlite3_strnicmp(known.data(), name, static_cast<int>(known.size())) == 0;
         });
}

bool is(const char* name, const char* wanted) { return name != nullptr && sqlite3_stricmp(name, wanted) == 0; }

bool allows_pragma(const char* name, const char* argument, ReaderKind kind) {
  if (kind == ReaderKind::kMerge && is(name, "locking_mode")) {
    return true;
  }
  const bool sets = is(name, "user_version") || is(name, "application_id");
  return contains(kAllowedPragmas, name) && !(sets && argument != nullptr);
}

bool allows(ReaderKind kind, int action, const char* first, const char* second, const char* database,
            const char* inner) {
  const bool person = kind == ReaderKind::kQuery;
  if (!person && inner != nullptr) {
    return false;  // called from a view or a trigger: our views are for people
  }
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
      return true;
    case SQLITE_RECURSIVE:
      return person;
    case SQLITE_UPDATE:
      // SQLite requests this when it declares a table-valued function such as json_each; a real change of the schema is
      // still refused, since the connection is defensive.
      return is(first, "sqlite_master");
    case SQLITE_FUNCTION:
      // One call of printf can take seconds between two time checks: allowed only in the user's own SQL.
      return contains(kAllowedFunctions, second) &&
             !(inner != nullptr && (is(second, "printf") || is(second, "format")));
    case SQLITE_PRAGMA:
      return allows_pragma(first, second, kind);
    case SQLITE_TRANSACTION:
      return !person;
    case SQLITE_INSERT:
      return kind == ReaderKind::kMerge && is(database, "main");
    case SQLITE_ATTACH:
    case SQLITE_DETACH:
      return kind == ReaderKind::kMerge;
    default:
      return false;
  }
}

int authorize(void* guard, int action, const char* first, const char* second, const char* database, const char* inner) {
  return allows(static_cast<Guard*>(guard)->kind, action, first, second, database, inner) ? SQLITE_OK : SQLITE_DENY;
}

int64_t size_with_log(const std::string& path) {
  int64_t bytes = 0;
  for (const char* suffix : {"", "-wal"}) {
    struct stat status {};
    bytes += ::stat((path + suffix).c_str(), &status) == 0 ? status.st_size : 0;
  }
  return bytes;
}

int interrupts(void* context) {
  Guard& guard = *static_cast<Guard*>(context);
  guard.steps += kStepsPerCheck;
  if (guard.cancelled != nullptr && *guard.cancelled) {
    return 1;
  }
  if (guard.deadline_ns != 0 && monotonic_now_ns() > guard.deadline_ns) {
    return 1;
  }
  if (guard.kind == ReaderKind::kQuery || guard.steps <= kFreeSteps) {
    return 0;
  }
  // The file may still grow: it is asked again whenever the free steps have been used up.
  return (guard.steps - kFreeSteps) / kStepsPerByte > size_with_log(guard.path) ? 1 : 0;
}

}  // namespace

Status watch(Database& db, Guard& guard, const std::string& settings) {
  sqlite3* handle = db.get();
  sqlite3_hard_heap_limit64(kHeapBytes);
  sqlite3_soft_heap_limit64(kCachesBytes);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, nullptr);
  std::array<const char*, 3> kept{"json_each", "json_tree", nullptr};
  sqlite3_drop_modules(handle, kept.data());
  for (const auto& [limit, value] : kLimits) {
    sqlite3_limit(handle, limit, value);
  }
  sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, guard.kind == ReaderKind::kMerge ? 1 : 0);
  sqlite3_progress_handler(handle, kStepsPerCheck, &interrupts, &guard);
  sqlite3_set_authorizer(handle, nullptr, nullptr);
  ST_TRY(db.execute("PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0;" + settings));
  sqlite3_set_authorizer(handle, &authorize, &guard);
  return {};
}

int64_t most_rows(const std::string& path) { return size_with_log(path) / kLeastRowBytes + 1; }

std::unexpected<Error> fail_more_rows(const std::string& path, std::string_view table) {
  return fail(fmt::format("{}: table {} claims more rows than a file of its size can hold", path, table),
              "the file is damaged, or made to keep its reader busy: copy it again from where it was made",
              ErrorKind::kCorrupt);
}

}  // namespace stalltrace::store
