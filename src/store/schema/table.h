// SPDX-License-Identifier: Apache-2.0
// What the store knows of each table besides its columns: the SQL made from the column list, and when a row of a
// streamed table starts and ends. Internal to store/.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "store/schema/columns.h"
#include "store/write/zone_map.h"

namespace stalltrace {

template <typename T>
std::vector<std::string> column_names() {
  std::vector<std::string> names;
  const T row;
  each_column(row, [&](const char* name, const auto& /*field*/) { names.emplace_back(name); });
  return names;
}

/// "INSERT OR REPLACE INTO table(columns) VALUES(?, ...)"; a numbered table has its `id` as the first parameter.
template <typename T>
std::string insert_sql() {
  constexpr bool kNumbered = TableOf<T>::kKind == TableKind::kNumbered;
  std::string columns = kNumbered ? "id" : "";
  std::string values = kNumbered ? "?" : "";
  for (const std::string& name : column_names<T>()) {
    const char* separator = columns.empty() ? "" : ", ";
    columns += separator + name;
    values += std::string(separator) + "?";
  }
  return fmt::format("INSERT {}INTO {}({}) VALUES({})", kNumbered ? "" : "OR REPLACE ", TableOf<T>::kName, columns,
                     values);
}

/// End of an event: where it reaches to in time. kForever while open.
inline int64_t end_of(const Collective& row) { return row.settled_ns().value_or(kForever); }
inline int64_t end_of(const NetSpan& row) { return row.timestamp_ns + row.duration_ns; }
inline int64_t end_of(const WaitSpan& row) { return row.open ? kForever : row.timestamp_ns + row.window_ns; }
inline int64_t end_of(const ProxyStep& row) { return row.duration_ns ? row.timestamp_ns + *row.duration_ns : kForever; }
inline int64_t end_of(const PacketDrop& row) { return row.timestamp_ns + row.duration_ns; }
inline int64_t end_of(const TcpEvent& row) { return row.timestamp_ns; }
inline int64_t end_of(const TcpSample& row) { return row.timestamp_ns; }
inline int64_t end_of(const HostSample& row) { return row.timestamp_ns; }
inline int64_t end_of(const PortCounter& row) { return row.timestamp_ns; }

/// The same as SQL over the table's columns; NULL while open.
template <typename T>
inline constexpr std::string_view kEndSql = "timestamp_ns";
template <>
inline constexpr std::string_view kEndSql<Collective> =
    "timestamp_ns + iif(completion = 'untold', ifnull(launch_ns, 0), duration_ns)";
template <>
inline constexpr std::string_view kEndSql<NetSpan> = "timestamp_ns + duration_ns";
template <>
inline constexpr std::string_view kEndSql<PacketDrop> = "timestamp_ns + duration_ns";
template <>
inline constexpr std::string_view kEndSql<ProxyStep> = "timestamp_ns + duration_ns";
template <>
inline constexpr std::string_view kEndSql<WaitSpan> = "iif(open, NULL, timestamp_ns + window_ns)";

}  // namespace stalltrace
