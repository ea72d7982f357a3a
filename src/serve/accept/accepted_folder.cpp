// SPDX-License-Identifier: Apache-2.0
#include "serve/accept/accepted_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/files/new_file.h"
#include "base/io/write_all.h"
#include "base/read_at.h"
#include "base/text.h"
#include "serve/accept/received_file.h"
#include "serve/json/json.h"
#include "store/hand_over.h"
#include "store/recording_state.h"

namespace stalltrace::serve {
namespace {

constexpr int kStorageFull = 507;
constexpr int kTooLarge = 413;
constexpr int64_t kBlockBytes = 4096;     // the least that a file takes of a disk
constexpr int64_t kStatBlockBytes = 512;  // of st_blocks
constexpr int64_t kMostFiles = 100'000;   // each request lists them
constexpr JsonLimits kOfAFinding{.depth = 12, .values = 5'000, .members = 128, .whole_reals_are_integers = false};

/// What went wrong is in this server's folder: the client may try again later.
HttpAnswer answer_of_folder(const Error& error) {
  return answer_of_error(kStorageFull, "it can't be stored: " + error.what,
                         "see the folder of --accept on that node, and push it again");
}

HttpAnswer refused(const Error& error) {
  return answer_of_error(400, "not taken: " + error.what, "see whether it can be read where it is: stalltrace explain");
}

bool no_room(int folder, int64_t bytes) {
  struct statvfs disk {};
  if (::fstatvfs(folder, &disk) != 0) {
    return false;
  }
  const uint64_t block = std::max<uint64_t>(disk.f_frsize, 1);
  const bool counts_files = disk.f_files > 0;  // some file systems have no limit of their own
  return disk.f_bavail < (static_cast<uint64_t>(bytes) + block - 1) / block || (counts_files && disk.f_favail == 0);
}

/// The lines of findings, as they are stored, and the file of their agent.
struct Findings {
  std::string file;
  std::string lines;
};

Result<Findings> parse_findings(std::string_view text) {
  const auto wrong = [](std::string_view why) {
    return fail(fmt::format("not findings of an agent: {}", why), "docs/serve.md has their form", ErrorKind::kUsage);
  };
  Findings findings;
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty()) {
      continue;
    }
    const auto finding = parse_json(line, kOfAFinding);
    if (!finding || !finding->is_object()) {
      return wrong(finding ? "a line is no object" : finding.error().what);
    }
    const Json* node = finding->find("node");
    const Json* started_ns = finding->find("started_ns");
    if (node == nullptr || node->text() == nullptr || started_ns == nullptr || started_ns->integer() == nullptr ||
        *started_ns->integer() < 0) {
      return wrong("a line has no node, or no started_ns");
    }
    std::string file = store::recording_name(*node->text(), *started_ns->integer()) + ".findings.jsonl";
    if (!findings.file.empty() && findings.file != file) {
      return wrong("they are of several agents");
    }
    findings.file = std::move(file);
    findings.lines += finding->dump() + "\n";
  }
  return findings.file.empty() ? Result<Findings>(wrong("no line")) : std::move(findings);
}

/// Whether the file ends with `lines`.
bool ends_with(int file, int64_t size, const std::string& lines) {
  std::string last(lines.size(), '\0');
  const int64_t from = size - static_cast<int64_t>(lines.size());
  return from >= 0 && read_at(file, last.data(), last.size(), from) == static_cast<ssize_t>(last.size()) &&
         last == lines;
}

}  // namespace

/// One recording that arrives.
class AcceptedFolder::Body final : public BodySink {
 public:
  /// The bytes were reserved.
  Body(AcceptedFolder& folder, int64_t bytes, NewFile file, std::unique_ptr<ReceivedFile> received)
      : folder_(folder), bytes_(bytes), file_(std::move(file)), received_(std::move(received)) {}
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;
  ~Body() override { folder_.release(bytes_); }

  std::optional<HttpAnswer> add(std::string_view bytes) override {
    Result<bool> more = received_->add(bytes);
    while (more && *more) {
      more = received_->add("");
    }
    if (more) {
      return std::nullopt;
    }
    return more.error().kind == ErrorKind::kCorrupt ? refused(more.error()) : answer_of_folder(more.error());
  }

  HttpAnswer finish() override {
    if (Status whole = received_->finish(); !whole) {
      return refused(whole.error());
    }
    if (Status good = store::check_recording(file_.temporary_path(), "what was sent"); !good) {
      return refused(good.error());
    }
    const auto taken = store::take_over(file_, folder_.path());
    if (!taken) {
      return taken.error().kind == ErrorKind::kCorrupt ? refused(taken.error()) : answer_of_folder(taken.error());
    }
    return {.body = Json::object({{"name", base_name(taken->path)}, {"was_there", taken->was_there}}).dump() + "\n"};
  }

 private:
  AcceptedFolder& folder_;
  int64_t bytes_;
  NewFile file_;
  std::unique_ptr<ReceivedFile> received_;
};

Result<std::unique_ptr<AcceptedFolder>> AcceptedFolder::open(const std::string& path, const AcceptLimits& limits) {
  ST_ASSIGN(OwnFolder folder, OwnFolder::claim(path, Readers::kOwner));
  std::unique_ptr<AcceptedFolder> accepted(new AcceptedFolder(std::move(folder), limits));
  // Shows that files can be made, and removes what a killed server has left.
  ST_TRY(NewFile::create(accepted->path() + "/recording", 0600, UntilPublished::kRandomName));
  return accepted;
}

