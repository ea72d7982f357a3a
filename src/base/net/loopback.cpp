// SPDX-License-Identifier: Apache-2.0
#include "base/net/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <strings.h>

namespace stalltrace {

bool is_localhost(std::string_view name) {
  constexpr std::string_view kName = "localhost";
  return name.size() == kName.size() && ::strncasecmp(name.data(), kName.data(), kName.size()) == 0;
}

bool is_loopback(const std::string& number) {
  in_addr v4{};
  in6_addr v6{};
  if (::inet_pton(AF_INET, number.c_str(), &v4) == 1) {
    return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  return ::inet_pton(AF_INET6, number.c_str(), &v6) == 1 &&
         (IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == IN_LOOPBACKNET));
}

}  // namespace stalltrace
