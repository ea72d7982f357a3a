// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/tcp/socket_attribution.h"

#include <iterator>

namespace stalltrace::capture {
namespace {

constexpr int kProofs = 2;
/// NCCL's header: four bytes, or with a small message inside (NCCL_SOCKET_INLINE, 128 bytes).
constexpr uint64_t kHeaderBytes = 4 + 128;

/// True if every byte moved in that time belongs to this connection.
bool was_alone(const st_step_mark& mark) {
  return mark.step.alone_since_ns != 0 && mark.last.time_ns >= mark.step.alone_since_ns;
}

/// True if the steps between two counts explain the bytes that a socket moved between them.
bool explains(const st_step_count& before, const st_step_count& now, uint64_t moved) {
  if (before.steps >= now.steps) {
    return false;
  }
  const uint64_t steps = now.steps - before.steps;
  const uint64_t expected = now.bytes - before.bytes;
  return expected >= ST_MARKER_LEAST_BYTES * steps && moved >= expected && moved - expected <= kHeaderBytes * steps;
}

bool bytes_fit(const st_step_mark& before, const st_step_mark& now) {
  if (before.last.cookie != now.last.cookie) {
    return false;
  }
  const uint64_t moved = now.last.moved - before.last.moved;
  return explains(before.step.own, now.step.own, moved) || explains(before.step.all, now.step.all, moved);
}

}  // namespace

bool SocketAttribution::on_mark(const st_step_mark& mark) {
  if (mark.last.cookie == 0 || mark.step.comm_hash == 0 || mark.step.kind >= ST_STEP_KINDS) {
    return false;
  }
  const CommSocket comm_socket{.pid = static_cast<int32_t>(mark.header.tgid),
                               .nccl_comm_hash = mark.step.comm_hash,
                               .rank = mark.step.rank,
                               .ranks = mark.step.ranks,
                               .peer = mark.step.peer,
                               .channel = mark.step.channel,
                               .is_send = mark.step.is_send != 0};
  auto last = last_marks_.find({comm_socket, mark.step.kind});
  const bool first = last == last_marks_.end();
  if (first) {
    if (!shares_.take(comm_socket.pid, UserShares::Kind::kStepMark)) {
      return false;
    }
    last = last_marks_.emplace(std::pair(comm_socket, mark.step.kind), mark).first;
  }
  const bool proven = was_alone(mark) || (!first && bytes_fit(last->second, mark));
  last->second = mark;
  if (!proven) {
    return false;
  }
  Evidence& evidence = evidence_.try_emplace(mark.last.cookie, Evidence{.comm_socket = comm_socket}).first->second;
  evidence.shared = evidence.shared || evidence.comm_socket.nccl_comm_hash != comm_socket.nccl_comm_hash;
  if (evidence.contradicted) {
    return false;
  }
  if (evidence.comm_socket != comm_socket) {
    evidence.contradicted = true;
    return evidence.proofs >= kProofs;
  }
  return ++evidence.proofs == kProofs;
}

std::optional<CommSocket> SocketAttribution::comm_socket_of(uint64_t cookie) const {
  const auto found = evidence_.find(cookie);
  if (found == evidence_.end() || found->second.contradicted || found->second.proofs < kProofs) {
    return std::nullopt;
  }
  return found->second.comm_socket;
}

bool SocketAttribution::is_shared(uint64_t cookie) const {
  const auto found = evidence_.find(cookie);
  return found != evidence_.end() && found->second.shared;
}

void SocketAttribution::forget_process(int32_t pid) {
  const auto from = last_marks_.lower_bound({CommSocket{.pid = pid}, 0});
  auto to = from;
  while (to != last_marks_.end() && to->first.first.pid == pid) {
    ++to;
  }
  shares_.give_back(pid, UserShares::Kind::kStepMark, static_cast<size_t>(std::distance(from, to)));
  last_marks_.erase(from, to);
}

}  // namespace stalltrace::capture
