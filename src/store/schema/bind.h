// SPDX-License-Identifier: Apache-2.0
// Converts values of event structs to and from SQLite columns. Internal to store/.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "store/schema/columns.h"
#include "store/schema/short_text.h"
#include "store/sqlite/sqlite.h"

namespace stalltrace::store {

/// Writes one field after the other as a value of a column. `Out` takes what SQLite stores: null(), text(string_view),
/// integer(int64_t), real(double).
template <typename Out>
class FieldWriter {
 public:
  explicit FieldWriter(Out out) : out_(std::move(out)) {}

  template <typename Field>
  void operator()(const char* /*name*/, const Field& field) {
    put(field);
  }

 private:
  void put(const std::string& value) { out_.text(value); }
  void put(double value) { out_.real(value); }
  template <typename T>
  requires std::is_integral_v<T>
  void put(T value) { out_.integer(static_cast<int64_t>(value)); }
  template <typename T>
  requires std::is_enum_v<T>
  void put(T value) {
    const std::string_view name = to_text(value);
    name.empty() ? out_.null() : out_.text(name);
  }
  template <typename T>
  void put(const std::optional<T>& value) {
    value ? put(*value) : out_.null();
  }
  template <typename T>
  void put(const OrNull<T>& field) {
    field.value == std::remove_const_t<T>{} ? out_.null() : put(field.value);
  }
  template <typename T>
  void put(const OrNullUnless<T>& field) {
    field.value == std::remove_const_t<T>{} && !field.zero_is_known ? out_.null() : put(field.value);
  }

  Out out_;
};

/// The parameters of a statement, one after the other.
class StatementParameters {
 public:
  StatementParameters(sqlite3_stmt* statement, int first) : statement_(statement), index_(first) {}

  void null() { sqlite3_bind_null(statement_, index_++); }
  void text(std::string_view value) {
    sqlite3_bind_text(statement_, index_++, value.data(), static_cast<int>(value.size()), SQLITE_STATIC);
  }
  void integer(int64_t value) { sqlite3_bind_int64(statement_, index_++, value); }
  void real(double value) { sqlite3_bind_double(statement_, index_++, value); }

 private:
  sqlite3_stmt* statement_;
  int index_;
};

/// Binds one field after the other, starting at parameter `first`. The row must keep its texts until the step.
class Binder : public FieldWriter<StatementParameters> {
 public:
  Binder(sqlite3_stmt* statement, int first) : FieldWriter(StatementParameters(statement, first)) {}
};

/// The columns of a statement's current row, one after the other.
class StatementColumns {
 public:
  StatementColumns(sqlite3_stmt* statement, int first) : statement_(statement), index_(first) {}

  void next() { ++index_; }
  [[nodiscard]] bool is_null() const { return sqlite3_column_type(statement_, index_) == SQLITE_NULL; }
  [[nodiscard]] int64_t integer() const { return sqlite3_column_int64(statement_, index_); }
  [[nodiscard]] double real() const { return sqlite3_column_double(statement_, index_); }
  [[nodiscard]] std::string_view text() const {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, index_));
    return bytes == nullptr ? std::string_view()
                            : std::string_view(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, index_)));
  }

 private:
  sqlite3_stmt* statement_;
  int index_;
};

/// Reads one field after the other from `columns`. NULL reads as zero, empty or none. A text outside of its enumeration
/// (from another program, or from a version that forgot to raise the schema version) reads as the value that proves
/// least: an operation as a group, which moves no data; a completion as unobserved; a TCP event as a close; a packet
/// event as reordered; a wait as an interruptible sleep; a step's wait and a rank's source as unknown; a library as
/// NCCL; a kernel's message as another; a line of a log as a warning. Each parse() below is one of these.
template <typename Columns>
class Extractor {
 public:
  explicit Extractor(Columns& columns) : columns_(columns) {}

  template <typename Field>
  void operator()(const char* /*name*/, Field&& field) {
    get(field);
    columns_.next();
  }

 private:
  void get(std::string& value) const { value = columns_.text(); }
  void get(double& value) const { value = columns_.real(); }
  void get(bool& value) const { value = columns_.integer() != 0; }
  template <typename T>
  requires std::is_integral_v<T>
  void get(T& value) const { value = static_cast<T>(columns_.integer()); }
  template <typename T>
  requires std::is_enum_v<T>
  void get(T& value) const {
    const std::string_view name = columns_.text();
    if (!same_short_text(name, to_text(value))) {  // a reused row mostly has its predecessor's value already
      value = parse(name, value);
    }
  }
  static Operation parse(std::string_view name, Operation) {
    return operation_from_text(name).value_or(Operation::kGroup);
  }
  static Library parse(std::string_view name, Library) { return library_from_text(name).value_or(Library::kNccl); }
  static Completion parse(std::string_view name, Completion) {
    return completion_from_text(name).value_or(Completion::kUnobserved);
  }
  static RankSource parse(std::string_view name, RankSource) { return rank_source_from_text(name); }
  static TcpEventKind parse(std::string_view name, TcpEventKind) {
    return tcp_event_kind_from_text(name).value_or(TcpEventKind::kClose);
  }
  static ProxyWait parse(std::string_view name, ProxyWait) {
    return proxy_wait_from_text(name).value_or(ProxyWait::kNone);
  }
  static KernelMessageKind parse(std::string_view name, KernelMessageKind) {
    return kernel_message_kind_from_text(name).value_or(KernelMessageKind::kOther);
  }
  static LogKind parse(std::string_view name, LogKind) { return log_kind_from_text(name).value_or(LogKind::kWarning); }
  static PacketEventKind parse(std::string_view name, PacketEventKind) {
    return packet_event_kind_from_text(name).value_or(PacketEventKind::kReordered);
  }
  static WaitKind parse(std::string_view name, WaitKind) {
    return wait_kind_from_text(name).value_or(WaitKind::kBlocked);
  }
  template <typename T>
  requires std::is_integral_v<T>
  void get(std::optional<T>& value) const {
    const int64_t number = columns_.integer();  // NULL reads as 0
    if (number == 0 && columns_.is_null()) {
      value.reset();
    } else {
      value = static_cast<T>(number);
    }
  }
  template <typename T>
  void get(std::optional<T>& value) const {
    if (columns_.is_null()) {
      value.reset();
    } else {
      get(value.emplace());
    }
  }
  template <typename T>
  void get(OrNull<T>& field) const {
    get(field.value);
  }
  template <typename T>
  void get(OrNullUnless<T>& field) const {
    get(field.value);
  }

  Columns& columns_;
};

}  // namespace stalltrace::store
