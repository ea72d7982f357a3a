// SPDX-License-Identifier: Apache-2.0
#include "blackbox/decode/decode.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/clock.h"

namespace stalltrace::blackbox {
namespace {

constexpr int32_t kMostRanks = 1 << 24;

/// A living process without a pulse for this long is stopped, and not only late: nobody can ask it what it waits for.
constexpr uint64_t kNoPulseNs = 2 * ST_BOX_PAUSE_NS;

constexpr std::array<const char*, 9> kLossNames{
    "profiler:no_slot",       "profiler:lapped",         "profiler:no_communicator",
    "profiler:stale_handle",  "profiler:foreign_handle", "profiler:unknown_type",
    "profiler:unknown_state", "profiler:late_part",      "profiler:evicted"};

}  // namespace

std::optional<int32_t> rank_of(int32_t rank) {
  return rank >= 0 && rank < kMostRanks ? std::optional(rank) : std::nullopt;
}

std::optional<int64_t> clock_offset_of(const st_box_header& header) {
  const st_box_clock_anchor* newest = nullptr;
  for (const st_box_clock_anchor& anchor : header.anchors) {
    const bool sane = anchor.monotonic_ns != 0 && anchor.monotonic_ns < kLatestTime &&
                      anchor.realtime_ns >= anchor.monotonic_ns && anchor.realtime_ns < 2 * kLatestTime;
    if (sane && (newest == nullptr || anchor.monotonic_ns > newest->monotonic_ns)) {
      newest = &anchor;
    }
  }
  return newest == nullptr ? std::nullopt
                           : std::optional(static_cast<int64_t>(newest->realtime_ns - newest->monotonic_ns));
}

std::optional<int64_t> to_utc(uint64_t monotonic_ns, int64_t clock_offset_ns) {
  return monotonic_ns == 0 || monotonic_ns >= kLatestTime
             ? std::nullopt
             : std::optional(static_cast<int64_t>(monotonic_ns) + clock_offset_ns);
}

Process decode_process(const st_box_header& header, const Owner& owner) {
  Process row;
  row.node_id = owner.node_id;
  row.pid = owner.pid;
  const uint64_t created_ns = header.created_ns < kLatestTime ? header.created_ns : 0;
  const uint64_t start_ns = header.ticks_per_second > 0 && header.process_start_ticks < kLatestTime / kNsPerSecond
                                ? header.process_start_ticks * kNsPerSecond / header.ticks_per_second
                                : created_ns;
  row.start_ns = to_utc(std::min(start_ns, created_ns), owner.clock_offset_ns).value_or(owner.clock_offset_ns);
  row.cmdline = text_of(header.command);
  row.exe = row.cmdline.substr(0, row.cmdline.find(' '));
  row.rank = rank_of(header.env_rank);
  row.rank_source = row.rank ? RankSource::kEnvironment : RankSource::kUnknown;
  row.local_rank = rank_of(header.env_local_rank);
  if (header.env_world_size > 0) {
    row.world_size = rank_of(header.env_world_size);
  }
  row.job_id = text_of(header.job_id);
  row.netns = header.network_namespace;
  return row;
}

std::optional<Communicator> decode_communicator(const st_box_communicator& entry, const Owner& owner) {
  const auto created_ns = to_utc(entry.created_ns, owner.clock_offset_ns);
  if (!created_ns) {
    return std::nullopt;
  }
  Communicator row;
  row.node_id = owner.node_id;
  row.pid = owner.pid;
  row.comm_ptr = entry.serial;
  row.comm_id_hash = entry.hash;  // NCCL's own hash names it where its id was not seen
  row.nccl_comm_hash = entry.hash;
  row.rank = rank_of(entry.rank);
  row.rank_source = row.rank ? RankSource::kPlugin : RankSource::kUnknown;
  row.nranks = entry.ranks > 0 ? rank_of(entry.ranks) : std::nullopt;
  row.created_ns = *created_ns;
  row.destroyed_ns = to_utc(entry.destroyed_ns, owner.clock_offset_ns);
  return row;
}

uint64_t last_beat(const st_box_header& header, uint64_t now_ns) {
  return header.pulse_ns >= header.created_ns && header.pulse_ns <= now_ns ? header.pulse_ns : 0;
}

std::vector<WaitSpan> decode_pauses(const Contents& contents, const Owner& owner, uint64_t now_ns) {
  std::vector<WaitSpan> spans;
  const st_box_header& header = contents.header;
  const auto add = [&](WaitKind kind, uint64_t from_ns, uint64_t to_ns, uint64_t waited_ns, bool open) {
    const auto since_ns = to_utc(from_ns, owner.clock_offset_ns);
    if (!since_ns || from_ns < header.created_ns || to_ns > now_ns || to_ns <= from_ns) {
      return;
    }
    WaitSpan span{.node_id = owner.node_id, .timestamp_ns = *since_ns, .open = open, .kind = kind, .pid = owner.pid};
    span.tid = owner.pid;  // of all threads alike
    span.window_ns = static_cast<int64_t>(to_ns - from_ns);
    span.waited_ns = static_cast<int64_t>(waited_ns);
    spans.push_back(std::move(span));
  };
  for (const st_box_pause& pause : header.pauses) {
    const uint64_t length_ns = pause.to_ns - pause.from_ns;
    if (pause.from_ns == 0 || pause.to_ns <= pause.from_ns || pause.runnable_ns > length_ns) {
      continue;  // none, half written, or of a kernel that keeps no account
    }
    const bool kept_from_cpu = pause.runnable_ns >= length_ns / 2;
    add(kept_from_cpu ? WaitKind::kRunnable : WaitKind::kStopped, pause.from_ns, pause.to_ns,
        kept_from_cpu ? pause.runnable_ns : length_ns - pause.runnable_ns, false);
  }
  const uint64_t beat_ns = last_beat(header, now_ns);
  const uint64_t due_ns = beat_ns + ST_BOX_BEAT_NS;
  if (contents.has_writer && beat_ns != 0 && header.pulse_ended_ns == 0 && now_ns > due_ns + kNoPulseNs) {
    add(WaitKind::kStopped, due_ns, now_ns, now_ns - due_ns, true);
  }
  std::ranges::sort(spans, {}, &WaitSpan::timestamp_ns);
  return spans;
}

std::vector<Loss> decode_losses(const Contents& contents, NodeId node) {
  std::vector<Loss> losses;
  const auto add = [&](const char* source, uint64_t count) {
    if (count > 0) {
      losses.push_back({node, source, std::min<uint64_t>(count, std::numeric_limits<int64_t>::max())});
    }
  };
  for (size_t reason = 0; reason < kLossNames.size(); ++reason) {
    add(kLossNames[reason], contents.header.lost[reason]);
  }
  add("profiler:overwritten", contents.overwritten);
  add("profiler:torn", contents.torn);
  return losses;
}

}  // namespace stalltrace::blackbox
