// SPDX-License-Identifier: Apache-2.0
#include "store/read/table_values.h"

#include <string>

#include "store/schema/bind.h"
#include "store/schema/columns.h"
#include "store/schema/table.h"

namespace stalltrace::store {
namespace {

/// Appends to a row's values.
struct ValueList {
  std::vector<Value>* values;

  void null() const { values->emplace_back(); }
  void text(std::string_view value) const { values->emplace_back(std::string(value)); }
  void integer(int64_t value) const { values->emplace_back(value); }
  void real(double value) const { values->emplace_back(value); }
};

template <typename T>
Status read_rows(EventSource& source, TimeRange range, RowSink& sink) {
  ST_TRY(sink.columns(column_names<T>()));
  std::vector<Value> values;
  bool more = true;
  Status status;
  const auto pass_on = [&](const T& row) {
    if (!more || !status) {
      return;
    }
    values.clear();
    each_column(row, FieldWriter(ValueList{&values}));
    if (const Result<bool> wanted = sink.row(values)) {
      more = *wanted;
    } else {
      status = std::unexpected(wanted.error());
    }
  };
  if constexpr (StateType<T>) {
    ST_ASSIGN(const std::vector<T> rows, source.all<T>());
    for (const T& row : rows) {
      pass_on(row);
    }
  } else {
    ST_TRY(source.stream<T>(range, pass_on));
  }
  return status;
}

}  // namespace

std::vector<std::string_view> tables_of_events() {
  std::vector<std::string_view> tables;
  for_each_type(kEventTypes, [&]<typename T>() { tables.push_back(EventTraits<T>::kTable); });
  return tables;
}

Status read_table(EventSource& source, std::string_view table, TimeRange range, RowSink& sink) {
  Status status = fail(std::string(table) + ": no such table");
  for_each_type(kEventTypes, [&]<typename T>() {
    if (EventTraits<T>::kTable == table) {
      status = read_rows<T>(source, range, sink);
    }
  });
  return status;
}

}  // namespace stalltrace::store
