// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/files/library_reader.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/untrusted/bytes.h"
#include "base/untrusted/helper_message.h"
#include "capture/discover/files/library_symbols.h"
#include "capture/discover/sharing_user.h"

namespace stalltrace::capture {
namespace {

constexpr size_t kMostWaiting = 4096;             // files per user; a PyTorch rank maps about 400
constexpr int64_t kIdleCheckNs = 100 * kNsPerMs;  // of children that are asked nothing
/// Time limit for one file of this host. A file of libtorch's size takes 50 ms from memory; a server may be slower.
constexpr int64_t kParseNs = 2 * kNsPerSecond;

constexpr std::string_view kHandOver = "hand over";  // to the parser, over the socket that comes with it
constexpr std::string_view kParseHandedOver = "parse what comes over it";
constexpr std::string_view kFailure = "?";

/// A descriptor that names the file and nothing more.
UniqueFd name_only(const UntrustedFile& file) { return UniqueFd(::open(file.path().c_str(), O_PATH | O_CLOEXEC)); }

/// Opens a file and keeps it; the next request has it handed over, or is not made: the opener is ended then. So what
/// it takes to close the file is part of the requests for this file.
HelperMessage serve_open(HelperMessage request) {
  static std::optional<UntrustedFile> kept;
  if (request.fd) {
    const bool sent =
        kept && send_message(request.fd.get(), {.bytes = std::string(kHandOver), .fd = kept->duplicate()}, 0);
    kept.reset();
    return {.bytes = std::string(sent ? kHandOver : kFailure), .fd = {}};
  }
  MappedFile mapping;
  pid_t pid = 0;
  std::string_view bytes = request.bytes;
  if (!take_value(bytes, pid) || !take_value(bytes, mapping.start) || !take_value(bytes, mapping.end) ||
      !take_value(bytes, mapping.device_major) || !take_value(bytes, mapping.device_minor) ||
      !take_value(bytes, mapping.inode)) {
    return {.bytes = std::string(kFailure), .fd = {}};
  }
  mapping.path = bytes;
  auto opened = UntrustedFile::open_anywhere(Procfs(), pid, mapping);
  UniqueFd named = opened ? name_only(*opened) : UniqueFd();
  if (!named) {
    return {.bytes = std::string(kFailure), .fd = {}};
  }
  kept = std::move(*opened);
  return {.bytes = kept->facts(), .fd = std::move(named)};
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
  HelperMessage handed_over;
  if (request.bytes == kParseHandedOver) {
    (void)receive_message(request.fd.get(), handed_over, 0);
  } else {
    handed_over.fd = std::move(request.fd);
  }
  const auto symbols = find_probe_points(handed_over.fd.get());
  return {.bytes = symbols ? symbols_to_bytes(*symbols) : std::string(kFailure), .fd = {}};
}

}  // namespace

LibraryReader::LibraryReader(const Procfs& procfs, Mounts& mounts, FileSystems file_systems, int64_t open_ns,
                             int64_t parse_ns)
    : procfs_(procfs),
      mounts_(mounts),
      file_systems_(file_systems),
      open_ns_(open_ns),
      parse_ns_(parse_ns),
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
      return "its file system, or others of its user, did not answer before";
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

/// Has the opener give its file to the parser, over a socket of which nothing stays here: a file that is under way is
/// closed by the process that has the socket's last descriptor.
bool LibraryReader::ask_to_hand_over() {
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    return false;
  }
  HelperMessage to_parser{.bytes = std::string(kParseHandedOver), .fd = UniqueFd(pair[0])};
  const HelperMessage to_opener{.bytes = std::string(kHandOver), .fd = UniqueFd(pair[1])};
  if (!ask_child(parser_, to_parser)) {
    return false;
  }
  to_parser.fd.reset();
  return opener_.is_running() && ask_child(opener_, to_opener);
}

/// Nothing: the current file is being parsed.
std::optional<LibraryReader::Answer> LibraryReader::parse() {
  const uid_t owner = current_->opened->owner();
  if (owner != parsed_for_) {
    parser_.end();
    parsed_for_ = owner;
  }
  const int64_t now_ns = monotonic_now_ns();
  const bool remote = file_systems_ == FileSystems::kRemote;
  current_->opener_deadline_ns = now_ns + open_ns_;
  current_->parser_deadline_ns = now_ns + (remote ? parse_ns_ : kParseNs);
  current_->is_handed_over = !remote;
  const bool asked =
      remote ? ask_to_hand_over() : ask_child(parser_, {.bytes = "parse", .fd = current_->opened->duplicate()});
  if (asked) {
    return std::nullopt;
  }
  Answer answer = give_up(Outcome::kFailed);
  answer.tried = false;
  return answer;
}

