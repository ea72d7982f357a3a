// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/files/library_reader.h"

#include <sys/epoll.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "base/untrusted/bytes.h"
#include "capture/discover/files/library_symbols.h"
#include "capture/discover/sharing_user.h"

namespace stalltrace::capture {
namespace {

constexpr size_t kMostWaiting = 4096;  // files per user; a PyTorch rank maps about 400
/// Time limit for one file. A file of libtorch's size takes 50 ms from memory; a server may be slower.
constexpr int64_t kIdleCheckNs = 100 * kNsPerMs;  // of children that are asked nothing
constexpr int64_t kParseNs = 2 * kNsPerSecond;
constexpr int64_t kRemoteParseNs = 10 * kNsPerSecond;

HelperMessage serve_open(HelperMessage request) {
  MappedFile mapping;
  pid_t pid = 0;
  std::string_view bytes = request.bytes;
  if (!take_value(bytes, pid) || !take_value(bytes, mapping.start) || !take_value(bytes, mapping.end) ||
      !take_value(bytes, mapping.device_major) || !take_value(bytes, mapping.device_minor) ||
      !take_value(bytes, mapping.inode)) {
    return {.bytes = "?", .fd = {}};
  }
  mapping.path = bytes;
  const auto opened = UntrustedFile::open_anywhere(Procfs(), pid, mapping);
  return opened ? HelperMessage{.bytes = opened->facts(), .fd = opened->duplicate()}
                : HelperMessage{.bytes = "?", .fd = {}};
}

std::string open_request(const LibraryReader::Request& request) {
  std::string bytes;
  put(bytes, request.pid);
  put(bytes, request.mapping.start);
  put(bytes, request.mapping.end);
  put(bytes, request.mapping.device_major);
  put(bytes, request.mapping.device_minor);
  put(bytes, request.mapping.inode);
  return bytes + request.mapping.path;
}

HelperMessage serve_parse(HelperMessage request) {
  const auto symbols = find_probe_points(request.fd.get());
  return {.bytes = symbols ? symbols_to_bytes(*symbols) : "?", .fd = {}};
}

}  // namespace

LibraryReader::LibraryReader(const Procfs& procfs, Mounts& mounts, FileSystems file_systems, int64_t open_ns)
    : procfs_(procfs),
      mounts_(mounts),
      file_systems_(file_systems),
      open_ns_(open_ns),
      opener_(serve_open, HelperProcess::Rights::kOurs),
      parser_(serve_parse, HelperProcess::Rights::kNone),
      wake_(::epoll_create1(EPOLL_CLOEXEC)) {}

void LibraryReader::start() {
  (void)parser_.start();  // if that fails, each request reports it
  if (file_systems_ == FileSystems::kRemote) {
    (void)opener_.start();
  }
}

bool LibraryReader::ask(Request request) {
  std::deque<Request>& queue = queues_[request.user];
  if (queue.size() >= kMostWaiting) {
    return false;
  }
  queue.push_back(std::move(request));
  return true;
}

std::vector<LibraryReader::Request> LibraryReader::take_back(const std::function<bool(const Request&)>& which) {
  std::vector<Request> taken;
  for (auto& [user, queue] : queues_) {
    const auto kept_end =
        std::stable_partition(queue.begin(), queue.end(), [&](const Request& request) { return !which(request); });
    taken.insert(taken.end(), std::make_move_iterator(kept_end), std::make_move_iterator(queue.end()));
    queue.erase(kept_end, queue.end());
  }
  std::erase_if(queues_, [](const auto& entry) { return entry.second.empty(); });
  return taken;
}

bool LibraryReader::ask_child(HelperProcess& child, const HelperMessage& message) {
  if (!child.ask(message, current_->work)) {
    return false;
  }
  epoll_event event{.events = EPOLLIN, .data = {}};
  ::epoll_ctl(wake_.get(), EPOLL_CTL_ADD, child.descriptor(), &event);  // EEXIST: same child as in the last request
  return true;
}

std::string_view LibraryReader::describe(Outcome outcome) {
  switch (outcome) {
    case Outcome::kRead:
    case Outcome::kGone:
    case Outcome::kMoved:
      break;
    case Outcome::kSilent:
      return "its file system does not answer";
    case Outcome::kSlow:
      return "reading it took too long";
    case Outcome::kFailed:
      return "the process that reads it ended, or could not be started";
    case Outcome::kHeld:
      return "other file systems of its user do not answer";
  }
  return {};
}

LibraryReader::Answer LibraryReader::finish(Outcome outcome, FileSymbols symbols) {
  Answer answer{.request = std::move(current_->request),
                .outcome = outcome,
                .opened = std::move(current_->opened),
                .symbols = std::move(symbols)};
  current_.reset();
  return answer;
}

LibraryReader::Answer LibraryReader::give_up(Outcome why) {
  opener_.end();
  parser_.end();
  current_->opened.reset();
  return finish(why);
}

/// False if the file is gone or no child can be started; `answer` has the reason.
bool LibraryReader::parse(std::optional<Answer>& answer) {
  const uid_t owner = current_->opened->owner();
  if (owner != parsed_for_) {
    parser_.end();
    parsed_for_ = owner;
  }
  current_->deadline_ns = monotonic_now_ns() + (file_systems_ == FileSystems::kRemote ? kRemoteParseNs : kParseNs);
  if (!ask_child(parser_, {.bytes = "parse", .fd = current_->opened->duplicate()})) {
    answer = give_up(Outcome::kFailed);
    return false;
  }
  return true;
}

/// Whether the current file is better not tried now. One hanging process is enough for a file system, and a user's
/// silent mounts must not keep others' files from being read.
std::optional<LibraryReader::Outcome> LibraryReader::hangs_already() {
  const auto hanging = [&](const auto& which) { return opener_.hanging(which) + parser_.hanging(which); };
  const ChildsWork& mine = current_->work;
  if (hanging([&](const ChildsWork& work) { return work.user == mine.user && work.file_system == mine.file_system; }) >
      0) {
    return Outcome::kSilent;
  }
  return hanging([&](const ChildsWork& work) { return work.user == mine.user; }) >= kMostHangingOfUser
             ? std::optional(Outcome::kHeld)
             : std::nullopt;
}

bool LibraryReader::begin_next(std::optional<Answer>& answer) {
  if (queues_.empty()) {
    return false;
  }
  auto next = queues_.upper_bound(last_user_);  // round-robin over users
  next = next == queues_.end() ? queues_.begin() : next;
  last_user_ = next->first;
  current_ = Current{.request = std::move(next->second.front()), .work = {}, .opened = {}};
  next->second.pop_front();
  if (next->second.empty()) {
    queues_.erase(next);
  }
  const Request& request = current_->request;
  if (file_systems_ == FileSystems::kRemote) {
    const MappedFile& mapping = request.mapping;
    current_->work = {.user = sharing_user(procfs_, request.pid).value_or(request.user),
                      .file_system = uint64_t{mapping.device_major} << 32U | mapping.device_minor};
    if (const auto outcome = hangs_already()) {
      answer = finish(*outcome);
      return true;
    }
    current_->deadline_ns = monotonic_now_ns() + open_ns_;
    if (!ask_child(opener_, {.bytes = open_request(request), .fd = {}})) {
      answer = give_up(Outcome::kFailed);
    }
    return true;
  }
  auto opened = UntrustedFile::open_mapped(procfs_, mounts_, request.pid, request.mapping);
  if (!opened) {
    answer = finish(opened.error() == OpenRefusal::kGone ? Outcome::kGone : Outcome::kMoved);
    return true;
  }
  current_->opened = std::move(*opened);
  (void)parse(answer);
  return true;
}

std::optional<LibraryReader::Answer> LibraryReader::take() {
  // A child that is not asked for anything and ends would wake us until it is asked.
  if (const int64_t now_ns = monotonic_now_ns(); now_ns >= check_idle_at_ns_) {
    check_idle_at_ns_ = now_ns + kIdleCheckNs;
    if (!current_ || current_->opened) {
      opener_.check_idle();
    }
    if (!current_ || !current_->opened) {
      parser_.check_idle();
    }
  }
  std::optional<Answer> answer;
  if (!current_ && (!begin_next(answer) || answer)) {
    return answer;
  }
  const bool opening = !current_->opened;
  HelperProcess& child = opening ? opener_ : parser_;
  HelperMessage message;
  switch (child.receive(message)) {
    case HelperProcess::Outcome::kWaiting:
      if (monotonic_now_ns() > current_->deadline_ns) {
        return give_up(opening ? Outcome::kSilent : Outcome::kSlow);
      }
      return std::nullopt;
    case HelperProcess::Outcome::kEnded:
      return give_up(Outcome::kFailed);
    case HelperProcess::Outcome::kAnswered:
      break;
  }
  if (opening) {
    current_->opened = UntrustedFile::adopt(std::move(message.fd), message.bytes);
    if (!current_->opened) {
      return finish(Outcome::kGone);
    }
    return parse(answer) ? std::nullopt : std::move(answer);
  }
  const auto bytes = static_cast<uint64_t>(current_->opened->identity().size);
  return finish(Outcome::kRead, symbols_from_bytes(message.bytes, bytes).value_or(FileSymbols{}));
}

}  // namespace stalltrace::capture
