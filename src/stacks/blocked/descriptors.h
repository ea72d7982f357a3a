// SPDX-License-Identifier: Apache-2.0
// What a descriptor of a process is: a file, a pipe, a socket with its addresses; and which other processes of this
// host have its other end. Never opens or stats the file itself: that may block as the process does.
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

/// Who has the other end of a pipe or connection.
struct PeerProcess {
  pid_t pid = 0;
  std::string name;     // of its first thread
  bool itself = false;  // the process that waits
};

enum class DescriptorKind : uint8_t { kFile, kPipe, kTcp, kUnix, kOtherSocket, kOther };

struct Descriptor {
  int number = -1;
  DescriptorKind kind = DescriptorKind::kFile;
  std::string link;       // as readlink has it: "/data/x", "pipe:[123]", "socket:[45]", "anon_inode:[eventpoll]"
  std::string local;      // TCP: address and port
  std::string remote;     // TCP; of a Unix socket empty
  std::string state;      // TCP: "ESTABLISHED"
  std::string unix_path;  // Unix socket with a name
  std::string other_end;  // the link that the process with the other end has; empty: not known
  std::vector<PeerProcess> peers;
  bool peers_known = false;  // the host was searched; no peer then means: none there
};

/// A line of /proc/net/tcp or tcp6.
struct TcpRow {
  std::string local;
  std::string remote;
  std::string state;
  uint64_t inode = 0;
};
std::optional<TcpRow> parse_tcp_row(std::string_view line);

/// One thread. Keeps what it read of each network namespace: make a new one for a new look.
class Descriptors {
 public:
  explicit Descriptors(const Procfs& procfs) : procfs_(procfs) {}

  /// None: the process has no such descriptor (any more).
  std::optional<Descriptor> at(pid_t pid, int number);
  /// The descriptor is a FIFO with a name: its link is a path, as a file's is.
  [[nodiscard]] bool is_named_fifo(pid_t pid, int number) const;
  /// The descriptors that an epoll descriptor watches, at most `most`.
  [[nodiscard]] std::vector<int> watched_by(pid_t pid, int epoll, size_t most) const;
  /// Fills in `peers`: one pass over the descriptors of all processes that may be looked into, within bounds on their
  /// number and the time. `wanted` are those of process `pids[i]`.
  void find_peers(std::span<Descriptor* const> wanted, std::span<const pid_t> pids, int64_t most_ns) const;
  static constexpr int64_t kPeerSearchNs = 2'000'000'000;

 private:
  struct Network {
    std::map<uint64_t, TcpRow> tcp;                // by inode
    std::map<uint64_t, std::string> unix_sockets;  // by inode: the path, or empty
    bool has_unix(uint64_t inode) const { return unix_sockets.contains(inode); }
  };
  const Network& network_of(pid_t pid);

  const Procfs& procfs_;
  std::map<uint64_t, Network> networks_;  // by namespace
};

}  // namespace stalltrace::stacks
