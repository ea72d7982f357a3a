// SPDX-License-Identifier: Apache-2.0
#include "preflight/preflight.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/text.h"
#include "preflight/host/host_checks.h"
#include "preflight/nccl/lint.h"
#include "preflight/nccl/settings.h"
#include "preflight/network/infiniband.h"
#include "preflight/network/interface_checks.h"
#include "preflight/network/interfaces.h"
#include "preflight/topology/topology.h"

namespace stalltrace::preflight {
namespace {

constexpr size_t kMostNamed = 8;  // hosts with one value

/// Where hosts differ in this, they can't talk to each other.
bool breaks_a_job(std::string_view fact) { return fact == kAddressFamily; }

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

std::string names_of(const std::vector<std::string>& hosts) {
  const size_t shown = std::min(hosts.size(), kMostNamed);
  std::string text = fmt::format("{}", fmt::join(hosts.begin(), hosts.begin() + static_cast<ptrdiff_t>(shown), ", "));
  return hosts.size() > shown ? fmt::format("{} and {} more", text, hosts.size() - shown) : text;
}

}  // namespace

Result<HostReport> check_this_host(const Environment& environment, const HostFiles& files, StartedAs started) {
  HostReport report{.host = host_name()};
  ST_ASSIGN(const std::vector<InterfaceAddress> interfaces, read_interfaces());
  const Settings settings = Settings::read(environment, files);
  check_settings(settings, report);
  check_interfaces(settings, interfaces, files, report);
  check_infiniband(settings, files, report);
  std::vector<std::string> chosen;
  for (const InterfaceAddress& one :
       choose_interfaces(interfaces, settings.value("NCCL_SOCKET_IFNAME"), settings.value("NCCL_SOCKET_FAMILY"))
           .addresses) {
    chosen.push_back(one.name);
  }
  report.topology = read_topology(settings, files, chosen, report);
  check_topology(report.topology, report);
  check_host(read_limits(),
             {.rdma = !read_ports(files).empty() && uses_infiniband(settings),
              .shared_memory = settings.integer("NCCL_SHM_DISABLE", 0) == 0,
              .process_limits = started == StartedAs::kJob},
             files, report);
  return report;
}

std::vector<HostCheck> compare_hosts(std::span<const HostReport> hosts) {
  std::set<std::string> facts;
  for (const HostReport& host : hosts) {
    for (const auto& [fact, value] : host.facts) {
      facts.insert(fact);
    }
  }
  std::vector<HostCheck> found;
  for (const HostReport& host : hosts) {
    for (HostCheck check : host.checks) {
      if (check.outcome == Outcome::kFailed) {
        check.subject = check.subject.empty() ? host.host : host.host + " " + check.subject;
        found.push_back(std::move(check));
      }
    }
  }
  for (const std::string& fact : facts) {
    std::map<std::string, std::vector<std::string>> by_value;
    for (const HostReport& host : hosts) {
      const auto value = host.facts.find(fact);
      by_value[value == host.facts.end() ? "not set" : value->second].push_back(host.host);
    }
    if (by_value.size() < 2) {
      continue;
    }
    std::vector<std::pair<std::string, std::vector<std::string>>> groups(by_value.begin(), by_value.end());
    std::ranges::stable_sort(groups, std::greater{}, [](const auto& group) { return group.second.size(); });
    std::vector<std::string> texts;
    for (const auto& [value, names] : groups) {
      texts.push_back(fmt::format("{} on {}", value, names_of(names)));
    }
    found.push_back({.check = "differs",
                     .subject = fact,
                     .outcome = breaks_a_job(fact) ? Outcome::kFailed : Outcome::kWarning,
                     .detail = fmt::format("{}", fmt::join(texts, "; ")),
                     .remedy = "make it the same on all nodes, or know why it differs"});
  }
  return found;
}

}  // namespace stalltrace::preflight
