// SPDX-License-Identifier: Apache-2.0
#include "blackbox/follow/follower.h"

#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/clock.h"
#include "blackbox/decode/process.h"

namespace stalltrace::blackbox {
namespace {

constexpr int64_t kSearchNs = kNsPerSecond;   // interval between searches of the folders
constexpr uint64_t kRecordsAtOnce = 8192;     // of one file: 1 MiB
constexpr int64_t kRoundNs = 100 * kNsPerMs;  // a round starts no further read after this time
constexpr size_t kMostFiles = 512;
constexpr size_t kMostFilesOfUser = 256;
constexpr size_t kMostGone = 256;  // of processes that were gone when their file was found: those that live come first
constexpr size_t kMostGoneOfUser = 64;
constexpr int64_t kUsersRoundNs = 100 * kNsPerMs;       // of a round, for the files of one user
constexpr int64_t kMostAfterEndNs = 30 * kNsPerSecond;  // a file without a process that still changes is left
constexpr size_t kMostClosed = 1024;
constexpr size_t kMostOpenWaits = 4096;
constexpr int64_t kThreadsNs = 5 * kNsPerSecond;
constexpr int64_t kFinishNs = kNsPerSecond;
constexpr uint32_t kMostPid = 1U << 22;  // PID_MAX_LIMIT of linux/threads.h: the kernel assigns no number above it

int64_t weight(const StepRow& step) { return step.row.duration_ns.value_or(std::numeric_limits<int64_t>::max()); }

}  // namespace

ProfilerFollower::ProfilerFollower(const Node& node, const Procfs& procfs, ProfilerFileFinder::Scope scope,
                                   ProcessRegistry& processes, CallPairing& pairing, EventSink& sink, Note note)
    : node_(node),
      procfs_(procfs),
      processes_(processes),
      pairing_(pairing),
      sink_(sink),
      note_(std::move(note)),
      finder_(procfs, scope) {
  struct stat info {};
  own_pid_namespace_ = ::stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

bool ProfilerFollower::FollowedFile::is_done() const {
  return state == State::kUnreadable || (state != State::kAlive && session.drained() && !session.holds_calls());
}

ProfilerFollower::FileKey ProfilerFollower::key_of(const st_box_header& header) {
  return {header.pid_namespace, header.pid, header.created_ns};
}

bool ProfilerFollower::was_taken(const st_box_header& header) const {
  const FileKey key = key_of(header);
  return std::ranges::any_of(files_, [&](const auto& file) { return key_of(file.session.file().layout()) == key; }) ||
         std::ranges::find(closed_, key, &ClosedProcess::file) != closed_.end();
}

bool ProfilerFollower::is_number_here(const st_box_header& header) const {
  return header.pid_namespace == own_pid_namespace_ && header.pid <= kMostPid;
}

/// A number for a process that has ended. From another pid namespace its number would be another process's here, and
/// several processes may have had it: it gets one that no process has.
int32_t ProfilerFollower::number_of_gone(const st_box_header& header) {
  const auto pid = static_cast<int32_t>(std::min(header.pid, kMostPid));
  const bool is_free = is_number_here(header) &&
                       std::ranges::none_of(files_, [&](const auto& file) { return file.owner.pid == pid; }) &&
                       std::ranges::find(closed_, pid, &ClosedProcess::pid) == closed_.end();
  return is_free ? pid : static_cast<int32_t>(kMostPid) + ++made_up_pids_;
}

/// Makes room for one more: a living process's file takes that of a process which was gone, of the user who has most.
bool ProfilerFollower::make_room() {
  std::map<uint32_t, size_t> gone;
  for (const FollowedFile& file : files_) {
    gone[file.user] += file.state == State::kGone;
  }
  const auto most = std::ranges::max_element(gone, {}, [](const auto& entry) { return entry.second; });
  if (most == gone.end() || most->second == 0) {
    return false;
  }
  const auto file = std::ranges::find_if(
      files_, [&](const FollowedFile& one) { return one.state == State::kGone && one.user == most->first; });
  losses_.add(users_loss(kLostFiles, file->user));
  close(*file);
  files_.erase(file);
  return true;
}

bool ProfilerFollower::has_room(const FoundFile& found) {
  size_t of_user = 0;
  size_t gone = 0;
  size_t gone_of_user = 0;
  for (const FollowedFile& file : files_) {
    const bool is_gone = file.state == State::kGone;
    gone += is_gone;
    of_user += file.user == found.user && !is_gone;
    gone_of_user += file.user == found.user && is_gone;
  }
  if (!found.alive) {
    return files_.size() < kMostFiles && gone < kMostGone && gone_of_user < kMostGoneOfUser;
  }
  return of_user < kMostFilesOfUser && (files_.size() < kMostFiles || make_room());
}

bool ProfilerFollower::take(FoundFile found) {
  if (!found.alive && was_taken(found.reader.layout())) {
    return true;
  }
  if (!has_room(found)) {
    return false;
  }
  if (found.alive) {
    add(std::move(found), std::nullopt);
  } else {
    take_gone(std::move(found));
  }
  return true;
}

/// Ignores a file whose process has a traced one's number: it may be the same, whose rows are delivered already.
void ProfilerFollower::take_gone(FoundFile found) {
  const st_box_header& header = found.reader.layout();
  if (is_number_here(header) && processes_.find(static_cast<int32_t>(header.pid)) != nullptr) {
    losses_.add(users_loss(kLostPidsInUse, found.user));
    return;
  }
  found.pid = number_of_gone(header);
  Process row = decode_process(header, {node_.node_id, found.pid, node_.clock_offset_ns});
  sink_.accept(row);
  add(std::move(found), std::move(row));
}

void ProfilerFollower::add(FoundFile found, std::optional<Process> gone) {
  const bool numbers_differ = found.alive && found.reader.layout().pid != static_cast<uint32_t>(found.pid);
  files_.push_back({.session = ProfilerSession(std::move(found.reader), Keep::kNewCalls),
                    .owner = {node_.node_id, found.pid, node_.clock_offset_ns},
                    .user = found.user,
                    .state = found.alive ? State::kAlive : State::kGone,
                    .gone = std::move(gone),
                    .numbers_differ = numbers_differ});
}

void ProfilerFollower::end_process(pid_t pid) {
  finder_.end_process(pid, [this](FoundFile found) { return take(std::move(found)); });
  bool has_file = false;
  for (FollowedFile& file : files_) {
    if (file.owner.pid == pid) {
      has_file = true;
      file.state = file.is_alive() ? State::kEnded : file.state;
    }
  }
  if (!has_file) {
    pairing_.forget(pid);
  }
}

void ProfilerFollower::round(int64_t probes_read_ns) {
  const int64_t now_ns = monotonic_now_ns();
  if (now_ns - searched_ns_ >= kSearchNs) {
    searched_ns_ = now_ns;
    finder_.search(now_ns, [this](FoundFile found) { return take(std::move(found)); });
  }
  read_files(probes_read_ns, now_ns + kRoundNs);
  std::erase_if(files_, [this](const FollowedFile& file) {
    const bool done = file.is_done();
    if (done) {
      close(file);
    }
    return done;
  });
  deliver_deaths();
}

/// Reads every file once, those first that were read longest ago; then those that are behind again and again, so that
/// the remaining time is divided evenly. A user whose files have taken its part of the round waits for the next one.
void ProfilerFollower::read_files(int64_t probes_read_ns, int64_t until_ns) {
  std::map<uint32_t, int64_t> spent_ns;  // by user
  std::vector<FollowedFile*> files;
  for (FollowedFile& file : files_) {
    files.push_back(&file);
  }
  std::ranges::stable_sort(files, {}, [](const FollowedFile* file) { return file->read_ns; });
  const auto read = [&](FollowedFile& file) {
    int64_t& spent = spent_ns[file.user];
    if (spent >= kUsersRoundNs) {
      return false;
    }
    file.read_ns = monotonic_now_ns();
    follow(file, probes_read_ns);
    spent += monotonic_now_ns() - file.read_ns;
    return true;
  };
  for (FollowedFile* file : files) {
    read(*file);
  }
  for (bool behind = true; behind && monotonic_now_ns() < until_ns;) {
    behind = false;
    for (FollowedFile* file : files) {
      if (file->is_behind() && monotonic_now_ns() < until_ns) {
        behind = read(*file) || behind;
      }
    }
  }
}

void ProfilerFollower::finish(int64_t probes_read_ns) {
  const int64_t began_ns = monotonic_now_ns();
  searched_ns_ = 0;
  do {
    for (FollowedFile& file : files_) {
      file.open_read_ns = 0;
    }
    round(probes_read_ns);
  } while (monotonic_now_ns() - began_ns < kFinishNs && std::ranges::any_of(files_, &FollowedFile::is_behind));
  finished_ = true;
  pairing_.finish();
}

void ProfilerFollower::follow(FollowedFile& file, int64_t probes_read_ns) {
  const int64_t now_ns = monotonic_now_ns();
  const bool open_parts = now_ns - file.open_read_ns >= kReadOpenNs || !file.is_alive();
  const Status read =
      file.session.read(static_cast<uint64_t>(now_ns),
                        {.most_records = kRecordsAtOnce, .open_parts = open_parts, .ended_slots = !file.is_alive()});
  if (!read) {
    note_("a profiler file is left out: " + read.error().what);
    file.state = State::kUnreadable;
    return;
  }
  file.open_read_ns = file.session.read_open_parts() ? now_ns : file.open_read_ns;
  if (!file.is_alive() && file.not_alive_ns == 0) {
    file.not_alive_ns = now_ns;
  }
  if (!file.is_alive() && now_ns - file.not_alive_ns > kMostAfterEndNs) {
    note_("a profiler file is left: it still changes long after its process has ended");
    file.state = State::kUnreadable;
  }
  deliver_communicators(file);
  deliver_calls(file, probes_read_ns);
  deliver_steps(file);
  pairing_.set_behind(file.owner.pid, file.is_behind());
}

void ProfilerFollower::deliver_communicators(FollowedFile& file) {
  for (const Communicator& row : file.session.take_communicators(file.owner)) {
    pairing_.communicator(row);
    if (row.rank && row.nranks) {
      processes_.learn_rank(row.pid, *row.rank, *row.nranks, RankSource::kPlugin);
    }
  }
}

int32_t ProfilerFollower::thread_here(FollowedFile& file, int32_t inner) {
  if (!file.numbers_differ) {
    return inner;
  }
  const int64_t now_ns = monotonic_now_ns();
  if (!file.threads.contains(inner) && now_ns - file.threads_read_ns >= kThreadsNs) {
    file.threads_read_ns = now_ns;
    file.threads = procfs_.inner_threads(file.owner.pid);
  }
  const auto found = file.threads.find(inner);
  return found == file.threads.end() ? 0 : found->second;
}

void ProfilerFollower::deliver_calls(FollowedFile& file, int64_t probes_read_ns) {
  const uint64_t before_ns =
      file.is_alive() ? static_cast<uint64_t>(probes_read_ns) : std::numeric_limits<uint64_t>::max();
  for (ProfilerCall& call : file.session.take_calls(file.owner, before_ns)) {
    call.row.tid = thread_here(file, call.row.tid);
    pairing_.call(std::move(call));
  }
}

void ProfilerFollower::deliver_steps(FollowedFile& file) {
  std::vector<StepRow> rows = file.session.take_steps(file.owner);
  add_open_waits(file, rows);
  if (rows.size() > kStepsAtOnce) {  // keeps the longest, which explain a stall
    std::ranges::nth_element(rows, rows.begin() + kStepsAtOnce, std::ranges::greater{}, weight);
    losses_.add(users_loss(kLostShortSteps, file.user), rows.size() - kStepsAtOnce);
    rows.resize(kStepsAtOnce);
  }
  std::ranges::sort(rows, {}, [](const StepRow& step) { return step.row.timestamp_ns; });
  for (StepRow& row : rows) {
    row.row.tid = thread_here(file, row.row.tid);
    pairing_.step(std::move(row));
  }
}

/// Adds each wait of an open operation once, when it has become long.
void ProfilerFollower::add_open_waits(FollowedFile& file, std::vector<StepRow>& rows) {
  if (!file.session.read_open_parts()) {
    return;
  }
  std::map<uint64_t, std::pair<int64_t, int32_t>> waits;
  uint64_t left_out = 0;
  for (StepRow& step : file.session.open_steps(file.owner, static_cast<uint64_t>(monotonic_now_ns()))) {
    const int64_t waited_ns = step.row.gpu_wait_ns + step.row.peer_wait_ns + step.row.network_wait_ns;
    if (step.row.waits_for == ProxyWait::kNone || waited_ns < kOpenWaitNs) {
      continue;
    }
    if (waits.size() >= kMostOpenWaits) {
      ++left_out;
      continue;
    }
    const std::pair since{step.row.timestamp_ns, step.row.step};
    waits[step.operation] = since;
    const auto reported = file.reported_waits.find(step.operation);
    if (reported == file.reported_waits.end() || reported->second != since) {
      rows.push_back(std::move(step));
    }
  }
  if (left_out > file.most_left_out_waits) {
    losses_.add(users_loss(kLostOpenWaits, file.user), left_out - file.most_left_out_waits);
    file.most_left_out_waits = left_out;
  }
  file.reported_waits = std::move(waits);
}

void ProfilerFollower::deliver_losses() {
  LossCounts losses = losses_;
  losses.add(finder_.losses());
  losses.add(pairing_.losses());
  for (const FollowedFile& file : files_) {
    losses.add_of_user(file.session.losses(), file.user);
    losses.add(users_loss(kLostUnread, file.user), finished_ ? file.session.unread() : 0);
  }
  for (Loss& loss : losses.rows(node_.node_id)) {
    sink_.accept(std::move(loss));
  }
}

int32_t ProfilerFollower::nodes_of(int32_t pid, uint64_t nccl_comm_hash) const {
  for (const FollowedFile& file : files_) {
    const int32_t nodes = file.owner.pid == pid ? file.session.nodes_of(nccl_comm_hash) : 0;
    if (nodes != 0) {
      return nodes;
    }
  }
  return 0;
}

void ProfilerFollower::close(const FollowedFile& file) {
  losses_.add_of_user(file.session.losses(), file.user);
  losses_.add(users_loss(kLostUnread, file.user), file.session.unread());
  pairing_.forget(file.owner.pid);
  ClosedProcess closed{.file = key_of(file.session.file().layout()),
                       .pid = file.owner.pid,
                       .user = file.user,
                       .activity = file.session.activity(false, node_.clock_offset_ns),
                       .undecided = {}};
  if (file.state == State::kGone && closed.activity.has_open_communicator) {
    closed.undecided = file.gone;
  }
  closed_.push_back(std::move(closed));
  if (closed_.size() > kMostClosed) {
    forget_oldest_closed();
  }
}

/// Of the user who has most.
void ProfilerFollower::forget_oldest_closed() {
  std::map<uint32_t, size_t> closed;
  for (const ClosedProcess& process : closed_) {
    ++closed[process.user];
  }
  const uint32_t user = std::ranges::max_element(closed, {}, [](const auto& entry) { return entry.second; })->first;
  const auto oldest = std::ranges::find(closed_, user, &ClosedProcess::user);
  losses_.add(users_loss(kLostExits, user), oldest->undecided ? 1 : 0);
  closed_.erase(oldest);
}

/// The kernel reports the ends of traced processes. Which of the processes that ended before tracing died first, only
/// the files show (liveness.h).
void ProfilerFollower::deliver_deaths() {
  std::set<uint32_t> users;
  for (const ClosedProcess& process : closed_) {
    if (process.undecided) {
      users.insert(process.user);
    }
  }
  for (const uint32_t user : users) {
    deliver_deaths_of(user);
  }
}

/// Another user's processes say nothing about this one's: they are of other jobs, or lie.
void ProfilerFollower::deliver_deaths_of(uint32_t user) {
  Liveness liveness;
  std::vector<ClosedProcess*> closed;
  for (ClosedProcess& process : closed_) {
    if (process.user == user) {
      liveness.add(process.activity);
      closed.push_back(&process);
    }
  }
  for (const FollowedFile& file : files_) {
    if (file.user == user) {
      liveness.add(file.session.activity(file.is_alive(), node_.clock_offset_ns));
    }
  }
  for (size_t number = 0; number < closed.size(); ++number) {
    ClosedProcess& process = *closed[number];
    if (const auto death_ns = process.undecided ? liveness.death_ns(number) : std::nullopt) {
      process.undecided->exit_ns = *death_ns;
      sink_.accept(*std::exchange(process.undecided, std::nullopt));
    }
  }
}

}  // namespace stalltrace::blackbox
