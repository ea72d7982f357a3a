// SPDX-License-Identifier: Apache-2.0
#include "stacks/output/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "base/text.h"

namespace stalltrace::stacks {
namespace {

std::string state_words(char state) {
  switch (state) {
    case 'R':
      return "running";
    case 'S':
      return "sleeping";
    case 'D':
      return "in uninterruptible sleep";
    case 'T':
      return "stopped by a signal";
    case 't':
      return "stopped by a debugger";
    case 'Z':
    case 'X':
      return "ended";
    default:
      return fmt::format("in state {}", printable(std::string_view(&state, 1)));
  }
}

std::string peers_of(const Descriptor& descriptor) {
  std::vector<std::string> names;
  for (const PeerProcess& peer : descriptor.peers) {
    names.push_back(peer.itself ? "the process itself" : fmt::format("pid {} ({})", peer.pid, printable(peer.name)));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string describe_descriptor(const Descriptor& descriptor) {
  const std::string peers = peers_of(descriptor);
  const bool nobody = descriptor.peers_known && descriptor.peers.empty();
  switch (descriptor.kind) {
    case DescriptorKind::kPipe:
      return fmt::format("{}{}", printable(descriptor.link),
                         !peers.empty() ? fmt::format(" (its other end: {})", peers)
                         : nobody       ? " (no process seen here has its other end)"
                                        : "");
    case DescriptorKind::kTcp:
      return fmt::format("TCP {}{}{} ({}{})", descriptor.local, descriptor.state == "LISTEN" ? "" : " -> ",
                         descriptor.state == "LISTEN" ? "" : descriptor.remote, descriptor.state,
                         peers.empty() ? "" : fmt::format(", peer {}", peers));
    case DescriptorKind::kUnix:
      return descriptor.unix_path.empty() ? fmt::format("Unix {}", printable(descriptor.link))
                                          : fmt::format("Unix socket {}", printable(descriptor.unix_path));
    case DescriptorKind::kFile:
    case DescriptorKind::kOtherSocket:
    case DescriptorKind::kOther:
      break;
  }
  return printable(descriptor.link);
}

std::string describe_wait_briefly(const ThreadStack& thread) {
  if (thread.state == 'T' || thread.state == 't' || thread.state == 'Z' || thread.state == 'X') {
    return state_words(thread.state);
  }
  if (!thread.blocked) {
    return "running";
  }
  const Blocked& blocked = *thread.blocked;
  if (blocked.for_gil) {
    return "waiting for the GIL";
  }
  if (blocked.call) {
    return fmt::format("in {}", call_name(blocked.call->number));
  }
  return blocked.wchan.empty() ? state_words(thread.state)
                               : fmt::format("{} ({})", state_words(thread.state), printable(blocked.wchan));
}

std::string describe_wait(const ThreadStack& thread) {
  const std::string brief = describe_wait_briefly(thread);
  if (!thread.blocked || !thread.blocked->call || thread.blocked->for_gil || brief == state_words(thread.state)) {
    return brief;
  }
  const Blocked& blocked = *thread.blocked;
  if (!blocked.path.empty()) {
    return fmt::format("{} of {}", brief, printable(blocked.path));
  }
  std::vector<std::string> parts;
  for (const Descriptor& descriptor : blocked.descriptors) {
    parts.push_back(fmt::format("descriptor {}, {}", descriptor.number, describe_descriptor(descriptor)));
  }
  if (parts.empty()) {
    return brief;
  }
  return fmt::format("{} of {}{}", brief, fmt::join(parts, "; "),
                     blocked.more_descriptors == 0 ? "" : fmt::format("; and {} more", blocked.more_descriptors));
}

}  // namespace stalltrace::stacks
