// SPDX-License-Identifier: Apache-2.0
// Helpers of the store's tests: a temporary folder, rows to write, errors as test failures.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "store/read/reader.h"
#include "store/sqlite/sqlite.h"
#include "store/write/writer.h"

namespace stalltrace::store {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "stalltrace-store-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  [[nodiscard]] std::string path() const { return path_.string(); }
  /// The file names in it, sorted.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      found.push_back(entry.path().filename().string());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  std::filesystem::path path_;
};

/// The value of a Result or Status that must not be an error.
template <typename T>
T must(Result<T> result) {
  if (!result) {
    ADD_FAILURE() << result.error().what;
    std::abort();
  }
  return std::move(*result);
}
inline void must(Status status) { ASSERT_TRUE(status.has_value()) << status.error().what; }

inline Node node_row(NodeId id, const std::string& name, int64_t started_ns = 1'000) {
  Node node;
  node.node_id = id;
  node.name = name;
  node.boot_id = "boot-" + name;
  node.started_ns = started_ns;
  return node;
}

inline Collective collective_row(NodeId node, uint64_t number, int64_t timestamp_ns,
                                 std::optional<int64_t> duration_ns) {
  Collective row;
  row.event_id = make_event_id(node, number);
  row.node_id = node;
  row.timestamp_ns = timestamp_ns;
  row.called_ns = timestamp_ns;
  row.duration_ns = duration_ns;
  row.completion = duration_ns ? Completion::kSync : Completion::kOpen;
  row.rank = 1;
  row.nranks = 4;
  row.comm_id_hash = 0xfedcba9876543210;
  row.pid = 42;
  row.tid = 43;
  row.count = 1024;
  row.bytes = 4096;
  return row;
}

inline TcpEvent retransmit_row(NodeId node, uint64_t number, int64_t timestamp_ns) {
  TcpEvent row;
  row.event_id = make_event_id(node, number);
  row.node_id = node;
  row.timestamp_ns = timestamp_ns;
  row.pid = 42;
  row.source = {"10.77.0.2", 40112};
  row.destination = {"10.77.0.3", 50001};
  row.seq = 7;
  row.len = 1448;
  return row;
}

inline TcpSample sample_row(NodeId node, int64_t timestamp_ns) {
  TcpSample row;
  row.node_id = node;
  row.timestamp_ns = timestamp_ns;
  row.cookie = 5;
  row.cwnd = 10;
  return row;
}

inline std::vector<Collective> collectives_of(EventSource& source, TimeRange range = {}) {
  std::vector<Collective> rows;
  must(source.collectives(range, [&](const Collective& row) { rows.push_back(row); }));
  return rows;
}

inline std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The first column of the first row, read like any SQLite client.
inline std::string ask(const std::string& path, const std::string& sql) {
  Database db = must(Database::open(path, SQLITE_OPEN_READWRITE));
  return must(db.text(sql));
}

}  // namespace stalltrace::store