AcceptedFolder::Used AcceptedFolder::used() const {
  Used used;
  for_each_name(folder_.descriptor(), [&](const std::string& name) {
    struct stat status {};
    if (!name.starts_with('.') && ::fstatat(folder_.descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(status.st_mode)) {
      // A small file takes a block, one with holes less than its size: those may be filled.
      used.bytes += std::max<int64_t>(status.st_size, status.st_blocks * kStatBlockBytes);
      ++used.files;
    }
  });
  return used;
}

std::optional<HttpAnswer> AcceptedFolder::reserve(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const Used now = used();
  if (now.files >= kMostFiles) {
    return answer_of_error(kStorageFull, fmt::format("the folder of --accept holds {} files at most", kMostFiles),
                           "move recordings out of it; then push it again");
  }
  if (limits_.most_bytes > 0 && now.bytes + reserved_bytes_ + bytes > limits_.most_bytes) {
    return answer_of_error(kStorageFull,
                           fmt::format("the folder of --accept holds {} at most", format_size(limits_.most_bytes)),
                           "move recordings out of it, or raise --accept-limit there; then push it again");
  }
  if (no_room(folder_.descriptor(), reserved_bytes_ + bytes)) {
    return answer_of_error(kStorageFull, "the disk with the folder of --accept has no room for it",
                           "free some disk space on that node, and push it again");
  }
  reserved_bytes_ += bytes;
  return std::nullopt;
}

void AcceptedFolder::release(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  reserved_bytes_ -= bytes;
}

Upload AcceptedFolder::begin_recording(const HttpRequest& request) {
  const auto header = request.headers.find("stalltrace-bytes");
  const auto bytes = parse_integer(header == request.headers.end() ? "" : header->second);
  if (!bytes || *bytes < 1) {
    return {.body = nullptr,
            .refusal = answer_of_error(400, "the header Stalltrace-Bytes is missing or is not a size",
                                       "give the size of the recording, not compressed")};
  }
  if (*bytes > limits_.most_file_bytes) {
    return {.body = nullptr,
            .refusal = answer_of_error(
                413, fmt::format("a recording of more than {} is not taken", format_size(limits_.most_file_bytes)),
                "copy it by other means, or record with --max-size")};
  }
  if (auto full = reserve(*bytes)) {
    return {.body = nullptr, .refusal = *std::move(full)};
  }
  auto file = NewFile::create(path() + "/recording", 0600, UntilPublished::kRandomName);
  UniqueFd copy(file ? ::fcntl(file->descriptor(), F_DUPFD_CLOEXEC, 0) : -1);
  if (!copy) {
    const Error error = file ? fail_errno("open it again", errno).error() : file.error();
    release(*bytes);
    return {.body = nullptr, .refusal = answer_of_folder(error)};
  }
  auto received = ReceivedFile::into(std::move(copy), limits_.most_file_bytes);
  (void)received->announce(*bytes);  // within the limit
  return {.body = std::make_shared<Body>(*this, *bytes, *std::move(file), std::move(received)), .refusal = {}};
}

HttpAnswer AcceptedFolder::add_findings(std::string_view lines) {
  const auto findings = parse_findings(lines);
  if (!findings) {
    return answer_of_error(findings.error());
  }
  const auto bytes = std::max(static_cast<int64_t>(findings->lines.size()), kBlockBytes);
  if (auto full = reserve(bytes)) {
    return *std::move(full);
  }
  auto not_stored = append(findings->file, findings->lines);
  release(bytes);
  return not_stored ? *std::move(not_stored)
                    : HttpAnswer{.body = Json::object({{"name", findings->file}}).dump() + "\n"};
}

std::optional<HttpAnswer> AcceptedFolder::append(const std::string& name, const std::string& lines) {
  const std::lock_guard lock(mutex_);
  const UniqueFd file(::openat(folder_.descriptor(), name.c_str(),
                               O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) {
    return answer_of_folder(fail_errno(name, errno).error());
  }
  if (!S_ISREG(status.st_mode)) {
    return answer_of_folder({.what = name + " is not a file"});
  }
  if (ends_with(file.get(), status.st_size, lines)) {
    return std::nullopt;
  }
  if (status.st_size + static_cast<int64_t>(lines.size()) > limits_.most_finding_bytes) {
    return answer_of_error(
        kTooLarge,
        fmt::format("{} holds {} of findings at most, and is full", name, format_size(limits_.most_finding_bytes)),
        "the agent's recording has all of them");
  }
  // A line that a full disk or a kill has cut short stays one of its own.
  const bool cut = status.st_size > 0 && !ends_with(file.get(), status.st_size, "\n");
  if (!write_all(file.get(), (cut ? "\n" : "") + lines)) {
    Error failed = fail_errno(name, errno).error();
    if (::ftruncate(file.get(), status.st_size) != 0) {
      failed.what += "; a part of the lines is in it";
    }
    return answer_of_folder(failed);
  }
  const bool safe = ::fsync(file.get()) == 0 || errno == EINVAL;
  return safe ? std::nullopt : std::optional(answer_of_folder(fail_errno(name, errno).error()));
}

}  // namespace stalltrace::serve
