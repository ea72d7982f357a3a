// SPDX-License-Identifier: Apache-2.0
#include "report/query_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace stalltrace::report {
namespace {

std::string hex(const Blob& blob) {
  std::string text;
  for (const char byte : blob.bytes) {
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return text;
}

/// The shortest text that reads back as the same number, always recognisable as not an integer.
std::string real(double number) {
  std::string text = fmt::format("{}", number);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

/// Columns on a terminal: counts code points, which suffices for names of hosts and commands.
size_t width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

class TableFormatter final : public QueryFormatter {
 public:
  explicit TableFormatter(TextWriter write) : write_(std::move(write)) {}

  Status columns(const std::vector<std::string>& names) override {
    for (const std::string& name : names) {
      header_.push_back({one_line(name), false});
    }
    return {};
  }

  Result<bool> row(std::span<const Value> values) override {
    std::vector<Cell> cells;
    for (const Value& value : values) {
      cells.push_back(cell(value));
    }
    rows_.push_back(std::move(cells));
    if (rows_.size() == kMeasured && widths_.empty()) {
      print_measured();
    } else if (!widths_.empty()) {
      print(rows_.back());
      rows_.pop_back();
    }
    return true;
  }

  Status finish() override {
    if (widths_.empty()) {
      print_measured();
    }
    return {};
  }

 private:
  /// Rows kept back to determine the column widths; later rows may exceed them.
  static constexpr size_t kMeasured = 1000;

  struct Cell {
    std::string text;
    bool to_the_right;
  };

  static Cell cell(const Value& value) {
    if (const auto* integer = std::get_if<int64_t>(&value)) {
      return {fmt::format("{}", *integer), true};
    }
    if (const auto* number = std::get_if<double>(&value)) {
      return {real(*number), true};
    }
    if (const auto* text = std::get_if<std::string>(&value)) {
      return {*text == "NULL" ? "'NULL'" : one_line(*text), false};
    }
    if (const auto* blob = std::get_if<Blob>(&value)) {
      return {"x'" + hex(*blob) + "'", false};
    }
    return {"NULL", true};
  }

  static std::string one_line(std::string_view text) {
    std::string line;
    for (const std::string_view part : split(text, '\n')) {
      line += (part.data() == text.data() ? "" : "\\n") + printable(part);
    }
    return line;
  }

  void print_measured() {
    for (const Cell& name : header_) {
      widths_.push_back(width(name.text));
    }
    for (const auto& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) {
        widths_[i] = std::max(widths_[i], width(row[i].text));
      }
    }
    if (!header_.empty()) {
      print(header_);
      std::vector<Cell> rule;
      for (const size_t column_width : widths_) {
        rule.push_back({std::string(column_width, '-'), false});
      }
      print(rule);
    }
    for (const auto& row : rows_) {
      print(row);
    }
    rows_.clear();
  }

  void print(const std::vector<Cell>& cells) {
    std::string line;
    for (size_t i = 0; i < cells.size(); ++i) {
      const Cell& cell = cells[i];
      const size_t own = width(cell.text);
      const std::string fill(widths_[i] > own ? widths_[i] - own : 0, ' ');
      line += i > 0 ? "  " : "";
      line += cell.to_the_right ? fill + cell.text : cell.text + fill;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    write_(line + "\n");
  }

  TextWriter write_;
  std::vector<Cell> header_;
  std::vector<std::vector<Cell>> rows_;
  std::vector<size_t> widths_;
};

class JsonFormatter final : public QueryFormatter {
 public:
  explicit JsonFormatter(TextWriter write) : write_(std::move(write)) {}

  Status columns(const std::vector<std::string>& names) override {
    for (const std::string& name : names) {
      keys_.push_back(quoted(name));
    }
    return {};
  }

  Result<bool> row(std::span<const Value> values) override {
    std::string line = rows_++ == 0 ? "[\n{" : ",\n{";
    for (size_t i = 0; i < values.size(); ++i) {
      line += i > 0 ? ", " : "";
      line += keys_[i] + ": " + json(values[i]);
    }
    write_(line + "}");
    return true;
  }

  Status finish() override {
    write_(rows_ == 0 ? "[]\n" : "\n]\n");
    return {};
  }

 private:
  static std::string quoted(const std::string& text) {
    return escape_in_json(nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }

  static std::string json(const Value& value) {
    if (const auto* integer = std::get_if<int64_t>(&value)) {
      return fmt::format("{}", *integer);
    }
    if (const auto* number = std::get_if<double>(&value)) {
      return std::isfinite(*number) ? real(*number) : quoted(real(*number));  // JSON has no infinity
    }
    if (const auto* text = std::get_if<std::string>(&value)) {
      return quoted(*text);
    }
    if (const auto* blob = std::get_if<Blob>(&value)) {
      return quoted(hex(*blob));
    }
    return "null";
  }

  TextWriter write_;
  std::vector<std::string> keys_;
  uint64_t rows_ = 0;
};

class CsvFormatter final : public QueryFormatter {
 public:
  explicit CsvFormatter(TextWriter write) : write_(std::move(write)) {}

  Status columns(const std::vector<std::string>& names) override {
    std::string line;
    for (const std::string& name : names) {
      line += (line.empty() ? "" : ",") + field(name);
    }
    write_(line + "\n");
    return {};
  }

  Result<bool> row(std::span<const Value> values) override {
    std::string line;
    for (size_t i = 0; i < values.size(); ++i) {
      line += i > 0 ? "," : "";
      line += csv(values[i]);
    }
    write_(line + "\n");
    return true;
  }

  Status finish() override { return {}; }

 private:
  /// A text that a spreadsheet would run as a formula (OWASP, "CSV injection") gets an apostrophe before it, unless it
  /// is a number. So does a text that begins with an apostrophe.
  static bool is_formula(std::string_view text) {
    constexpr std::string_view kBegins = "=+-@\t\r\n'";
    if (text.empty()) {
      return false;
    }
    const bool full_width = text.starts_with("\uff1d") || text.starts_with("\uff0b") || text.starts_with("\uff0d") ||
                            text.starts_with("\uff20");
    const size_t sign = text[0] == '+' || text[0] == '-' ? 1 : 0;
    double number = 0;
    const auto [end, error] = std::from_chars(text.data() + sign, text.data() + text.size(), number);
    const bool is_number = text.size() > sign && text[sign] >= '0' && text[sign] <= '9' && error == std::errc() &&
                           end == text.data() + text.size();
    return full_width || (kBegins.find(text[0]) != std::string_view::npos && !is_number);
  }

  static std::string field(const std::string& text) {
    if (is_formula(text)) {
      return quoted("'" + text);
    }
    if (!text.empty() && text.find_first_of("\",\r\n") == std::string::npos) {
      return text;
    }
    return quoted(text);
  }

  static std::string quoted(std::string_view text) {
    std::string quoted = "\"";
    for (const char c : text) {
      quoted.append(c == '"' ? 2 : 1, c);
    }
    return quoted + "\"";
  }

  static std::string csv(const Value& value) {
    if (const auto* integer = std::get_if<int64_t>(&value)) {
      return fmt::format("{}", *integer);
    }
    if (const auto* number = std::get_if<double>(&value)) {
      return real(*number);
    }
    if (const auto* text = std::get_if<std::string>(&value)) {
      return field(*text);
    }
    if (const auto* blob = std::get_if<Blob>(&value)) {
      return hex(*blob);
    }
    return "";
  }

  TextWriter write_;
};

}  // namespace

std::optional<QueryFormat> query_format_from_text(std::string_view text) {
  if (text == "table") {
    return QueryFormat::kTable;
  }
  if (text == "json") {
    return QueryFormat::kJson;
  }
  return text == "csv" ? std::optional(QueryFormat::kCsv) : std::nullopt;
}

std::unique_ptr<QueryFormatter> make_query_formatter(QueryFormat format, TextWriter write) {
  switch (format) {
    case QueryFormat::kJson:
      return std::make_unique<JsonFormatter>(std::move(write));
    case QueryFormat::kCsv:
      return std::make_unique<CsvFormatter>(std::move(write));
    default:
      return std::make_unique<TableFormatter>(std::move(write));
  }
}

}  // namespace stalltrace::report
