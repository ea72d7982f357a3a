// SPDX-License-Identifier: Apache-2.0
// All TCP sockets of a process's network namespace, and which of them the process holds. Nothing of the process is
// touched: the kernel is asked through a netlink socket of our own in that namespace.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <vector>

#include "autopsy/snapshot.h"
#include "base/process/procfs.h"
#include "base/result.h"

namespace stalltrace::autopsy {

/// The sockets of a namespace by inode; those that no process holds any more have none and are left out.
using SocketsByInode = std::map<uint64_t, TcpSocket>;

/// Asks the kernel for the namespace of a process; takes at most a second. Entering another namespace than ours takes
/// CAP_SYS_ADMIN. Errors: kNoPrivilege, kNotFound (the process has ended), kInterrupted (it took longer), others of the
/// kernel.
Result<SocketsByInode> sockets_of_namespace(const Procfs& procfs, pid_t pid);

/// Inodes of the sockets among the process's descriptors, of which a bounded number is looked at. Errors: kNoPrivilege,
/// kNotFound.
Result<std::set<uint64_t>> held_sockets(const Procfs& procfs, pid_t pid);

/// The same namespace may be asked for by many processes.
class NamespaceSockets {
 public:
  explicit NamespaceSockets(const Procfs& procfs) : procfs_(procfs) {}

  /// The sockets of the process. Errors: as above.
  Result<std::vector<TcpSocket>> of(pid_t pid);
  /// Local addresses of all sockets seen.
  [[nodiscard]] std::vector<std::string> addresses() const { return {addresses_.begin(), addresses_.end()}; }

 private:
  const Procfs& procfs_;
  std::map<uint64_t, Result<SocketsByInode>> known_;  // by namespace
  std::set<std::string> addresses_;
};

}  // namespace stalltrace::autopsy
