// SPDX-License-Identifier: Apache-2.0
#include "preflight/network/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "base/text.h"

namespace stalltrace::preflight {
namespace {

constexpr size_t kMostInterfaces = 16;  // NCCL's MAX_IFS

std::string text_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = address->sa_family == AF_INET
                          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
                          : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  return ::inet_ntop(address->sa_family, bytes, text.data(), text.size()) == nullptr ? "" : text.data();
}

std::vector<InterfaceAddress> select(const std::vector<InterfaceAddress>& all, const InterfaceFilter& filter,
                                     std::string_view family) {
  std::vector<InterfaceAddress> found;
  for (const InterfaceAddress& one : all) {
    const bool right_family = one.ipv6 ? family != "AF_INET" : family != "AF_INET6";
    const bool known = std::ranges::find(found, one.name, &InterfaceAddress::name) != found.end();
    if (one.running && right_family && !one.loopback_v6 && !known && filter.takes(one.name) &&
        found.size() < kMostInterfaces) {
      found.push_back(one);
    }
  }
  return found;
}

}  // namespace

Result<std::vector<InterfaceAddress>> read_interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) {
    return fail_errno("list the network interfaces", errno);
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  std::vector<InterfaceAddress> all;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_addr->sa_family != AF_INET && one->ifa_addr->sa_family != AF_INET6)) {
      continue;
    }
    const bool ipv6 = one->ifa_addr->sa_family == AF_INET6;
    all.push_back(
        {.name = one->ifa_name,
         .ipv6 = ipv6,
         .running = (one->ifa_flags & IFF_RUNNING) != 0,
         .loopback = (one->ifa_flags & IFF_LOOPBACK) != 0,
         .loopback_v6 = ipv6 && IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<sockaddr_in6*>(one->ifa_addr)->sin6_addr),
         .address = text_of(one->ifa_addr)});
  }
  return all;
}

InterfaceFilter::InterfaceFilter(std::string_view text) {
  excludes_ = text.starts_with('^');
  text.remove_prefix(excludes_ ? 1 : 0);
  exact_ = text.starts_with('=');
  text.remove_prefix(exact_ ? 1 : 0);
  for (const std::string_view part : split(text, ',')) {
    if (const std::string_view name = part.substr(0, part.find(':')); !name.empty()) {
      names_.emplace_back(name);
    }
  }
}

bool InterfaceFilter::takes(std::string_view name) const {
  const bool listed = names_.empty() || std::ranges::any_of(names_, [&](const std::string& wanted) {
                        return exact_ ? name == wanted : name.starts_with(wanted);
                      });
  return listed != excludes_;
}

ChosenInterfaces choose_interfaces(const std::vector<InterfaceAddress>& all, std::string_view setting,
                                   std::string_view family) {
  if (setting.size() > 1) {
    return {select(all, InterfaceFilter(setting), family), true};
  }
  for (const std::string_view filter : {"ib", "^docker,lo,virbr", "docker", "lo", "virbr"}) {
    if (std::vector<InterfaceAddress> found = select(all, InterfaceFilter(filter), family); !found.empty()) {
      return {std::move(found), false};
    }
  }
  return {};
}

}  // namespace stalltrace::preflight
