// SPDX-License-Identifier: Apache-2.0
#include "stacks/output/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/elf/code_kind.h"
#include "base/text.h"
#include "stacks/blocked/system_calls.h"

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

/// Descriptors of a poll beyond these are only counted.
constexpr size_t kNamed = 2;

std::string what_of(const Descriptor& descriptor) {
  const std::string text = describe_descriptor(descriptor);
  const bool named = descriptor.kind == DescriptorKind::kPipe && descriptor.link.starts_with('/');
  return named ? "FIFO " + text : text;
}

std::string whats_of(const Blocked& blocked) {
  std::vector<std::string> parts;
  for (const Descriptor& descriptor : blocked.descriptors) {
    if (parts.size() < kNamed) {
      parts.push_back(what_of(descriptor));
    }
  }
  const size_t more = blocked.descriptors.size() - parts.size() + blocked.more_descriptors;
  return fmt::format("{}{}", fmt::join(parts, ", "), more == 0 ? "" : fmt::format(" and {} more", more));
}

std::string activity_in(const Blocked& blocked, const CallInfo& info) {
  const std::string whats = whats_of(blocked);
  const auto with = [&](std::string_view doing, std::string_view nothing) {
    return whats.empty() ? std::string(nothing) : fmt::format("{} {}", doing, whats);
  };
  const std::string in_call = fmt::format("in {}", info.name);
  switch (info.kind) {
    case CallKind::kRead:
      return with("reading", in_call);
    case CallKind::kWrite:
      return with("writing to", in_call);
    case CallKind::kAccept:
      return with("waiting for a connection to", in_call);
    case CallKind::kFile:
      return with(in_call + " of", in_call);
    case CallKind::kPoll:
    case CallKind::kSelect:
    case CallKind::kEpoll:
      return with("waiting for", in_call);
    case CallKind::kFutex:
      return "waiting for another thread (futex)";
    case CallKind::kSleep:
      return fmt::format("sleeping ({})", info.name);
    case CallKind::kWait:
      return fmt::format("waiting for a child process ({})", info.name);
    case CallKind::kOther:
      break;
  }
  return blocked.path.empty() ? in_call : fmt::format("{} of {}", in_call, printable(blocked.path));
}

}  // namespace

std::string describe_activity(const ThreadStack& thread) {
  const bool in_call = thread.blocked && thread.blocked->call && !thread.blocked->for_gil && thread.state != 'T' &&
                       thread.state != 't' && thread.state != 'Z' && thread.state != 'X';
  const auto info = in_call ? call_info(thread.blocked->call->number) : std::nullopt;
  return info ? activity_in(*thread.blocked, *info) : describe_wait_briefly(thread);
}

std::optional<NativeCall> native_call_of(const ThreadStack& thread) {
  if (!thread.native) {
    return std::nullopt;
  }
  const std::optional<NativeLocation> location = native_location_in(thread.native->frames);
  if (!location) {
    return std::nullopt;
  }
  NativeCall call{.caller = brief_text(*location->caller), .called = {}, .only_waits = false};
  if (location->called != nullptr) {
    call.called = printable(location->called->function);
    call.only_waits = is_system_code(location->called->file) && is_installed(*location->caller);
  }
  return call;
}

std::string to_text(const NativeCall& call) {
  return call.called.empty() ? call.caller
         : call.only_waits   ? fmt::format("called by {}", call.caller)
                             : fmt::format("{}, called by {}", call.called, call.caller);
}

std::string describe_native_call(const ThreadStack& thread) {
  const std::optional<NativeCall> call = native_call_of(thread);
  return call ? to_text(*call) : "";
}

std::string describe_descriptor(const Descriptor& descriptor) {
  const std::string peers = peers_of(descriptor);
  const bool unseen = descriptor.peers_known && descriptor.peers.empty();
  switch (descriptor.kind) {
    case DescriptorKind::kPipe:
      return fmt::format("{}{}", printable(descriptor.link),
                         !peers.empty() ? fmt::format(" (its other end: {})", peers)
                         : unseen       ? " (no process seen here has its other end)"
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
