// SPDX-License-Identifier: Apache-2.0
#include "blackbox/follow/follower.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace stalltrace::blackbox {
namespace {

using namespace blackbox;

constexpr int64_t kFindNs = kNsPerSecond;  // folders are looked into this often,
constexpr int64_t kLookNs = kNsPerSecond;  // and open events of a box
constexpr uint64_t kRecordsARound = 8192;  // of one box: 1 MiB
constexpr size_t kStepsARound = 500;       // rows, of one box
constexpr size_t kMostBoxes = 512;
constexpr ptrdiff_t kMostGone = 1024;
constexpr size_t kMostCalls = 2048;  // of the caller's thread, remembered per box
constexpr size_t kMostHeld = 65536;
constexpr size_t kMostOpenWaits = 4096;
constexpr int64_t kOpenWaitNs = 200 * kNsPerMs;  // an operation that waits this long is told while it does
constexpr int64_t kThreadsNs = 5 * kNsPerSecond;
constexpr int64_t kOutlivedNs = kNsPerSecond;
constexpr int64_t kFinishNs = kNsPerSecond;
constexpr uint32_t kMostPid = 1U << 22;  // PID_MAX_LIMIT of linux/threads.h: the kernel gives no number above it
constexpr const char* kShortSteps = "profiler:short_steps";

bool is_call(const st_box_event& event) { return event.type == ST_BOX_COLL_API || event.type == ST_BOX_P2P_API; }
bool is_collective_event(const st_box_event& event) { return event.type == ST_BOX_COLL || event.type == ST_BOX_P2P; }

int64_t weight(const StepRow& step) { return step.row.duration_ns.value_or(std::numeric_limits<int64_t>::max()); }

}  // namespace

