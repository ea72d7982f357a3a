// SPDX-License-Identifier: Apache-2.0
// SQL generated from a table's column list, and the end of a row as SQL. Internal to store/.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "store/schema/columns.h"

namespace stalltrace::store {

template <typename T>
std::vector<std::string> column_names() {
  std::vector<std::string> names;
  const T row;
  each_column(row, [&](const char* name, const auto& /*field*/) { names.emplace_back(name); });
  return names;
}

/// "INSERT OR REPLACE INTO table(columns) VALUES(?, ...)"; for a numbered table, `id` is the first parameter.
template <typename T>
std::string insert_sql() {
  constexpr bool kNumbered = EventTraits<T>::kKind == TableKind::kNumbered;
  std::string columns = kNumbered ? "id" : "";
  std::string values = kNumbered ? "?" : "";
  for (const std::string& name : column_names<T>()) {
    const char* separator = columns.empty() ? "" : ", ";
    columns += separator + name;
    values += std::string(separator) + "?";
  }
  return fmt::format("INSERT {}INTO {}({}) VALUES({})", kNumbered ? "" : "OR REPLACE ", EventTraits<T>::kTable, columns,
                     values);
}

/// EventTraits<T>::end_ns as SQL over the table's columns; NULL while the row is open. A test compares the two for
/// every type.
template <StreamedType T>
inline constexpr std::string_view kEndSql = requires(T row) {
  row.duration_ns;
}
? "timestamp_ns + duration_ns" : "timestamp_ns";
template <>
inline constexpr std::string_view kEndSql<Collective> =
    "timestamp_ns + iif(completion IN ('open', 'call', 'profiler', 'sync', 'network'), duration_ns, ifnull(launch_ns, "
    "0))";
template <>
inline constexpr std::string_view kEndSql<WaitSpan> = "iif(open, NULL, timestamp_ns + window_ns)";

}  // namespace stalltrace::store
