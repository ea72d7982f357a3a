// SPDX-License-Identifier: Apache-2.0
#include "stacks/blocked/descriptors.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <memory>

#include "base/clock.h"
#include "base/file.h"
#include "base/handle.h"
#include "base/text.h"

namespace stalltrace::stacks {
namespace {

constexpr size_t kMostNetBytes = 32U << 20;
constexpr size_t kMostDescriptors = 65'536;  // of one process, examined for peers
constexpr size_t kMostPeers = 8;
constexpr std::string_view kPipe = "pipe:[";
constexpr std::string_view kSocket = "socket:[";
// include/net/tcp_states.h
constexpr std::array<std::string_view, 13> kStates{"?",         "ESTABLISHED", "SYN_SENT",    "SYN_RECV",   "FIN_WAIT1",
                                                   "FIN_WAIT2", "TIME_WAIT",   "CLOSE",       "CLOSE_WAIT", "LAST_ACK",
                                                   "LISTEN",    "CLOSING",     "NEW_SYN_RECV"};

struct FileId {
  uint32_t device_major = 0;
  uint32_t device_minor = 0;
  uint64_t inode = 0;
  bool fifo = false;

  bool operator==(const FileId&) const = default;
};

std::string link_of(const std::string& path) {
  std::array<char, PATH_MAX> target;
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  return length > 0 ? std::string(target.data(), static_cast<size_t>(length)) : std::string();
}

/// Identifies the target of a descriptor's link, without asking a file server.
std::optional<FileId> file_behind(const std::string& link) {
  struct statx found {};
  if (::statx(AT_FDCWD, link.c_str(), AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &found) != 0) {
    return std::nullopt;
  }
  return FileId{found.stx_dev_major, found.stx_dev_minor, found.stx_ino, S_ISFIFO(found.stx_mode)};
}

std::optional<uint64_t> inode_in(std::string_view link, std::string_view kind) {
  if (!link.starts_with(kind) || !link.ends_with(']')) {
    return std::nullopt;
  }
  link.remove_prefix(kind.size());
  link.remove_suffix(1);
  const auto inode = parse_integer(link);
  return inode && *inode > 0 ? std::optional(static_cast<uint64_t>(*inode)) : std::nullopt;
}

/// "0100007F:1F90" → "127.0.0.1:8080"; the fields of an address are in the host's byte order.
std::optional<std::string> address_of(std::string_view text) {
  const size_t colon = text.find(':');
  const size_t digits = colon == std::string_view::npos ? 0 : colon;
  std::array<uint32_t, 4> fields{};
  uint16_t port = 0;
  if ((digits != 8 && digits != 32) || text.size() != digits + 5 ||
      std::from_chars(text.data() + colon + 1, text.data() + text.size(), port, 16).ec != std::errc{}) {
    return std::nullopt;
  }
  for (size_t i = 0; i < digits / 8; ++i) {
    const char* word = text.data() + 8 * i;
    if (const auto [end, code] = std::from_chars(word, word + 8, fields[i], 16);
        code != std::errc{} || end != word + 8) {
      return std::nullopt;
    }
  }
  std::array<char, INET6_ADDRSTRLEN> shown{};
  const bool v4 = digits == 8;
  if (::inet_ntop(v4 ? AF_INET : AF_INET6, fields.data(), shown.data(), shown.size()) == nullptr) {
    return std::nullopt;
  }
  constexpr std::string_view kMapped = "::ffff:";  // IPv4 on an IPv6 socket
  std::string_view address(shown.data());
  const bool mapped = !v4 && address.starts_with(kMapped) && address.find('.') != std::string_view::npos;
  address.remove_prefix(mapped ? kMapped.size() : 0);
  return v4 || mapped ? fmt::format("{}:{}", address, port) : fmt::format("[{}]:{}", address, port);
}

/// O_ACCMODE of a descriptor: 0 read, 1 write, 2 both; -1 unknown.
int access_mode(const std::string& fdinfo_path) {
  const std::string text = read_file(fdinfo_path, 512).value_or("");
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with("flags:")) {
      const std::string_view digits = trim(line.substr(6));
      unsigned flags = 0;
      std::from_chars(digits.data(), digits.data() + digits.size(), flags, 8);
      return static_cast<int>(flags & 3U);
    }
  }
  return -1;
}

}  // namespace

std::optional<TcpRow> parse_tcp_row(std::string_view line) {
  // sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode ...
  const auto fields = split_fields(line);
  constexpr size_t kInode = 9;
  if (fields.size() <= kInode || fields[3].size() != 2) {
    return std::nullopt;
  }
  auto local = address_of(fields[1]);
  auto remote = address_of(fields[2]);
  unsigned state = 0;
  std::from_chars(fields[3].data(), fields[3].data() + 2, state, 16);
  const auto inode = parse_integer(fields[kInode]);
  if (!local || !remote || !inode || *inode < 0) {
    return std::nullopt;
  }
  return TcpRow{std::move(*local), std::move(*remote), std::string(kStates[state < kStates.size() ? state : 0]),
                static_cast<uint64_t>(*inode)};
}

