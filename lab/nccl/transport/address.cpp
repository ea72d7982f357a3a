// SPDX-License-Identifier: Apache-2.0
#include "address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "debug.h"
#include "result.h"

namespace lab::nccl {
namespace {

/// A list of interface names, as NCCL_SOCKET_IFNAME writes it.
class NameFilter {
 public:
  explicit NameFilter(std::string_view text) {
    excludes_ = text.starts_with('^');
    text.remove_prefix(excludes_ ? 1 : 0);
    exact_ = text.starts_with('=');
    text.remove_prefix(exact_ ? 1 : 0);
    while (!text.empty()) {
      const size_t end = text.find(',');
      if (end != 0) {
        names_.emplace_back(text.substr(0, end));
      }
      text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    }
  }

  [[nodiscard]] bool accepts(std::string_view name) const {
    for (const std::string& wanted : names_) {
      if (exact_ ? name == wanted : name.starts_with(wanted)) {
        return !excludes_;
      }
    }
    return excludes_;
  }

 private:
  bool excludes_ = false;
  bool exact_ = false;
  std::vector<std::string> names_;
};

int wanted_family() {
  const char* text = std::getenv("NCCL_SOCKET_FAMILY");
  if (text == nullptr) {
    return AF_UNSPEC;
  }
  return std::strcmp(text, "AF_INET6") == 0 ? AF_INET6 : AF_INET;
}

bool usable(const ifaddrs& entry, int family) {
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0) {
    return false;
  }
  const int own = entry.ifa_addr->sa_family;
  return (own == AF_INET || own == AF_INET6) && (family == AF_UNSPEC || family == own);
}

bool find_matching(const ifaddrs* entries, const NameFilter& filter, Interface* result) {
  for (const ifaddrs* entry = entries; entry != nullptr; entry = entry->ifa_next) {
    if (usable(*entry, wanted_family()) && filter.accepts(entry->ifa_name)) {
      result->name = entry->ifa_name;
      std::memset(&result->address, 0, sizeof(result->address));
      std::memcpy(&result->address, entry->ifa_addr,
                  entry->ifa_addr->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
      return true;
    }
  }
  return false;
}

}  // namespace

std::string to_text(const SocketAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> host{};
  const bool v6 = address.any.sa_family == AF_INET6;
  const void* bytes = v6 ? static_cast<const void*>(&address.v6.sin6_addr) : &address.v4.sin_addr;
  inet_ntop(address.any.sa_family, bytes, host.data(), host.size());
  const unsigned port = ntohs(v6 ? address.v6.sin6_port : address.v4.sin_port);
  return std::string(host.data()) + "<" + std::to_string(port) + ">";
}

bool same_host(const SocketAddress& a, const SocketAddress& b) {
  if (a.any.sa_family != b.any.sa_family) {
    return false;
  }
  return a.any.sa_family == AF_INET6 ? std::memcmp(&a.v6.sin6_addr, &b.v6.sin6_addr, sizeof(a.v6.sin6_addr)) == 0
                                     : a.v4.sin_addr.s_addr == b.v4.sin_addr.s_addr;
}

ncclResult_t find_interface(Interface* result) {
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) {
    NCCL_WARN("Call to getifaddrs failed: %s", strerror(errno));
    return ncclSystemError;
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> entries(raw, freeifaddrs);

  std::vector<NameFilter> filters;
  if (const char* wanted = std::getenv("NCCL_SOCKET_IFNAME"); wanted != nullptr && *wanted != '\0') {
    info(kEnv, "NCCL_SOCKET_IFNAME set by environment to %s", wanted);
    filters.emplace_back(wanted);
  } else {
    filters = {NameFilter("^docker,lo"), NameFilter("docker"), NameFilter("lo")};
  }
  for (const NameFilter& filter : filters) {
    if (find_matching(entries.get(), filter, result)) {
      return ncclSuccess;
    }
  }
  NCCL_WARN("Bootstrap : no socket interface found");
  return ncclInvalidUsage;
}

}  // namespace lab::nccl
