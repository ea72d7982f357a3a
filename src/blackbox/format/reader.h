// SPDX-License-Identifier: Apache-2.0
// What a profiler file holds, while its process lives or after it died. Each read() returns what is new since the last
// one; the first returns all there is. One thread; a reader owns its file.
//
// The bytes are somebody else's: entries come as they lie, checked only for being whole and in their place. Every
// number and text inside an entry may still lie.
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

/// How much a read() may do: a follower bounds each of its rounds.
struct ReadBounds {
  uint64_t most_records = std::numeric_limits<uint64_t>::max();
  bool open_parts = true;  // also communicators and open events, which are looked at one by one
};

struct Contents {
  st_box_header header{};
  bool has_writer = false;  // its process lives on this host
  bool drained = false;     // the ring held no more
  std::vector<st_box_communicator> communicators;
  std::vector<st_box_event> ended;  // in the order they were written; of several with one id the last counts
  std::vector<st_box_event> open;   // not ended, as far as is known now
  uint64_t overwritten = 0;         // records lost so far because the ring wrapped before they were read
  uint64_t torn = 0;                // records that were never finished: their writer was killed
};

/// How a process gets on, by its box.
struct BoxProgress {
  uint64_t completed = 0;                  // collectives and Send/Recv that have ended, since the box was opened
  uint64_t open = 0;                       // entered, not ended
  std::optional<uint64_t> oldest_open_ns;  // CLOCK_MONOTONIC; when the one open for longest was entered
};

class BoxReader {
 public:
  static Result<BoxReader> open(const std::string& path);
  /// Of an open file; `path` is what errors call it.
  static Result<BoxReader> adopt(UniqueFd fd, const std::string& path);

  [[nodiscard]] Result<Contents> read(const ReadBounds& bounds = {});
  /// As of the last read().
  [[nodiscard]] const BoxProgress& progress() const { return progress_; }
  [[nodiscard]] const std::string& path() const { return file_.path(); }
  /// As it was when the file was opened.
  [[nodiscard]] const st_box_header& layout() const { return file_.layout(); }
  [[nodiscard]] bool has_writer() const { return file_.has_writer(); }
  [[nodiscard]] uid_t owner() const { return file_.owner(); }

 private:
  explicit BoxReader(BoxFile file) : file_(std::move(file)) {}
  Status read_communicators(Contents& contents) const;
  Status read_ring(Contents& contents, uint64_t most_records);
  Status read_records(uint64_t first, uint64_t count, Contents& contents);
  Status retry_unfinished(Contents& contents);
  Status read_slots(Contents& contents) const;
  Status read_slot_block(uint64_t first, uint64_t count, Contents& contents) const;
  void count_completed(const Contents& contents);
  void count_open(const Contents& contents);

  BoxFile file_;
  uint64_t next_ = 0;              // record to read next
  std::set<uint64_t> unfinished_;  // records that were being written when we passed
  uint64_t overwritten_ = 0;
  uint64_t torn_ = 0;
  BoxProgress progress_;
};

/// A text field: up to its NUL, at most the field; printable.
std::string text_of(std::span<const char> field);

/// True for a COLL or P2P without an end that has not hung: it is enqueued, and nobody tells of anything that it waits
/// for.
bool end_unobserved(const st_box_event& event);

}  // namespace stalltrace::blackbox
