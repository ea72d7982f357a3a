// SPDX-License-Identifier: Apache-2.0
// Recordings of small jobs in files, and a client that asks a server about them.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/testing/small_job.h"
#include "base/text.h"
#include "model/memory_source.h"
#include "serve/mcp/server.h"
#include "store/testing/test_support.h"
#include "store/write/writer.h"

namespace stalltrace::serve {

/// Writes all rows of `source` to a new recording.
inline void write_recording(const std::string& path, MemorySource& source) {
  const auto writer = store::must(store::RecordingWriter::create(path));
  for_each_type(kStateTypes, [&]<typename T>() {
    const std::vector<T> rows = store::must(source.all<T>());
    for (const T& row : rows) {
      writer->accept(row);
    }
  });
  for_each_type(kStreamedTypes, [&]<typename T>() {
    EXPECT_TRUE(source.stream<T>({}, [&](const T& row) { writer->accept(row); }).has_value());
  });
  store::must(writer->close());
}

/// For the messages of failed expectations.
inline void PrintTo(const Json& json, std::ostream* out) { *out << json.dump(); }

/// Parses what tests write down.
inline Json json(std::string_view text) {
  Result<Json> parsed = parse_json(text);
  EXPECT_TRUE(parsed.has_value()) << text;
  return parsed ? *std::move(parsed) : Json();
}

/// The member at "a.b.0.c"; a test failure and null if there is none.
inline Json at(const Json& json, std::string_view path) {
  const Json* found = &json;
  for (const std::string_view part : split(path, '.')) {
    if (const Json::Array* values = found->values()) {
      const auto index = static_cast<size_t>(std::stoul(std::string(part)));
      found = index < values->size() ? &(*values)[index] : nullptr;
    } else {
      found = found->find(part);
    }
    if (found == nullptr) {
      ADD_FAILURE() << "no " << path << " in " << json.dump().substr(0, 2000);
      return {};
    }
  }
  return *found;
}

/// A server over one file with the job in `source`.
class ServedJob {
 public:
  explicit ServedJob(MemorySource& source) : path_(folder_ / "job.db") {
    write_recording(path_, source);
    recordings_ = recordings_in_files({path_});
    server_ = std::make_unique<mcp::Server>(*recordings_);
    session_.legacy_version = "2025-11-25";
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  mcp::Server& server() { return *server_; }

  /// The result of a tool, which must not fail and match its output schema.
  Json ask(const std::string& tool, std::string_view arguments = "{}") {
    const Json result = result_of(tool, arguments);
    const Json* data = result.find("structuredContent");
    if (data == nullptr) {
      ADD_FAILURE() << tool << ": " << result.dump();
      return {};
    }
    const auto found = std::ranges::find(server_->tools(), tool, &mcp::Tool::name);
    EXPECT_EQ(schema::problem_with(*data, found->output, schema::Strictness::kNoOther), "") << data->dump();
    EXPECT_LE(data->dump().size(), size_t{32} << 10);
    EXPECT_EQ(at(result, "content.1.text"), Json(data->dump()));
    return *data;
  }
  /// The text of a tool's failure.
  std::string failure_of(const std::string& tool, std::string_view arguments) {
    const Json result = result_of(tool, arguments);
    EXPECT_EQ(at(result, "isError"), Json(true));
    EXPECT_EQ(result.find("structuredContent"), nullptr);
    const Json text = at(result, "content.0.text");
    return text.text() == nullptr ? "" : *text.text();
  }
  Json result_of(const std::string& tool, std::string_view arguments) {
    const Json params = Json::object({{"name", tool}, {"arguments", json(arguments)}});
    const std::optional<Json> response =
        server_->answer({.id = Json(1), .method = "tools/call", .params = params}, session_);
    EXPECT_TRUE(response.has_value());
    return response ? at(*response, "result") : Json();
  }

 private:
  store::TemporaryFolder folder_;
  std::string path_;
  std::unique_ptr<Recordings> recordings_;
  std::unique_ptr<mcp::Server> server_;
  mcp::Session session_;
};

}  // namespace stalltrace::serve