ProfilerFollower::ProfilerFollower(const Node& node, const Procfs& procfs, ProfilerFileFinder::Scope scope,
                                   ProcessRegistry& processes, CallPairing& merge, EventSink& sink, Note note)
    : node_(node),
      procfs_(procfs),
      processes_(processes),
      merge_(merge),
      sink_(sink),
      note_(std::move(note)),
      finder_(procfs, scope) {
  struct stat info {};
  own_pid_namespace_ = ::stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

/// Of a process that is gone. What it was called in a pid namespace of its own is another process's name here.
int32_t ProfilerFollower::number_here(const st_box_header& header) {
  return header.pid_namespace == own_pid_namespace_ && header.pid <= kMostPid
             ? static_cast<int32_t>(header.pid)
             : static_cast<int32_t>(kMostPid) + ++made_up_pids_;
}

void ProfilerFollower::take(FoundBox found) {
  if (boxes_.size() >= kMostBoxes) {
    return;
  }
  if (!found.alive) {
    found.pid = number_here(found.reader.layout());
    if (processes_.find(found.pid) != nullptr) {
      return;
    }
  }
  Box box{.reader = std::move(found.reader), .alive = found.alive};
  box.owner = {node_.node_id, found.pid, node_.clock_offset_ns};
  const st_box_header& header = box.reader.layout();
  box.numbers_differ = found.alive && header.pid != static_cast<uint32_t>(found.pid);
  if (!found.alive) {
    Process row = decode_process(header, box.owner);
    sink_.accept(row);
    gone_.push_back({.row = std::move(row)});
  }
  boxes_.push_back(std::move(box));
}

void ProfilerFollower::end_process(pid_t pid) {
  finder_.end_process(pid, [this](FoundBox found) { take(std::move(found)); });
  bool has_box = false;
  for (Box& box : boxes_) {
    if (box.owner.pid == pid) {
      box.over = has_box = true;
    }
  }
  if (!has_box) {
    merge_.forget(pid);
  }
}

void ProfilerFollower::round(int64_t probes_read_ns) {
  const int64_t now_ns = monotonic_now_ns();
  if (now_ns - looked_ns_ >= kFindNs) {
    looked_ns_ = now_ns;
    finder_.look(now_ns, [this](FoundBox found) { take(std::move(found)); });
  }
  for (Box& box : boxes_) {
    follow(box, probes_read_ns);
  }
  for (Box& box : boxes_) {
    if ((box.over || !box.alive) && box.drained && box.held.empty()) {
      close(box);
    }
  }
  std::erase_if(boxes_, [](const Box& box) { return (box.over || !box.alive) && box.drained && box.held.empty(); });
  tell_who_died();
}

void ProfilerFollower::finish(int64_t probes_read_ns) {
  const int64_t began_ns = monotonic_now_ns();
  looked_ns_ = 0;
  do {
    for (Box& box : boxes_) {
      box.looked_ns = 0;
    }
    round(probes_read_ns);
  } while (monotonic_now_ns() - began_ns < kFinishNs &&
           !std::ranges::all_of(boxes_, [](const Box& box) { return box.drained; }));
  merge_.finish();
}

const st_box_communicator* ProfilerFollower::find(const Box& box, uint64_t serial) {
  const auto found = box.communicators.find(serial);
  return found == box.communicators.end() ? nullptr : &found->second;
}

Result<Contents> ProfilerFollower::read(Box& box, bool look, uint64_t most_records) {
  return box.reader.read({.most_records = most_records, .open_parts = look});
}

void ProfilerFollower::follow(Box& box, int64_t probes_read_ns) {
  const int64_t now_ns = monotonic_now_ns();
  const bool look = now_ns - box.looked_ns >= kLookNs || box.over || !box.alive;
  auto contents = read(box, look, kRecordsARound);
  if (contents && !look && contents->header.communicators_made != box.communicators_made) {
    if (auto more = read(box, true, 0)) {
      contents->communicators = std::move(more->communicators);
    }
  }
  if (!contents) {
    note_("a profiler file is left out: " + contents.error().what);
    box.alive = false;  // nothing more will come of it
    box.drained = true;
    box.held.clear();
    return;
  }
  box.looked_ns = look ? now_ns : box.looked_ns;
  box.heard_ns =
      std::max(box.heard_ns, static_cast<int64_t>(last_beat(contents->header, static_cast<uint64_t>(now_ns))));
  box.drained = contents->drained;
  learn_communicators(box, *contents);
  deliver_calls(box, *contents, probes_read_ns);
  deliver_steps(box, *contents);
  count_losses(box, *contents);
}

void ProfilerFollower::learn_communicators(Box& box, const Contents& contents) {
  box.communicators_made = contents.header.communicators_made;
  if (contents.communicators.empty()) {
    return;
  }
  box.left_open = false;
  for (const st_box_communicator& entry : contents.communicators) {
    box.left_open = box.left_open || entry.destroyed_ns == 0;
    const auto row = decode_communicator(entry, box.owner);
    const auto known = box.communicators.find(entry.serial);
    const bool news = known == box.communicators.end() || known->second.destroyed_ns != entry.destroyed_ns;
    box.communicators[entry.serial] = entry;
    if (!row || !news) {
      continue;
    }
    merge_.communicator(*row);
    if (row->rank && row->nranks) {
      processes_.learn_rank(row->pid, *row->rank, *row->nranks, RankSource::kPlugin);
    }
  }
  // A place of the table is used again: communicators that are in it no more have ended.
  std::erase_if(box.communicators, [&](const auto& entry) {
    return box.communicators.size() > contents.header.communicator_capacity &&
           std::ranges::none_of(contents.communicators, [&](const auto& row) { return row.serial == entry.first; });
  });
}

void ProfilerFollower::keep_call(Box& box, const st_box_event& event) {
  box.calls.add(event, false);
  box.call_ids.push_back(event.id);
  if (box.call_ids.size() > kMostCalls) {
    box.calls.erase(box.call_ids.front());
    box.call_ids.pop_front();
  }
}

int32_t ProfilerFollower::thread_here(Box& box, int32_t inner) {
  if (!box.numbers_differ) {
    return inner;
  }
  const int64_t now_ns = monotonic_now_ns();
  if (!box.threads.contains(inner) && now_ns - box.threads_read_ns >= kThreadsNs) {
    box.threads_read_ns = now_ns;
    box.threads = procfs_.inner_threads(box.owner.pid);
  }
  const auto found = box.threads.find(inner);
  return found == box.threads.end() ? 0 : found->second;
}

void ProfilerFollower::deliver_calls(Box& box, const Contents& contents, int64_t probes_read_ns) {
  const auto hear = [&](const st_box_event& event) {
    for (const uint64_t time_ns : {event.start_ns, event.end_ns}) {
      if (time_ns < static_cast<uint64_t>(monotonic_now_ns())) {
        box.heard_ns = std::max(box.heard_ns, static_cast<int64_t>(time_ns));
      }
    }
  };
  for (const st_box_event& event : contents.ended) {
    hear(event);
    if (is_call(event)) {
      keep_call(box, event);
    } else if (is_collective_event(event) && box.held.size() < kMostHeld) {
      box.held.push_back(event);
    }
  }
  std::vector<BoxCall> calls;
  const auto add = [&](const st_box_event& event, bool open) {
    if (auto call = decode_call({event, open}, box.calls, find(box, event.communicator), box.owner)) {
      call->row.tid = thread_here(box, call->row.tid);
      calls.push_back(std::move(*call));
    }
  };
  const auto may_be_unseen = [&](const st_box_event& event) {
    return box.alive && !box.over && event.start_ns >= static_cast<uint64_t>(probes_read_ns);
  };
  std::vector<st_box_event> later;
  for (const st_box_event& event : box.held) {
    may_be_unseen(event) ? later.push_back(event) : add(event, false);
  }
  box.held = std::move(later);
  for (const st_box_event& event : contents.open) {
    if (is_collective_event(event) && !may_be_unseen(event)) {
      add(event, true);
    }
  }
  number_in_call_order(calls);
  std::ranges::stable_sort(calls, {}, [](const BoxCall& call) { return call.row.called_ns; });
  for (BoxCall& call : calls) {
    merge_.call(std::move(call));
  }
}

void ProfilerFollower::deliver_steps(Box& box, const Contents& contents) {
  std::vector<StepRow> rows;
  for (const st_box_event& event : contents.ended) {
    std::optional<StepRow> row;
    if (event.type == ST_BOX_PROXY_STEP) {
      row = box.steps.ended_step(event, find(box, event.communicator), box.owner);
    } else if (event.type == ST_BOX_PROXY_OP) {
      row = box.steps.ended_operation(event, find(box, event.communicator), box.owner);
    }
    if (row) {
      rows.push_back(std::move(*row));
    }
  }
  deliver_open_waits(box, contents, rows);
  if (rows.size() > kStepsARound) {  // the longest say why; the short ones are many
    std::ranges::nth_element(rows, rows.begin() + kStepsARound, std::ranges::greater{}, weight);
    losses_[kShortSteps] += rows.size() - kStepsARound;
    rows.resize(kStepsARound);
  }
  std::ranges::sort(rows, {}, [](const StepRow& step) { return step.row.timestamp_ns; });
  for (StepRow& row : rows) {
    row.row.tid = thread_here(box, row.row.tid);
    merge_.step(std::move(row));
  }
}

/// Each wait once, when it has become long.
void ProfilerFollower::deliver_open_waits(Box& box, const Contents& contents, std::vector<StepRow>& rows) {
  if (contents.open.empty()) {
    box.told_waits.clear();
    return;
  }
  const auto now_ns = static_cast<uint64_t>(monotonic_now_ns());
  const auto lookup = [&](uint64_t serial) { return find(box, serial); };
  std::map<uint64_t, std::pair<uint64_t, int32_t>> waits;
  for (StepRow& step : box.steps.open_operations(contents.open, now_ns, lookup, box.owner)) {
    const int64_t waited_ns = step.row.gpu_wait_ns + step.row.peer_wait_ns + step.row.network_wait_ns;
    if (step.row.waits_for == ProxyWait::kNone || waited_ns < kOpenWaitNs || waits.size() >= kMostOpenWaits) {
      continue;
    }
    const std::pair<uint64_t, int32_t> since{static_cast<uint64_t>(step.row.timestamp_ns), step.row.step};
    waits[step.operation] = since;
    const auto told = box.told_waits.find(step.operation);
    if (told == box.told_waits.end() || told->second != since) {
      rows.push_back(std::move(step));
    }
  }
  box.told_waits = std::move(waits);
}

void ProfilerFollower::count_losses(Box& box, const Contents& contents) {
  for (const Loss& loss : decode_losses(contents, node_.node_id)) {
    uint64_t& counted = box.losses[loss.source];
    if (loss.count > counted) {
      losses_[loss.source] += loss.count - counted;
      counted = loss.count;
    }
  }
}

void ProfilerFollower::deliver_losses() {
  for (const auto& [source, count] : losses_) {
    sink_.accept(Loss{node_.node_id, source, count});
  }
}

int32_t ProfilerFollower::nodes_of(int32_t pid, uint64_t nccl_comm_hash) const {
  for (const Box& box : boxes_) {
    for (const auto& [serial, communicator] : box.communicators) {
      if (box.owner.pid == pid && communicator.hash == nccl_comm_hash) {
        return communicator.nodes;
      }
    }
  }
  return 0;
}

void ProfilerFollower::close(Box& box) {
  const auto gone = std::ranges::find(gone_, box.owner.pid, [](const Gone& entry) { return entry.row.pid; });
  if (gone != gone_.end()) {
    gone->heard_ns = box.heard_ns;
    gone->left_open = box.left_open;
    newest_heard_ns_ = std::max(newest_heard_ns_, box.heard_ns);
  }
  merge_.forget(box.owner.pid);
}

/// A process that was gone without having ended its communicators has died, as far as another outlived it: of those
/// that fell silent together nobody knows which went first.
void ProfilerFollower::tell_who_died() {
  const bool somebody_lives = std::ranges::any_of(boxes_, [](const Box& box) { return box.alive && !box.over; });
  for (Gone& gone : gone_) {
    if (gone.row.exit_ns || !gone.left_open || gone.heard_ns == 0 ||
        !(somebody_lives || newest_heard_ns_ - gone.heard_ns > kOutlivedNs)) {
      continue;
    }
    gone.row.exit_ns = gone.heard_ns + node_.clock_offset_ns;
    sink_.accept(gone.row);
  }
  std::erase_if(gone_, [](const Gone& gone) { return gone.row.exit_ns || (gone.heard_ns != 0 && !gone.left_open); });
  if (std::ssize(gone_) > kMostGone) {
    gone_.erase(gone_.begin(), gone_.end() - kMostGone);
  }
}

}  // namespace stalltrace::blackbox
