// SPDX-License-Identifier: Apache-2.0
// Recordings in files for the server: snapshots of them, reread as a tracer writes on.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <map>
#include <mutex>
#include <tuple>

#include "serve/recordings.h"
#include "store/copy.h"
#include "store/query.h"
#include "store/read/reader.h"
#include "store/recording_state.h"

namespace stalltrace::serve {
namespace {

constexpr int kMostRowBytes = 1 << 20;  // several are answered at once

class FileSnapshot final : public Snapshot {
 public:
  static Result<std::shared_ptr<FileSnapshot>> open(std::span<const std::string> paths,
                                                    const std::vector<std::string>& notes) {
    auto snapshot = std::make_shared<FileSnapshot>();
    snapshot->notes_ = notes;
    ST_ASSIGN(snapshot->source_, store::open_recordings(paths, &snapshot->read_));
    return snapshot;
  }
  void begin_request() { source_->begin_request(); }
  /// What was found before belongs to other answers.
  void begin_own_request() {
    begin_request();
    read_.left_out.clear();
    std::ranges::fill(read_.fallbacks, 0);
  }
  EventSource& source() override { return *source_; }
  [[nodiscard]] ReadNotes read_notes() const override {
    return {.first = notes_, .notes = read_.notes(), .rows_left_out = read_.rows_left_out()};
  }

 private:
  std::vector<std::string> notes_;
  store::ReadReport read_;
  std::unique_ptr<store::OpenRecordings> source_;
};

/// Differs after each write to the file or its log.
using FileState = std::array<int64_t, 12>;

FileState state_of(const std::string& path) {
  FileState state{};
  size_t next = 0;
  for (const std::string& file : {path, path + "-wal"}) {
    struct stat status {};
    if (::stat(file.c_str(), &status) == 0) {
      state[next] = static_cast<int64_t>(status.st_ino);
      state[next + 1] = status.st_size;
      state[next + 2] = status.st_mtim.tv_sec;
      state[next + 3] = status.st_mtim.tv_nsec;
      state[next + 4] = status.st_ctim.tv_sec;
      state[next + 5] = status.st_ctim.tv_nsec;
    }
    next += 6;
  }
  return state;
}

class RecordingFiles final : public Recordings {
 public:
  RecordingFiles(std::vector<std::string> paths, std::vector<std::string> notes)
      : paths_(std::move(paths)), notes_(std::move(notes)) {
    for (const std::string& path : paths_) {
      names_.push_back(std::filesystem::path(path).filename().string());
    }
    const std::vector<std::string> bases = names_;
    for (size_t i = 0; i < names_.size(); ++i) {
      if (std::ranges::count(bases, bases[i]) > 1) {
        names_[i] = paths_[i];
      }
    }
  }

  std::vector<Info> list() override {
    std::vector<Info> infos;
    for (size_t i = 0; i < paths_.size(); ++i) {
      struct stat status {};
      Info info{.name = names_[i]};
      info.size_bytes = ::stat(paths_[i].c_str(), &status) == 0 ? status.st_size : 0;
      info.being_written = store::is_recording_written(paths_[i]);
      info.problem = problem_of(i, info.being_written);
      infos.push_back(std::move(info));
    }
    return infos;
  }

  Result<std::shared_ptr<Snapshot>> snapshot(std::string_view name) override {
    if (paths_.empty()) {
      return fail("no recording is served here", "give recordings to the server as FILE", ErrorKind::kNotFound);
    }
    size_t which = paths_.size();
    std::span<const std::string> chosen(paths_);
    if (!name.empty()) {
      ST_ASSIGN(which, index_of(name));
      chosen = chosen.subspan(which, 1);
    }
    std::vector<FileState> states;
    std::ranges::transform(chosen, std::back_inserter(states), state_of);
    // An open connection would keep the writer of a recording from finishing it.
    const bool written = std::ranges::any_of(chosen, store::is_recording_written);
    const auto known = std::ranges::find(kept_, which, &Kept::which);
    if (known != kept_.end()) {
      if (!written && known->states == states) {
        std::rotate(known, known + 1, kept_.end());
        kept_.back().snapshot->begin_request();
        return kept_.back().snapshot;
      }
      kept_.erase(known);
    } else if (kept_.size() >= kMostKept) {
      kept_.erase(kept_.begin());
    }
    ST_ASSIGN(std::shared_ptr<FileSnapshot> snapshot, FileSnapshot::open(chosen, notes_));
    if (!written) {
      kept_.push_back({which, std::move(states), snapshot});
    }
    return snapshot;
  }

