// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/node_recordings.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "cli/framework/confined_reading.h"
#include "cli/framework/exit_code.h"
#include "fleet/gather.h"

namespace stalltrace::cli {
namespace {

namespace fs = std::filesystem;
using serve::Json;

constexpr char kGather = 'g';  // a request; it is answered
constexpr char kTaken = 't';   // the copies of the last answer are in use; no answer
constexpr serve::JsonLimits kAnswer{.depth = 4, .values = 400'000};  // of 16,384 nodes with several recordings each
constexpr size_t kMostNamed = 20;
constexpr size_t kProblemBytes = 300;
constexpr size_t kLongestLine = size_t{64} << 20;
constexpr int64_t kLatestAskedNs = int64_t{1} << 62;

Status send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) {
      return fail_errno("send", errno);
    }
    bytes.remove_prefix(sent > 0 ? static_cast<size_t>(sent) : 0);
  }
  return {};
}

/// Bytes as they come; none: the other side has ended.
std::string_view receive_some(int socket, std::span<char> buffer) {
  ssize_t got = -1;
  do {
    got = ::recv(socket, buffer.data(), buffer.size(), 0);
  } while (got < 0 && errno == EINTR);
  return {buffer.data(), got > 0 ? static_cast<size_t>(got) : 0};
}

std::string text_of(const Json& object, std::string_view key) {
  const Json* member = object.find(key);
  return member == nullptr || member->text() == nullptr ? "" : *member->text();
}

/// "a:7700 (Connection refused), b:7700 (no connection within 30 s) and 3 more"
std::string named(std::span<const Json> missing) {
  std::string text;
  for (const Json& one : missing.first(std::min(missing.size(), kMostNamed))) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", text_of(one, "node"), text_of(one, "problem"));
  }
  return missing.size() > kMostNamed ? fmt::format("{} and {} more", text, missing.size() - kMostNamed) : text;
}

/// The child's part: what it answers to each request, as one line of JSON.
class Gatherer {
 public:
  Gatherer(const NodeFlags::Target& target, bool require_all, std::string folder)
      : target_(target), require_all_(require_all), folder_(std::move(folder)) {}

  /// Until the other side ends.
  int answer_requests(int socket) {
    confine_to_reading({}, folder_ + "/", Makes::kFolder, Network::kConnects);
    char request = 0;
    while (!receive_some(socket, {&request, 1}).empty()) {
      if (request == kTaken) {
        take();
      } else if (!send_all(socket, gather().dump() + "\n")) {
        break;
      }
    }
    return kExitDone;
  }

 private:
  /// The other side reads the last copies: those before are of no use.
  void take() {
    if (!offered_.empty()) {
      remove(taken_);
      taken_ = std::exchange(offered_, {});
    }
  }

  static void remove(const std::string& path) {
    std::error_code ignored;
    if (!path.empty()) {
      fs::remove_all(path, ignored);
    }
  }

  Json gather() {
    remove(std::exchange(offered_, {}));  // was not taken
    const std::string name = std::to_string(++asked_);
    const std::string path = folder_ + "/" + name;
    if (::mkdir(path.c_str(), 0700) != 0) {
      return refused({.what = fail_errno("make " + path, errno).error().what,
                      .remedy = "set TMPDIR to a folder that can be written, and start it again"});
    }
    const int64_t asked_ns = utc_now_ns();
    const fleet::Gathered gathered =
        fleet::gather_recordings(target_.nodes, {.client = target_.client, .folder = path});
    Json missing = Json::array();
    for (const fleet::FailedNode& node : gathered.failed) {
      missing.push_back(Json::object(
          {{"node", printable(node.node)}, {"problem", printable(node.error.what).substr(0, kProblemBytes)}}));
    }
    if (gathered.files.empty() || (require_all_ && missing.size() > 0)) {
      remove(path);
      const std::string counts =
          fmt::format("{} of {}", missing.size(), count_of(static_cast<int64_t>(target_.nodes.size()), "node"));
      return refused({.what = fmt::format("{} did not answer: {}", counts, named(*missing.values())),
                      .remedy = gathered.files.empty() ? gathered.failed.front().error.remedy
                                                       : "leave out --require-all to do without them"});
    }
    offered_ = path;
    Json files = Json::array();
    for (const std::string& file : gathered.files) {
      files.push_back(fs::path(file).filename().string());
    }
    return Json::object(
        {{"folder", name}, {"asked_ns", asked_ns}, {"files", std::move(files)}, {"missing", std::move(missing)}});
  }

  static Json refused(const Error& error) { return Json::object({{"error", error.what}, {"remedy", error.remedy}}); }

