// SPDX-License-Identifier: Apache-2.0
#include "blackbox/decode/process.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/process/secrets.h"
#include "blackbox/format/reader.h"

namespace stalltrace::blackbox {
namespace {

/// A living process counts as stopped when its heartbeat is overdue by this much; a heartbeat that is only late comes
/// earlier.
constexpr uint64_t kStoppedNs = 2 * ST_BOX_PAUSE_NS;

}  // namespace

Process decode_process(const st_box_header& header, const Owner& owner, CommandLines commands) {
  Process row;
  row.node_id = owner.node_id;
  row.pid = owner.pid;
  const uint64_t created_ns = header.created_ns < kLatestTime ? header.created_ns : 0;
  const uint64_t start_ns = header.ticks_per_second > 0 && header.process_start_ticks < kLatestTime / kNsPerSecond
                                ? header.process_start_ticks * kNsPerSecond / header.ticks_per_second
                                : created_ns;
  row.start_ns = to_utc(std::min(start_ns, created_ns), owner.clock_offset_ns).value_or(owner.clock_offset_ns);
  row.cmdline = text_of(header.command);
  if (commands == CommandLines::kRedacted) {  // older plugins stored it unredacted
    hide_secrets(row.cmdline);
  }
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

uint64_t last_heartbeat(const st_box_header& header, uint64_t now_ns) {
  return header.heartbeat_ns >= header.created_ns && header.heartbeat_ns <= now_ns ? header.heartbeat_ns : 0;
}

std::vector<WaitSpan> decode_pauses(const st_box_header& header, bool has_writer, const Owner& owner, uint64_t now_ns) {
  std::vector<WaitSpan> spans;
  const auto add = [&](WaitKind kind, uint64_t from_ns, uint64_t to_ns, uint64_t waited_ns, bool open) {
    const auto since_ns = to_utc(from_ns, owner.clock_offset_ns);
    if (!since_ns || from_ns < header.created_ns || to_ns > now_ns || to_ns <= from_ns) {
      return;
    }
    WaitSpan span{.node_id = owner.node_id, .timestamp_ns = *since_ns, .open = open, .kind = kind, .pid = owner.pid};
    span.tid = owner.pid;  // represents all threads of the process
    span.window_ns = static_cast<int64_t>(to_ns - from_ns);
    span.waited_ns = static_cast<int64_t>(waited_ns);
    spans.push_back(std::move(span));
  };
  for (const st_box_pause& pause : header.pauses) {
    const uint64_t length_ns = pause.to_ns - pause.from_ns;
    if (pause.from_ns == 0 || pause.to_ns <= pause.from_ns || pause.runnable_ns > length_ns) {
      continue;  // empty, half written, or without scheduler statistics
    }
    const bool kept_from_cpu = pause.runnable_ns >= length_ns / 2;
    add(kept_from_cpu ? WaitKind::kRunnable : WaitKind::kStopped, pause.from_ns, pause.to_ns,
        kept_from_cpu ? pause.runnable_ns : length_ns - pause.runnable_ns, false);
  }
  const uint64_t heartbeat_ns = last_heartbeat(header, now_ns);
  const uint64_t due_ns = heartbeat_ns + ST_BOX_BEAT_NS;
  if (has_writer && heartbeat_ns != 0 && header.heartbeat_ended_ns == 0 && now_ns > due_ns + kStoppedNs) {
    add(WaitKind::kStopped, due_ns, now_ns, now_ns - due_ns, true);
  }
  std::ranges::sort(spans, {}, &WaitSpan::timestamp_ns);
  return spans;
}

}  // namespace stalltrace::blackbox
