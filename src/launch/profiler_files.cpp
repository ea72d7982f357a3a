// SPDX-License-Identifier: Apache-2.0
#include "launch/profiler_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/files/new_file.h"
#include "base/process/procfs.h"
#include "base/text.h"
#include "blackbox/format/reader.h"
#include "launch/memory_folders.h"

namespace stalltrace::launch {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBlockBytes = 1U << 20;

std::vector<std::string> profiler_file_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == blackbox::kProfilerFileSuffix) {
      names.push_back(entry->path().filename().string());
    }
  }
  return names;
}

UniqueFd open_plain(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info {};
  const bool plain = file && ::fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode);
  return plain ? std::move(file) : UniqueFd();
}

bool descends_from(pid_t ancestor, pid_t pid) {
  constexpr int kGenerations = 64;
  const Procfs procfs;
  for (int i = 0; i < kGenerations && pid > 1; ++i, pid = procfs.parent(pid)) {
    if (pid == ancestor) {
      return true;
    }
  }
  return false;
}

bool is_zero(const char* bytes, size_t count) {
  return count == 0 || (bytes[0] == 0 && std::memcmp(bytes, bytes + 1, count - 1) == 0);
}

Status write_at(int file, const char* bytes, size_t count, off_t offset) {
  while (count > 0) {
    const ssize_t put = ::pwrite(file, bytes, count, offset);
    if (put < 0 && errno != EINTR) {
      return fail_errno("write", errno);
    }
    const auto done = static_cast<size_t>(std::max<ssize_t>(put, 0));
    bytes += done;
    count -= done;
    offset += static_cast<off_t>(done);
  }
  return {};
}

Status copy_bytes(int from, int to, const std::stop_token& stop) {
  std::vector<char> block(kBlockBytes);
  off_t offset = 0;
  while (!stop.stop_requested()) {
    const ssize_t got = ::pread(from, block.data(), block.size(), offset);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return fail_errno("read", errno);
    }
    if (got == 0) {
      return ::ftruncate(to, offset) == 0 ? Status() : fail_errno("write", errno);
    }
    if (!is_zero(block.data(), static_cast<size_t>(got))) {
      ST_TRY(write_at(to, block.data(), static_cast<size_t>(got), offset));
    }
    offset += got;
  }
  return fail("interrupted", {}, ErrorKind::kInterrupted);
}

}  // namespace

Status copy_sparse(int from, const std::string& to, const std::stop_token& stop) {
  const std::string context = "copy a profiler file to " + to;
  auto file = NewFile::create(to, 0600);
  if (!file) {
    return with_context(context, std::move(file.error()));
  }
  Status copied = copy_bytes(from, file->descriptor(), stop);
  if (copied) {
    copied = file->publish(IfThere::kReplace);
  }
  return copied ? Status() : with_context(context, std::move(copied.error()));
}

ProfilerFiles::ProfilerFiles(std::string kept, const std::string& chosen, const Note& note, std::string memory,
                             pid_t launcher)
    : kept_(std::move(kept)),
      launcher_(launcher),
      boot_id_(trim(read_file("/proc/sys/kernel/random/boot_id", 64).value_or(""))) {
  if (!chosen.empty()) {
    std::error_code error;
    folder_ = fs::absolute(chosen, error).string();
    chosen_ = true;
    began_ticks_ = Procfs().start_ticks(launcher_);
    return;
  }
  report_of_earlier_folders(memory, note);
  Result<OwnFolder> made = make_memory_folder(memory);
  if (made) {
    memory_ = std::move(*made);
    folder_ = memory_.path();
    temporary_ = true;
  } else {
    folder_ = kept_;
    note(fmt::format("the profiler files are written to {} at once, where a slow file system may hold up the job: {}",
                     kept_, made.error().what));
  }
}

ProfilerFiles::~ProfilerFiles() = default;

bool ProfilerFiles::is_of_this_run(const blackbox::ProfilerFileReader& file) const {
  if (!chosen_) {
    return true;
  }
  const bool allowed =
      file.owner() == ::geteuid() || (::geteuid() == 0 && descends_from(launcher_, file.writer().value_or(0)));
  const st_box_header& header = file.layout();
  return allowed && header.process_start_ticks >= began_ticks_ && blackbox::text_of(header.boot_id) == boot_id_;
}

bool ProfilerFiles::is_wanted(const std::string& path) const {
  if (!chosen_) {
    return true;
  }
  const auto reader = blackbox::ProfilerFileReader::open(path);
  return reader && is_of_this_run(*reader);
}

void ProfilerFiles::update() {
  for (const std::string& name : profiler_file_names(folder_)) {
    if (files_.contains(name)) {
      continue;
    }
    const std::string path = folder_ + "/" + name;
    if (UniqueFd file = open_plain(path); file && is_wanted(path)) {
      files_.emplace(name, OpenFile{std::move(file), path});
    }
  }
}

std::vector<std::string> ProfilerFiles::paths() {
  update();
  std::vector<std::string> paths;
  for (const auto& [name, file] : files_) {
    paths.push_back(file.path);
  }
  return paths;
}

void ProfilerFiles::save_soon() {
  if (!temporary_ || copier_.joinable()) {
    return;
  }
  update();
  std::vector<std::pair<int, std::string>> copies;  // none is closed before the copier has ended
  for (const auto& [name, file] : files_) {
    copies.emplace_back(file.file.get(), kept_ + "/" + name);
  }
  copier_ = std::jthread([copies = std::move(copies)](const std::stop_token& stop) {
    for (const auto& [file, copy] : copies) {
      (void)copy_sparse(file, copy, stop);  // a failure is retried, and reported, at the end
    }
  });
}

std::vector<std::string> ProfilerFiles::collect(const Note& note) {
  if (copier_.joinable()) {
    copier_.request_stop();
    copier_.join();
  }
  update();
  if (!temporary_) {
    return paths();
  }
  std::vector<std::string> collected;
  size_t living = 0;
  size_t stuck = 0;
  Error reason;
  for (auto& [name, file] : files_) {
    const auto reader = blackbox::ProfilerFileReader::open(file.path);
    const bool lives = reader && reader->has_writer();
    std::string copy = kept_ + "/" + name;
    if (const Status copied = copy_sparse(file.file.get(), copy, {}); !copied) {
      stuck++;
      reason = copied.error();
      collected.push_back(file.path);
      continue;
    }
    if (lives) {
      living++;
    } else {
      ::unlink(file.path.c_str());
    }
    collected.push_back(lives ? file.path : std::move(copy));
  }
  if (stuck > 0) {
    note(fmt::format("{} profiler files stay in {}, in memory: {}", stuck, folder_, reason.what));
  }
  if (living > 0) {
    note(fmt::format("{} processes of the job go on: their profiler files go on in {}", living, folder_));
  }
  if (living + stuck == 0) {
    memory_.remove_itself();
  }
  return collected;
}

void ProfilerFiles::discard() {
  if (temporary_) {
    memory_.remove_itself();
  }
}

}  // namespace stalltrace::launch