  Result<std::shared_ptr<Snapshot>> own_snapshot(std::string_view name) override {
    ST_ASSIGN(const size_t which, index_of(name));
    const FileState state = state_of(paths_[which]);
    // An open connection would keep the writer of a recording from finishing it.
    const bool written = store::is_recording_written(paths_[which]);
    if (!written) {
      const std::lock_guard lock(own_mutex_);
      const auto known = own_.find(which);
      if (known != own_.end() && known->second.snapshot.use_count() == 1 && known->second.state == state) {
        std::atomic_thread_fence(std::memory_order_acquire);  // after what its last user did
        known->second.snapshot->begin_own_request();
        return known->second.snapshot;
      }
    }
    ST_ASSIGN(std::shared_ptr<FileSnapshot> snapshot, FileSnapshot::open(std::span(&paths_[which], 1), notes_));
    const std::lock_guard lock(own_mutex_);
    own_.erase(which);
    if (own_.size() >= kMostOwn) {
      own_.erase(own_.begin());
    }
    if (!written) {
      own_.emplace(which, Own{state, snapshot});
    }
    return snapshot;
  }

  Status query(std::string_view name, std::string_view sql, const QueryEnd& end, RowSink& sink) override {
    ST_ASSIGN(const size_t which, index_of(name));
    const store::QueryOptions options{
        .time_limit_ns = end.time_limit_ns, .cancelled = end.cancelled, .most_row_bytes = kMostRowBytes};
    return store::query_recording(paths_[which], sql, options, sink);
  }

  Result<UniqueFd> open_copy(std::string_view name, const std::string& folder) override {
    ST_ASSIGN(const size_t which, index_of(name));
    return store::open_copy(paths_[which], folder);
  }

 private:
  static constexpr size_t kMostKept = 3;  // all, and two to compare

  struct Kept {
    size_t which = 0;  // index of the path; their number: all
    std::vector<FileState> states;
    std::shared_ptr<FileSnapshot> snapshot;
  };

  /// Each request asks for the list, and checking a file takes as long as many an answer.
  std::optional<Error> problem_of(size_t which, bool being_written) {
    const FileState state = state_of(paths_[which]);
    if (!being_written) {
      const std::lock_guard lock(checked_mutex_);
      if (const auto known = checked_.find(which); known != checked_.end() && known->second == state) {
        return std::nullopt;
      }
    }
    if (Status readable = store::check_recording(paths_[which]); !readable) {
      return std::move(readable.error());
    }
    if (!being_written) {
      const std::lock_guard lock(checked_mutex_);
      checked_[which] = state;
    }
    return std::nullopt;
  }

  Result<size_t> index_of(std::string_view name) const {
    const auto found = std::ranges::find(names_, name);
    if (found == names_.end()) {
      return fail(fmt::format("there is no recording '{}'", name.substr(0, 100)),
                  "health lists the recordings with their names", ErrorKind::kNotFound);
    }
    return static_cast<size_t>(found - names_.begin());
  }

  std::vector<std::string> paths_;
  std::vector<std::string> notes_;
  std::vector<std::string> names_;
  std::vector<Kept> kept_;  // the last used at the end
  /// The last one of each file, for the next request once this one has it no more: a fleet asks several times.
  struct Own {
    FileState state{};
    std::shared_ptr<FileSnapshot> snapshot;
  };
  static constexpr size_t kMostOwn = 8;  // each holds up to four descriptors
  std::mutex own_mutex_;
  std::map<size_t, Own> own_;
  std::mutex checked_mutex_;
  std::map<size_t, FileState> checked_;  // in that state the recording was right
};

}  // namespace

std::unique_ptr<Recordings> recordings_in_files(std::vector<std::string> paths, std::vector<std::string> notes) {
  return std::make_unique<RecordingFiles>(std::move(paths), std::move(notes));
}

}  // namespace stalltrace::serve
