// SPDX-License-Identifier: Apache-2.0
// Addresses of hosts: from /etc/hosts, then from the name servers of /etc/resolv.conf. The program is linked
// statically, where the C library's getaddrinfo would load other libraries: names that only they know (mDNS, LDAP) are
// not found.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/node_list.h"

namespace stalltrace::fleet {

/// Sets `addresses` of all nodes, or their problem. Names are asked for by a child process, many at a time, which is
/// killed after `limit`: a name server that does not answer keeps no node waiting. To be called before the first thread
/// is started and before rights are given up.
void resolve(std::vector<NodeAddress>& nodes, std::chrono::milliseconds limit);

/// The lines of a hosts file (hosts(5)): name -> numbers, the names in lower case.
std::map<std::string, std::vector<std::string>> parse_hosts(std::string_view text);

/// A node that was named in two ways, as "localhost:7700,127.0.0.1:7700".
struct SameNode {
  std::string kept;
  std::string left_out;
};
/// Leaves out nodes at whose address and port an earlier one is. To be called after resolve(). What nodes say of
/// themselves doesn't count: one could say that it is another, which would then be left out.
std::vector<SameNode> leave_out_same(std::vector<NodeAddress>& nodes);

}  // namespace stalltrace::fleet
