// SPDX-License-Identifier: Apache-2.0
#include "fleet/resolve.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <poll.h>
#include <resolv.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <set>
#include <span>
#include <system_error>
#include <thread>

#include "base/file.h"
#include "base/io/pipe.h"
#include "base/io/poll_until.h"
#include "base/io/write_all.h"
#include "base/net/loopback.h"
#include "base/text.h"
#include "base/untrusted/helper_child.h"

namespace stalltrace::fleet {
namespace {

using std::chrono::steady_clock;
using Addresses = std::map<std::string, std::vector<std::string>>;  // by name

constexpr size_t kThreads = 32;
constexpr size_t kMostAddresses = 4;  // of one host
constexpr size_t kLargestAnswer = 4 << 20;

bool is_number(const std::string& host) {
  in6_addr any{};
  return ::inet_pton(AF_INET, host.c_str(), &any) == 1 || ::inet_pton(AF_INET6, host.c_str(), &any) == 1;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
  return result;
}

/// Appends the addresses of one kind that a name server gives.
void ask_name_servers(struct __res_state& state, const std::string& name, int type, std::vector<std::string>& found) {
  std::array<unsigned char, 4096> answer{};
  const int size = ::res_nsearch(&state, name.c_str(), ns_c_in, type, answer.data(), static_cast<int>(answer.size()));
  ns_msg message{};
  if (size <= 0 || ::ns_initparse(answer.data(), std::min(size, static_cast<int>(answer.size())), &message) != 0) {
    return;
  }
  for (int i = 0; i < ns_msg_count(message, ns_s_an) && found.size() < kMostAddresses; ++i) {
    ns_rr record{};
    if (::ns_parserr(&message, ns_s_an, i, &record) != 0 || ns_rr_type(record) != type ||
        ns_rr_rdlen(record) != (type == ns_t_a ? sizeof(in_addr) : sizeof(in6_addr))) {
      continue;
    }
    std::array<char, INET6_ADDRSTRLEN> text{};
    ::inet_ntop(type == ns_t_a ? AF_INET : AF_INET6, ns_rr_rdata(record), text.data(), text.size());
    found.emplace_back(text.data());
  }
}

/// In the child: a line "name address ..." for each name, as it becomes known; nothing after the name: it is not known.
void ask_all(const std::vector<std::string>& names, int out) {
  std::atomic<size_t> next = 0;
  std::mutex writing;
  const auto ask_next = [&] {
    struct __res_state state {};
    if (::res_ninit(&state) != 0) {
      return;
    }
    state.retry = 2;
    state.retrans = 2;
    for (size_t mine = next++; mine < names.size(); mine = next++) {
      std::vector<std::string> found;
      for (const int type : {ns_t_a, ns_t_aaaa}) {
        if (found.empty()) {
          ask_name_servers(state, names[mine], type, found);
        }
      }
      const std::string line = fmt::format("{} {}\n", names[mine], fmt::join(found, " "));
      const std::scoped_lock lock(writing);
      (void)write_all(out, line);
    }
    ::res_nclose(&state);
  };
  std::vector<std::jthread> threads;
  try {
    while (threads.size() + 1 < std::min(kThreads, names.size())) {
      threads.emplace_back(ask_next);
    }
  } catch (const std::system_error&) {  // those that could be started, and this one
  }
  ask_next();
}

/// What the child writes until it ends, or until the deadline.
std::string read_until(int from, steady_clock::time_point deadline) {
  std::string text;
  std::array<char, 4096> part{};
  std::vector<pollfd> fds{{.fd = from, .events = POLLIN}};
  while (text.size() < kLargestAnswer && poll_until(fds, deadline)) {
    const ssize_t got = ::read(from, part.data(), part.size());
    if (got == 0 || (got < 0 && errno != EINTR)) {
      break;
    }
    text.append(part.data(), got > 0 ? static_cast<size_t>(got) : 0);
  }
  return text;
}

/// A name without an entry was not answered for in time; one without addresses is not known.
Addresses ask_in_child(const std::vector<std::string>& names, steady_clock::time_point deadline) {
  auto pipe = make_pipe();
  const pid_t parent = ::getpid();
  const pid_t child = pipe ? ::fork() : -1;
  if (child == 0) {
    if (die_with_parent(parent)) {
      ask_all(names, pipe->write_end.get());
    }
    ::_exit(0);
  }
  Addresses known;
  if (child < 0) {
    return known;
  }
  pipe->write_end.reset();
  const std::string text = read_until(pipe->read_end.get(), deadline);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  for (const std::string_view line : split(text, '\n')) {
    const auto fields = split_fields(line);
    if (fields.empty()) {
      continue;
    }
    std::vector<std::string>& addresses = known[std::string(fields[0])];
    for (const std::string_view field : std::span(fields).subspan(1)) {
      if (is_number(std::string(field))) {
        addresses.emplace_back(field);
      }
    }
  }
  return known;
}

}  // namespace

std::map<std::string, std::vector<std::string>> parse_hosts(std::string_view text) {
  Addresses hosts;
  for (std::string_view line : split(text, '\n')) {
    const auto fields = split_fields(line.substr(0, line.find('#')));
    if (fields.empty() || !is_number(std::string(fields[0]))) {
      continue;
    }
    for (const std::string_view name : std::span(fields).subspan(1)) {
      std::vector<std::string>& addresses = hosts[lower(name)];
      if (addresses.size() < kMostAddresses) {
        addresses.emplace_back(fields[0]);
      }
    }
  }
  return hosts;
}

std::vector<SameNode> leave_out_same(std::vector<NodeAddress>& nodes) {
  std::vector<SameNode> same;
  std::map<std::pair<std::string, uint16_t>, std::string> known;
  std::vector<NodeAddress> kept;
  for (NodeAddress& node : nodes) {
    std::vector<std::string> used(node.addresses.begin(), node.addresses.begin() + (node.addresses.empty() ? 0 : 1));
    // A name of this host stands for both kinds of loopback. Other names with several addresses are of many hosts.
    if (std::ranges::all_of(node.addresses, is_loopback)) {
      used = node.addresses;
    }
    const auto first = std::ranges::find_if(used, [&](const std::string& address) {
      return known.contains({address, node.port});
    });
    if (first != used.end()) {
      same.push_back({known[{*first, node.port}], node.shown()});
      continue;
    }
    for (const std::string& address : used) {
      known[{address, node.port}] = node.shown();
    }
    kept.push_back(std::move(node));
  }
  nodes = std::move(kept);
  return same;
}

void resolve(std::vector<NodeAddress>& nodes, std::chrono::milliseconds limit) {
  const auto deadline = steady_clock::now() + limit;
  const Addresses hosts = parse_hosts(read_file("/etc/hosts", kLargestAnswer).value_or(""));
  std::set<std::string> unknown;
  for (NodeAddress& node : nodes) {
    if (is_number(node.host)) {
      node.addresses = {node.host};
    } else if (const auto found = hosts.find(lower(node.host)); found != hosts.end()) {
      node.addresses = found->second;
    } else {
      unknown.insert(node.host);
    }
  }
  if (unknown.empty()) {
    return;
  }
  const Addresses known = ask_in_child({unknown.begin(), unknown.end()}, deadline);
  for (NodeAddress& node : nodes) {
    if (!node.addresses.empty()) {
      continue;
    }
    const auto found = known.find(node.host);
    if (found != known.end()) {
      node.addresses = found->second;
    }
    if (node.addresses.empty()) {
      node.problem = found == known.end() ? "no name server gave an address in time" : "no host of this name is known";
      node.remedy = "check the name, or give its number";
    }
  }
}

}  // namespace stalltrace::fleet
