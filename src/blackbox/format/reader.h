// SPDX-License-Identifier: Apache-2.0
// The content of a profiler file, while its process lives or after it died. Each read() returns what is new since the
// last one; the first returns everything. One thread; a reader owns its file.
//
// The file belongs to its process's user and may hold anything: events are returned as they are in it, checked only for
// being complete and in their place. decode/ checks numbers and texts inside.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "blackbox/format/profiler_file.h"
#include "plugin/wire/blackbox.h"

namespace stalltrace::blackbox {

inline constexpr const char* kProfilerFileSuffix = ST_BOX_SUFFIX;
/// Where the plugin makes its files without STALLTRACE_DIR.
inline constexpr const char* kProfilerFolder = ST_BOX_FOLDER;

/// Limits of one read().
struct ReadBounds {
  uint64_t most_records = std::numeric_limits<uint64_t>::max();
  bool open_parts = true;   // also read communicators and slots once the ring is empty: slots are newer than the ring
  bool ended_slots = true;  // also return ended events in slots. While the writer lives, the ring delivers them
};

struct ProfilerFileContents {
  st_box_header header{};
  bool has_writer = false;  // its process lives on this host
  uint64_t unread = 0;      // records left in the ring, or incomplete
  bool drained = false;     // none is left in the ring
  bool open_parts = false;  // communicators and slots were read
  std::vector<st_box_communicator> communicators;
  std::vector<st_box_event> ended;  // in the order they were written; the last of several with one id counts
  size_t ended_in_ring = 0;  // the first of `ended`, each read once; the others are in slots and come with every read
  std::vector<st_box_event> open;  // not ended at the time of the read
  uint64_t overwritten = 0;        // records lost so far because the ring wrapped before they were read
  uint64_t torn = 0;               // records so far that were never completed: their writer was killed
};

class ProfilerFileReader {
 public:
  static Result<ProfilerFileReader> open(const std::string& path);
  /// The same for an open file; `path` is its name in errors.
  static Result<ProfilerFileReader> adopt(UniqueFd fd, const std::string& path);

  [[nodiscard]] Result<ProfilerFileContents> read(const ReadBounds& bounds = {});
  /// Reads the communicator table alone, without effect on the next read().
  [[nodiscard]] Result<std::vector<st_box_communicator>> read_communicators() const;
  [[nodiscard]] const std::string& path() const { return file_.path(); }
  /// The header at the time of open().
  [[nodiscard]] const st_box_header& layout() const { return file_.layout(); }
  [[nodiscard]] bool has_writer() const { return file_.has_writer(); }
  /// The process that holds the writer's lock, as the kernel reports it: 0 for a process of a pid namespace that is not
  /// visible from here.
  [[nodiscard]] std::optional<pid_t> writer() const { return file_.writer(); }
  [[nodiscard]] uid_t owner() const { return file_.owner(); }

 private:
  explicit ProfilerFileReader(ProfilerFile file) : file_(std::move(file)) {}
  Status read_ring(ProfilerFileContents& contents, uint64_t most_records);
  Status read_records(uint64_t first, uint64_t count, ProfilerFileContents& contents);
  Status retry_unfinished(ProfilerFileContents& contents);
  Status read_slots(ProfilerFileContents& contents, bool with_ended);
  Status read_slot_block(uint64_t first, uint64_t count, ProfilerFileContents& contents, bool with_ended);

  ProfilerFile file_;
  uint64_t next_ = 0;              // record to read next
  std::set<uint64_t> unfinished_;  // incomplete when they were read
  uint64_t overwritten_ = 0;
  uint64_t torn_ = 0;
  std::vector<st_box_event> before_;  // copies of one block; the memory is reused
  std::vector<st_box_event> copy_;
  std::vector<st_box_event> after_;
};

/// A text field up to its NUL or its end, with unprintable characters replaced.
std::string text_of(std::span<const char> field);

/// True for a COLL or P2P without an end that is enqueued and has no part that NCCL would report: its end is
/// unobserved, so it does not hang.
bool end_unobserved(const st_box_event& event);

}  // namespace stalltrace::blackbox
