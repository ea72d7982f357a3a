// SPDX-License-Identifier: Apache-2.0
#include "base/net/link_local.h"

#include <arpa/inet.h>
#include <netinet/in.h>

namespace stalltrace {

bool is_link_local(const std::string& number) {
  in6_addr address{};
  return ::inet_pton(AF_INET6, number.substr(0, number.find('%')).c_str(), &address) == 1 &&
         IN6_IS_ADDR_LINKLOCAL(&address);
}

}  // namespace stalltrace
