// SPDX-License-Identifier: Apache-2.0
#include "serve/http/row_lines.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>

#include "base/text.h"
#include "serve/json/json.h"

namespace stalltrace::serve {
namespace {

constexpr size_t kMostColumns = 256;  // as store/sqlite/guard allows
constexpr JsonLimits kOfLine{.depth = 3, .values = 2'000, .members = 8, .whole_reals_are_integers = false};

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return text;
}

std::optional<std::string> bytes_of(std::string_view hex) {
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    const int high = digit(hex[i]);
    const int low = digit(hex[i + 1]);
    if (high < 0 || low < 0) {
      return std::nullopt;
    }
    bytes += static_cast<char>(high * 16 + low);
  }
  return hex.size() % 2 == 0 ? std::optional(std::move(bytes)) : std::nullopt;
}

std::string text_of(const Value& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    return fmt::format("{}", *integer);
  }
  if (const auto* real = std::get_if<double>(&value)) {
    std::string text = fmt::format("{}", *real);
    if (!std::isfinite(*real)) {
      return fmt::format(R"({{"real":"{}"}})", text);
    }
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  }
  if (const auto* text = std::get_if<std::string>(&value)) {
    return Json(*text).dump();
  }
  if (const auto* blob = std::get_if<Blob>(&value)) {
    return fmt::format(R"({{"blob":"{}"}})", hex(blob->bytes));
  }
  return "null";
}

std::optional<Value> value_of(const Json& json) {
  if (json.is_null()) {
    return Value(std::monostate{});
  }
  if (const auto* integer = json.integer()) {
    return Value(*integer);
  }
  if (const auto* real = json.real()) {
    return Value(*real);
  }
  if (const auto* text = json.text()) {
    return Value(*text);
  }
  const auto member = [&](std::string_view name) {
    const Json* found = json.size() == 1 ? json.find(name) : nullptr;
    return found == nullptr ? nullptr : found->text();
  };
  if (const std::string* blob = member("blob")) {
    auto bytes = bytes_of(*blob);
    return bytes ? std::optional<Value>(Blob{*std::move(bytes)}) : std::nullopt;
  }
  if (const std::string* real = member("real"); real != nullptr && (*real == "inf" || *real == "-inf")) {
    const double infinity = std::numeric_limits<double>::infinity();
    return Value(*real == "inf" ? infinity : -infinity);
  }
  return std::nullopt;
}

std::optional<std::vector<std::string>> texts_of(const Json* json, size_t most) {
  if (json == nullptr || !json->is_array() || json->size() > most) {
    return std::nullopt;
  }
  std::vector<std::string> texts;
  for (const Json& one : *json->values()) {
    if (one.text() == nullptr) {
      return std::nullopt;
    }
    texts.push_back(*one.text());
  }
  return texts;
}

Json array_of(std::span<const std::string> texts) {
  Json array = Json::array();
  for (const std::string& text : texts) {
    array.push_back(text);
  }
  return array;
}

}  // namespace

void RowLines::begin_recording(std::string name, std::vector<std::string> nodes, std::vector<std::string> runs) {
  recording_ = std::move(name);
  nodes_ = std::move(nodes);
  runs_ = std::move(runs);
}

Status RowLines::columns(const std::vector<std::string>& names) {
  text_ += Json::object({{"recording", recording_},
                         {"nodes", array_of(nodes_)},
                         {"runs", array_of(runs_)},
                         {"columns", array_of(names)}})
               .dump();
  text_ += '\n';
  return {};
}

Result<bool> RowLines::row(std::span<const Value> values) {
  std::string line = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    line += (i > 0 ? "," : "") + text_of(values[i]);
  }
  if (rows_ == limits_.rows || static_cast<int64_t>(text_.size() + line.size()) > limits_.bytes) {
    truncated_ = true;
    return false;
  }
  ++rows_;
  text_ += line + "]\n";
  return true;
}

std::string RowLines::take() {
  text_ += Json::object({{"end", true}, {"rows", rows_}, {"truncated", truncated_}}).dump() + "\n";
  return std::move(text_);
}

Result<bool> read_row_lines(std::string_view text, RowLinesSink& sink) {
  std::optional<size_t> columns;
  int64_t rows = 0;
  for (size_t number = 1; !text.empty(); ++number) {
    const auto wrong = [&](std::string_view why) {
      return fail(fmt::format("line {} of the answer: {}", number, why), {}, ErrorKind::kCorrupt);
    };
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      return wrong("cut short");
    }
    const auto line = parse_json(text.substr(0, end), kOfLine);
    text.remove_prefix(end + 1);
    if (!line) {
      return wrong(line.error().what);
    }
    if (const auto* cells = line->values()) {
      std::vector<Value> values;
      for (const Json& cell : *cells) {
        auto value = value_of(cell);
        if (!value) {
          return wrong("a value of no known form");
        }
        values.push_back(*std::move(value));
      }
      if (!columns || values.size() != *columns) {
        return wrong("a row that does not fit its columns");
      }
      ++rows;
      ST_TRY(sink.row(values));
      continue;
    }
    if (const Json* last = line->find("end")) {
      const Json* claimed = line->find("rows");
      const Json* truncated = line->find("truncated");
      const bool complete = last->boolean() != nullptr && claimed != nullptr && claimed->integer() != nullptr &&
                            *claimed->integer() == rows && truncated != nullptr && truncated->boolean() != nullptr;
      return complete && text.empty() ? Result<bool>(*truncated->boolean()) : wrong("not the end that it should be");
    }
    const Json* name = line->find("recording");
    const auto nodes = texts_of(line->find("nodes"), 100'000);
    const auto names = texts_of(line->find("columns"), kMostColumns);
    const auto runs = texts_of(line->find("runs"), 100'000);
    if (name == nullptr || name->text() == nullptr || !nodes || !names) {
      return wrong("of no known form");
    }
    columns = names->size();
    sink.runs(runs ? *runs : std::vector<std::string>());
    ST_TRY(sink.recording(*name->text(), *nodes, *names));
  }
  return fail("the answer is cut short", {}, ErrorKind::kCorrupt);
}

}  // namespace stalltrace::serve