/// Whether the current file is better not tried now. One hanging process of each kind is enough for a user and file
/// system, and silent mounts must not keep others' files from being read.
std::optional<LibraryReader::Outcome> LibraryReader::hangs_already() {
  const ChildsWork& mine = current_->work;
  bool same = false;
  std::set<uint64_t> file_systems_of_user;
  std::set<uint32_t> users_of_file_system;
  const auto look = [&](const ChildsWork& work) {
    same = same || (work.user == mine.user && work.file_system == mine.file_system);
    if (work.user == mine.user) {
      file_systems_of_user.insert(work.file_system);
    }
    if (work.file_system == mine.file_system) {
      users_of_file_system.insert(work.user);
    }
    return true;
  };
  (void)opener_.hanging(look);
  (void)parser_.hanging(look);
  if (same) {
    return Outcome::kSilent;
  }
  return file_systems_of_user.size() >= kMostHangingOfUser || users_of_file_system.size() >= kMostHangingOfFileSystem
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
  current_ = Current{.request = std::move(next->second.front()), .work = {}, .opened = {}, .symbols = {}};
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
      answer->tried = false;
      return true;
    }
    current_->opener_deadline_ns = monotonic_now_ns() + open_ns_;
    if (!ask_child(opener_, {.bytes = open_request(request), .fd = {}})) {
      answer = give_up(Outcome::kFailed);
      answer->tried = false;
    }
    return true;
  }
  auto opened = UntrustedFile::open_mapped(procfs_, mounts_, request.pid, request.mapping);
  if (!opened) {
    answer = finish(opened.error() == OpenRefusal::kGone ? Outcome::kGone : Outcome::kMoved);
    return true;
  }
  current_->opened = std::move(*opened);
  answer = parse();
  return true;
}

/// What the opener says of the current file, which it keeps.
std::optional<LibraryReader::Answer> LibraryReader::adopt_opened() {
  HelperMessage message;
  switch (opener_.receive(message)) {
    case HelperProcess::Outcome::kWaiting:
      return monotonic_now_ns() > current_->opener_deadline_ns ? std::optional(give_up(Outcome::kSilent))
                                                               : std::nullopt;
    case HelperProcess::Outcome::kEnded:
      return give_up(Outcome::kFailed);
    case HelperProcess::Outcome::kAnswered:
      break;
  }
  if (message.bytes == kFailure) {
    return finish(Outcome::kGone);
  }
  current_->opened = UntrustedFile::adopt(std::move(message.fd), message.bytes);
  return current_->opened ? parse() : give_up(Outcome::kFailed);  // the opener has it in any case
}

/// Both children must have let go of the file: to close it may hang, and is part of this request.
std::optional<LibraryReader::Answer> LibraryReader::finish_parse() {
  HelperMessage message;
  if (!current_->is_handed_over) {
    const auto outcome = opener_.receive(message);
    current_->is_handed_over = outcome == HelperProcess::Outcome::kAnswered && message.bytes == kHandOver;
    if (!current_->is_handed_over && outcome != HelperProcess::Outcome::kWaiting) {
      return give_up(Outcome::kFailed);
    }
  }
  if (!current_->symbols) {
    const auto outcome = parser_.receive(message);
    if (outcome == HelperProcess::Outcome::kEnded) {
      return give_up(Outcome::kFailed);
    }
    if (outcome == HelperProcess::Outcome::kAnswered) {
      current_->symbols = std::move(message.bytes);
    }
  }
  const int64_t now_ns = monotonic_now_ns();
  if (!current_->is_handed_over && now_ns > current_->opener_deadline_ns) {
    return give_up(Outcome::kSilent);
  }
  if (!current_->symbols && now_ns > current_->parser_deadline_ns) {
    return give_up(Outcome::kSlow);
  }
  if (!current_->is_handed_over || !current_->symbols) {
    return std::nullopt;
  }
  const auto bytes = static_cast<uint64_t>(current_->opened->identity().size);
  return finish(Outcome::kRead, symbols_from_bytes(*current_->symbols, bytes).value_or(FileSymbols{}));
}

std::optional<LibraryReader::Answer> LibraryReader::take() {
  // A child that is not asked for anything and ends would wake us until it is asked.
  if (const int64_t now_ns = monotonic_now_ns(); now_ns >= check_idle_at_ns_) {
    check_idle_at_ns_ = now_ns + kIdleCheckNs;
    opener_.check_idle();
    parser_.check_idle();
  }
  std::optional<Answer> answer;
  if (!current_ && (!begin_next(answer) || answer)) {
    return answer;
  }
  return current_->opened ? finish_parse() : adopt_opened();
}

}  // namespace stalltrace::capture
