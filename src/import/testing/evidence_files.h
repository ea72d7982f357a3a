// SPDX-License-Identifier: Apache-2.0
// Files of evidence for tests: written in the documented formats, none is a copy of another project's file.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "import/evidence.h"
#include "model/memory_source.h"

namespace stalltrace::import {

class EvidenceFolder {
 public:
  EvidenceFolder() {
    std::string name = std::filesystem::temp_directory_path() / "stalltrace-import-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~EvidenceFolder() { std::filesystem::remove_all(path_); }
  EvidenceFolder(const EvidenceFolder&) = delete;
  EvidenceFolder& operator=(const EvidenceFolder&) = delete;

  std::string write(const std::string& name, std::string_view content) {
    const std::string path = path_ / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// A line as NCCL 2.7 to 2.30 write it.
inline std::string call_line(int rank, int op_count, std::string_view op = "AllReduce", int64_t count = 1024,
                             int nranks = 4) {
  return fmt::format(
      "node{}:{}:{} [{}] NCCL INFO {}: opCount {:x} sendbuff 0x7f0000000200 recvbuff 0x7f0000000400 count {} datatype "
      "7 op 0 root 0 comm 0x7f00000{}000 [nranks={}] stream 0x55d5ffb73110\n",
      rank / 2, 100 + rank, 200 + rank, rank % 2, op, op_count, count, rank, nranks);
}
inline std::string set_up_lines(int rank, int nranks = 4) {
  const std::string line = fmt::format(
      "node{}:{}:{} [{}] NCCL INFO ncclCommInitRank comm 0x7f00000{}000 rank {} nranks {} cudaDev {} nvmlDev {} busId "
      "1000 commId 0xfeedbeef12345678 - Init ",
      rank / 2, 100 + rank, 200 + rank, rank % 2, rank, rank, nranks, rank % 2, rank % 2);
  return line + "START\n" + line + "COMPLETE\n";
}

inline std::vector<Collective> calls_of(MemorySource& source) {
  std::vector<Collective> rows;
  EXPECT_TRUE(source.collectives({}, [&](const Collective& row) {
    if (moves_data(row.op)) {
      rows.push_back(row);
    }
  }));
  return rows;
}
inline std::vector<LogLine> lines_of(MemorySource& source, LogKind kind) {
  std::vector<LogLine> rows;
  EXPECT_TRUE(source.log_lines({}, [&](const LogLine& row) {
    if (row.kind == kind) {
      rows.push_back(row);
    }
  }));
  return rows;
}

}  // namespace stalltrace::import