const Descriptors::Network& Descriptors::network_of(pid_t pid) {
  const auto [found, fresh] = networks_.try_emplace(procfs_.netns(pid));
  Network& network = found->second;
  if (!fresh) {
    return network;
  }
  for (const char* name : {"net/tcp", "net/tcp6"}) {
    const std::string text = read_file(procfs_.path(pid, name), kMostNetBytes).value_or("");
    for (const std::string_view line : split(text, '\n')) {
      if (auto row = parse_tcp_row(line); row && row->inode != 0) {
        network.tcp.emplace(row->inode, std::move(*row));
      }
    }
  }
  // Num RefCount Protocol Flags Type St Inode Path
  const std::string text = read_file(procfs_.path(pid, "net/unix"), kMostNetBytes).value_or("");
  constexpr size_t kInode = 6;
  for (const std::string_view line : split(text, '\n')) {
    const auto fields = split_fields(line);
    const auto inode = fields.size() > kInode ? parse_integer(fields[kInode]) : fail("");
    if (inode && *inode > 0) {
      network.unix_sockets.emplace(*inode,
                                   fields.size() > kInode + 1 ? std::string(fields[kInode + 1]) : std::string());
    }
  }
  return network;
}

std::optional<Descriptor> Descriptors::at(pid_t pid, int number) {
  Descriptor descriptor{.number = number, .link = link_of(procfs_.path(pid, fmt::format("fd/{}", number)))};
  if (number < 0 || descriptor.link.empty()) {
    return std::nullopt;
  }
  const std::string_view link = descriptor.link;
  if (inode_in(link, kPipe)) {
    descriptor.kind = DescriptorKind::kPipe;
    descriptor.other_end = descriptor.link;
  } else if (const auto inode = inode_in(link, kSocket)) {
    const Network& network = network_of(pid);
    const auto row = network.tcp.find(*inode);
    descriptor.kind = row != network.tcp.end()   ? DescriptorKind::kTcp
                      : network.has_unix(*inode) ? DescriptorKind::kUnix
                                                 : DescriptorKind::kOtherSocket;
    if (row != network.tcp.end()) {
      descriptor.local = row->second.local;
      descriptor.remote = row->second.remote;
      descriptor.state = row->second.state;
      const auto peer = std::ranges::find_if(network.tcp, [&](const auto& other) {
        return other.second.local == descriptor.remote && other.second.remote == descriptor.local;
      });
      descriptor.other_end = peer == network.tcp.end() ? "" : fmt::format("{}{}]", kSocket, peer->first);
    } else if (descriptor.kind == DescriptorKind::kUnix) {
      descriptor.unix_path = network.unix_sockets.at(*inode);
    }
  } else if (!link.starts_with('/')) {
    descriptor.kind = DescriptorKind::kOther;
  }
  return descriptor;
}

std::vector<int> Descriptors::watched_by(pid_t pid, int epoll, size_t most) const {
  std::vector<int> numbers;
  const std::string text = read_file(procfs_.path(pid, fmt::format("fdinfo/{}", epoll)), 65'536).value_or("");
  for (const std::string_view line : split(text, '\n')) {
    const auto fields = split_fields(line);
    if (numbers.size() < most && fields.size() > 1 && fields[0] == "tfd:") {
      if (const auto number = parse_integer(fields[1]); number && *number >= 0 && *number < INT_MAX) {
        numbers.push_back(static_cast<int>(*number));
      }
    }
  }
  return numbers;
}

bool Descriptors::is_named_fifo(pid_t pid, int number) const {
  const std::optional<FileId> file = file_behind(procfs_.path(pid, fmt::format("fd/{}", number)));
  return file && file->fifo;
}

void Descriptors::find_peers(std::span<Descriptor* const> wanted, std::span<const pid_t> pids, int64_t most_ns) const {
  std::multimap<std::string_view, size_t> by_link;
  std::vector<int> own_modes;
  std::vector<std::optional<FileId>> own_files;
  for (size_t i = 0; i < wanted.size(); ++i) {
    own_modes.push_back(access_mode(procfs_.path(pids[i], fmt::format("fdinfo/{}", wanted[i]->number))));
    own_files.push_back(file_behind(procfs_.path(pids[i], fmt::format("fd/{}", wanted[i]->number))));
    if (!wanted[i]->other_end.empty()) {
      by_link.emplace(wanted[i]->other_end, i);
    }
  }
  const int64_t begun_ns = monotonic_now_ns();
  bool complete = true;
  for (const pid_t pid : by_link.empty() ? std::vector<pid_t>() : procfs_.pids()) {
    const std::unique_ptr<DIR, Free<closedir>> folder(::opendir(procfs_.path(pid, "fd").c_str()));
    complete = complete && (folder || errno == ENOENT);  // a process that has ended holds nothing
    size_t seen = 0;
    while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
      if (entry->d_name[0] == '.') {
        continue;
      }
      if (++seen > kMostDescriptors || monotonic_now_ns() - begun_ns > most_ns) {
        complete = false;
        break;
      }
      const std::string link = link_of(procfs_.path(pid, std::string("fd/") + entry->d_name));
      const auto [first, last] = by_link.equal_range(link);
      for (auto match = first; match != last; ++match) {
        Descriptor& descriptor = *wanted[match->second];
        const bool socket = descriptor.kind == DescriptorKind::kTcp;
        // Different containers may give different files the same path.
        if (link.starts_with('/') &&
            file_behind(procfs_.path(pid, std::string("fd/") + entry->d_name)) != own_files[match->second]) {
          continue;
        }
        const int mode = socket ? -1 : access_mode(procfs_.path(pid, std::string("fdinfo/") + entry->d_name));
        const bool other_direction = socket || (mode >= 0 && mode != own_modes[match->second]) || mode == 2;
        const bool known =
            std::ranges::any_of(descriptor.peers, [&](const PeerProcess& peer) { return peer.pid == pid; });
        if (other_direction && !known && descriptor.peers.size() < kMostPeers) {
          descriptor.peers.push_back({pid, procfs_.thread_name(pid, pid), pid == pids[match->second]});
        }
      }
    }
  }
  for (Descriptor* descriptor : wanted) {
    descriptor->peers_known = complete && !descriptor->other_end.empty();
  }
}

}  // namespace stalltrace::stacks
