// SPDX-License-Identifier: Apache-2.0
// Describes a process's descriptor: a file, a pipe, a socket with its addresses; and finds the other processes of this
// host that hold its other end. Never opens or stats the file itself, which may block as the process does.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/process/procfs.h"

namespace stalltrace::stacks {

/// The process that holds the other end of a pipe or connection.
struct PeerProcess {
  pid_t pid = 0;
  std::string name;     // of its first thread
  bool itself = false;  // the waiting process itself
};

enum class DescriptorKind : uint8_t { kFile, kPipe, kTcp, kUnix, kOtherSocket, kOther };

struct Descriptor {
  int number = -1;
  DescriptorKind kind = DescriptorKind::kFile;
  std::string link;       // as readlink returns it: "/data/x", "pipe:[123]", "socket:[45]", "anon_inode:[eventpoll]"
  std::string local;      // TCP: address and port
  std::string remote;     // TCP; empty for a Unix socket
  std::string state;      // TCP: "ESTABLISHED"
  std::string unix_path;  // name of a Unix socket
  std::string other_end;  // the link of the other end; empty: unknown
  std::vector<PeerProcess> peers;
  bool peers_known = false;  // the host was searched, so no peer means none on this host
};

/// A line of /proc/net/tcp or tcp6.
struct TcpRow {
  std::string local;
  std::string remote;
  std::string state;
  uint64_t inode = 0;
};
std::optional<TcpRow> parse_tcp_row(std::string_view line);

/// One thread. Caches each network namespace it reads: use a new object for a new reading.
class Descriptors {
 public:
  explicit Descriptors(const Procfs& procfs) : procfs_(procfs) {}

  /// nullopt: the process has no such descriptor.
  std::optional<Descriptor> at(pid_t pid, int number);
  /// True for a FIFO with a name: its link is a path, like a file's.
  [[nodiscard]] bool is_named_fifo(pid_t pid, int number) const;
  /// The descriptors that an epoll descriptor watches, at most `most`.
  [[nodiscard]] std::vector<int> watched_by(pid_t pid, int epoll, size_t most) const;
  /// Fills in `peers`: one pass over the descriptors of all accessible processes, with limits on their number and the
  /// time. `wanted[i]` belongs to process `pids[i]`.
  void find_peers(std::span<Descriptor* const> wanted, std::span<const pid_t> pids, int64_t most_ns) const;
  static constexpr int64_t kPeerSearchNs = 2'000'000'000;

 private:
  struct Network {
    std::map<uint64_t, TcpRow> tcp;                // by inode
    std::map<uint64_t, std::string> unix_sockets;  // by inode: the path or empty
    bool has_unix(uint64_t inode) const { return unix_sockets.contains(inode); }
  };
  const Network& network_of(pid_t pid);

  const Procfs& procfs_;
  std::map<uint64_t, Network> networks_;  // by namespace
};

}  // namespace stalltrace::stacks
