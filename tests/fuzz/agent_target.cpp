// SPDX-License-Identifier: Apache-2.0
// Fuzzes how an agent, which is root, handles a process's profiler file: arbitrary bytes are found, followed, and
// paired with rows of the probes.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "blackbox/follow/follower.h"
#include "model/memory_source.h"
#include "plugin/wire/blackbox.h"
#include "tests/fuzz/rows.h"

using namespace stalltrace;
using namespace stalltrace::blackbox;
using fuzz::require;

namespace {

constexpr pid_t kPid = 5000;
constexpr uint64_t kStart = 987'654'321;

/// A /proc with one process, and the folder of its file.
class Host {
 public:
  Host() {
    char name[] = "/dev/shm/stalltrace-fuzz-XXXXXX";
    require(::mkdtemp(name) != nullptr);
    root_ = name;
    const std::string process = root_ + "/" + std::to_string(kPid);
    std::filesystem::create_directories(process + "/root/files");
    std::string zeros;
    for (int i = 0; i < 18; ++i) {
      zeros += " 0";
    }
    std::ofstream(process + "/stat") << kPid << " (rank) S" << zeros << " " << kStart << " 0 0\n";
    std::ofstream(process + "/status") << "Name:\trank\nNSpid:\t" << kPid << "\n";
    std::ofstream(process + "/environ", std::ios::binary) << "STALLTRACE_DIR=/files" << '\0';
    file_ = process + "/root/files/stalltrace-" + std::to_string(kPid) + "-" + std::to_string(kStart) + ".profiler";
  }
  ~Host() { std::filesystem::remove_all(root_); }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  [[nodiscard]] const std::string& root() const { return root_; }
  /// Writes the bytes as the process's file: its number and start are right.
  void put(std::string bytes) const {
    if (bytes.size() >= sizeof(st_box_header)) {
      st_box_header header;
      std::memcpy(&header, bytes.data(), sizeof header);
      header.pid = kPid;
      header.process_start_ticks = kStart;
      std::memcpy(bytes.data(), &header, sizeof header);
    }
    std::ofstream(file_, std::ios::binary | std::ios::trunc) << bytes;
  }

 private:
  std::string root_;
  std::string file_;
};

/// Rows of the probes at varied times, so that any of the file's calls may match.
std::vector<Collective> rows_of_probes(EventIds& ids) {
  std::vector<Collective> rows;
  for (const Operation op : {Operation::kAllReduce, Operation::kAllToAll, Operation::kSend, Operation::kBroadcast}) {
    for (int64_t number = 0; number < 2; ++number) {
      Collective row;
      row.event_id = ids.next();
      row.op = op;
      row.node_id = 5;
      row.pid = kPid;
      row.tid = 4712;
      row.comm_ptr = 0xc0;
      row.timestamp_ns = row.called_ns = 1 + number;
      row.launch_ns = int64_t{1} << 60;
      row.seq = number;
      rows.push_back(row);
    }
  }
  return rows;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Host host;
  host.put({reinterpret_cast<const char*>(data), size});
  Node node;
  node.node_id = 5;
  const Procfs procfs(host.root());
  MemorySource rows;
  EventIds ids(5);
  ProcessRegistry processes(rows);
  CallPairing pairing(ids, rows);
  ProfilerFollower follower(node, procfs, {.only_living = true}, processes, pairing, rows, [](const std::string&) {});
  Process process;
  process.pid = kPid;
  processes.add(process);
  follower.add_process(kPid, 0);
  pairing.accept(Communicator{.node_id = 5, .pid = kPid, .comm_ptr = 0xc0, .created_ns = 1});
  const std::vector<Collective> calls = rows_of_probes(ids);
  for (size_t i = 0; i < calls.size() / 2; ++i) {
    pairing.accept(calls[i]);
  }
  follower.end_process(kPid);
  follower.round(INT64_MAX);
  for (size_t i = calls.size() / 2; i < calls.size(); ++i) {
    pairing.accept(calls[i]);
  }
  follower.finish(INT64_MAX);
  follower.deliver_losses();
  fuzz::check_rows(rows, false);
  return 0;
}
