// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/code_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/clock.h"
#include "base/untrusted/untrusted_file.h"

namespace stalltrace::capture {
namespace {

constexpr size_t kNamesKept = 8192;
/// Time limit for name look-ups in each second: the ring buffers fill while they run.
constexpr int64_t kTimeNs = 100 * kNsPerMs;
constexpr int64_t kUsersTimeNs = 50 * kNsPerMs;  // of it, for the processes of one user
/// How long mappings are reused, even for an address in none of them: it may be in a library loaded since, or be no
/// address at all.
constexpr int64_t kMappingsNs = kNsPerSecond;
constexpr int64_t kNoMappingNs = 100 * kNsPerMs;

}  // namespace

bool CodeNames::in_time(uint32_t user) {
  const int64_t now_ns = monotonic_now_ns();
  if (now_ns - second_ns_ >= kNsPerSecond) {
    second_ns_ = now_ns;
    spent_ns_ = 0;
    spent_of_user_ns_.clear();
  }
  return spent_ns_ < kTimeNs && spent_of_user_ns_[user] < kUsersTimeNs;
}

void CodeNames::look_up(pid_t pid, const MappedFile& file, std::span<const uint64_t> offsets, uint32_t user) {
  std::vector<uint64_t> fresh;
  const auto key = [&](uint64_t offset) { return Key{file.device_major, file.device_minor, file.inode, offset}; };
  std::ranges::copy_if(offsets, std::back_inserter(fresh), [&](uint64_t o) { return !known_.contains(key(o)); });
  if (fresh.empty() || !in_time(user)) {
    return;
  }
  const int64_t begun_ns = monotonic_now_ns();
  if (known_.size() + fresh.size() > kNamesKept) {
    known_.clear();
  }
  const std::string name = std::filesystem::path(file.path).filename().string();
  const auto opened = UntrustedFile::open_mapped(procfs_, mounts_, pid, file);
  const auto locations = opened ? names_.functions_at(*opened, fresh, kTimeNs - spent_ns_)
                                : std::optional(FunctionNameReader::Locations(fresh.size()));
  for (size_t i = 0; locations && i < fresh.size(); ++i) {
    const std::optional<CodeLocation>& location = (*locations)[i];
    known_[key(fresh[i])] = !location ? fmt::format("+{:#x} ({})", fresh[i], name)
                            : location->into == 0
                                ? fmt::format("{} ({})", location->function, name)
                                : fmt::format("{}+{:#x} ({})", location->function, location->into, name);
  }
  const int64_t spent_ns = monotonic_now_ns() - begun_ns;
  spent_ns_ += spent_ns;
  spent_of_user_ns_[user] += spent_ns;
}

const CodeNames::Mappings* CodeNames::mappings_of(pid_t pid, int64_t not_before_ns) {
  const auto known = mappings_.find(pid);
  if (known != mappings_.end() && known->second.read_ns >= not_before_ns) {
    return &known->second;
  }
  const int64_t now_ns = monotonic_now_ns();
  auto files = procfs_.code_mappings(pid);
  if (!files) {
    mappings_.erase(pid);
    return nullptr;
  }
  return &(mappings_[pid] = {.files = std::move(*files), .read_ns = now_ns});
}

std::vector<CodeNames::Frame> CodeNames::frames_of(const Mappings& mappings, std::span<const uint64_t> addresses) {
  std::vector<Frame> frames;
  for (const uint64_t address : addresses) {
    const uint64_t inside = address - (frames.empty() ? 0 : 1);  // a return address may begin the next function
    const auto file = std::ranges::find_if(
        mappings.files, [&](const MappedFile& mapping) { return inside >= mapping.start && inside < mapping.end; });
    if (file == mappings.files.end()) {
      break;
    }
    frames.push_back({&*file, inside - file->start + file->offset});
  }
  return frames;
}

std::string CodeNames::describe(pid_t pid, std::span<const uint64_t> addresses, uint32_t user) {
  const int64_t now_ns = monotonic_now_ns();
  std::vector<Frame> frames;
  for (const int64_t good_ns : {kMappingsNs, kNoMappingNs}) {
    const Mappings* mappings = mappings_of(pid, now_ns - good_ns);
    if (!mappings) {
      return {};
    }
    frames = frames_of(*mappings, addresses);
    if (frames.size() == addresses.size()) {
      break;
    }
  }
  std::map<const MappedFile*, std::vector<uint64_t>> by_file;
  for (const Frame& frame : frames) {
    by_file[frame.file].push_back(frame.offset);
  }
  for (const auto& [file, offsets] : by_file) {
    look_up(pid, *file, offsets, user);
  }
  std::string text;
  for (const auto& [file, offset] : frames) {
    const auto known = known_.find({file->device_major, file->device_minor, file->inode, offset});
    text += text.empty() ? "" : "\n";
    text += known != known_.end()
                ? known->second
                : fmt::format("+{:#x} ({})", offset, std::filesystem::path(file->path).filename().string());
  }
  return text;
}

}  // namespace stalltrace::capture
