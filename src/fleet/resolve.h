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
/// killed after `limit`: a name server that does not answer keeps nobody waiting. To be called before the first thread
/// is started and before rights are given up.
void resolve(std::vector<NodeAddress>& nodes, std::chrono::milliseconds limit);

/// The lines of a hosts file (hosts(5)): name -> numbers, the names in lower case.
std::map<std::string, std::vector<std::string>> parse_hosts(std::string_view text);

bool is_loopback(const std::string& number);

}  // namespace stalltrace::fleet