  const NodeFlags::Target& target_;
  bool require_all_;
  std::string folder_;
  std::string taken_;    // the copies that the other side reads; empty: none yet
  std::string offered_;  // those of the last answer, until they are taken
  int asked_ = 0;
};

std::unexpected<Error> child_has_ended() {
  return fail("the process that asks the nodes has ended", "start 'stalltrace mcp' again");
}

/// A name inside of a folder. The child reads what nodes send, so it is not trusted to name other files.
bool is_plain_name(const Json* name) {
  return name != nullptr && name->text() != nullptr && !name->text()->empty() && name->text()->front() != '.' &&
         name->text()->find('/') == std::string::npos;
}

}  // namespace

NodeRecordings::NodeRecordings(DisposableFolder folder, launch::Worker child, UniqueFd socket, size_t nodes,
                               std::vector<std::string> files)
    : folder_(std::move(folder)),
      child_(std::move(child)),
      socket_(std::move(socket)),
      nodes_(nodes),
      files_(std::move(files)),
      recordings_(serve::recordings_in_files(files_)) {}

Result<std::unique_ptr<serve::Recordings>> NodeRecordings::start(NodeFlags::Target target, bool require_all,
                                                                 std::vector<std::string> files) {
  ST_ASSIGN(DisposableFolder folder, DisposableFolder::make("stalltrace-nodes-"));
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return fail_errno("make a pair of sockets", errno);
  }
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  const size_t nodes = target.nodes.size();
  ST_ASSIGN(launch::Worker child, launch::Worker::start("st-gather", [&](launch::WorkerSide&) {
              ours.reset();  // else the child would never see its end
              return Gatherer(target, require_all, folder.path()).answer_requests(theirs.get());
            }));
  return std::unique_ptr<serve::Recordings>(
      new NodeRecordings(std::move(folder), std::move(child), std::move(ours), nodes, std::move(files)));
}

Result<serve::Json> NodeRecordings::ask_child() {
  if (!send_all(socket_.get(), {&kGather, 1})) {
    return child_has_ended();
  }
  std::string line;
  std::vector<char> buffer(64 << 10);
  while (!line.ends_with('\n')) {
    const std::string_view some = receive_some(socket_.get(), buffer);
    if (some.empty() || line.size() + some.size() > kLongestLine) {
      socket_.reset();  // the rest of a longer answer would be read as that to the next request
      return child_has_ended();
    }
    line += some;
  }
  return serve::parse_json(line, kAnswer);
}

Result<const serve::Recordings::Gathered*> NodeRecordings::gather(bool again) {
  if (gathered_ && !again) {
    return &*gathered_;
  }
  ST_ASSIGN(const Json answer, ask_child());
  if (const Json* error = answer.find("error")) {
    Error refused{.what = printable(error->text() == nullptr ? "" : *error->text()),
                  .remedy = printable(text_of(answer, "remedy"))};
    if (gathered_) {
      refused.remedy +=
          fmt::format("; without gather_again the copies of {} are asked", format_utc(gathered_->asked_ns));
    }
    return std::unexpected(std::move(refused));
  }
  const Json* folder = answer.find("folder");
  const Json* asked_ns = answer.find("asked_ns");
  const Json* names = answer.find("files");
  const Json* missing = answer.find("missing");
  const bool whole = is_plain_name(folder) && asked_ns != nullptr && asked_ns->integer() != nullptr &&
                     *asked_ns->integer() >= 0 && *asked_ns->integer() <= kLatestAskedNs && names != nullptr &&
                     names->values() != nullptr &&
                     std::ranges::all_of(*names->values(), [](const Json& name) { return is_plain_name(&name); }) &&
                     missing != nullptr && missing->values() != nullptr;
  if (!whole) {
    return fail("the process that asks the nodes sends garbage", "start 'stalltrace mcp' again", ErrorKind::kCorrupt);
  }
  Gathered gathered{.asked_ns = *asked_ns->integer(), .nodes = nodes_};
  for (const Json& one : *missing->values()) {
    gathered.missing.push_back({text_of(one, "node"), text_of(one, "problem")});
  }
  std::vector<std::string> files = files_;
  for (const Json& name : *names->values()) {
    files.push_back(fmt::format("{}/{}/{}", folder_.path(), *folder->text(), *name.text()));
  }
  std::vector<std::string> notes;
  if (!gathered.missing.empty()) {
    notes.push_back(fmt::format("{} of {} that were asked did not answer: {}", gathered.missing.size(),
                                count_of(static_cast<int64_t>(nodes_), "node"), named(*missing->values())));
  }
  recordings_ = serve::recordings_in_files(std::move(files), std::move(notes));
  gathered_ = std::move(gathered);
  (void)send_all(socket_.get(), {&kTaken, 1});  // of an end the next request will know
  return &*gathered_;
}

}  // namespace stalltrace::cli
