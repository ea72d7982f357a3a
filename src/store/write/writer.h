// SPDX-License-Identifier: Apache-2.0
// Writes one node's recording during the trace. accept() only buffers; flush() writes everything buffered as one
// transaction on the caller's thread. There is no internal thread: a transaction of some thousand rows takes
// milliseconds, and a single-threaded tracer needs neither locks nor copies.
//
// A recording is always valid: rows stored by flush() survive a kill -9 of this process. Losses are counted in the
// table `loss`: rows pruned because of max_size_bytes as "pruned:TABLE", rows that a full disk refused as
// "store:disk_full".
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/files/own_folder.h"
#include "base/result.h"
#include "model/events.h"
#include "model/finding.h"

namespace stalltrace::store {

struct WriterOptions {
  /// Maximum size of the file and its log together; 0: no limit, else at least kSmallestMaxSize. The oldest normal data
  /// is removed first, stalls and their surroundings last.
  int64_t max_size_bytes = 0;
  /// Replaces an existing recording, but no other file, and no recording that is being written.
  bool overwrite = false;
  Readers readers = Readers::kOwner;
};
inline constexpr int64_t kSmallestMaxSize = 1 << 20;

struct WriterStats {
  uint64_t rows = 0;    // written rows, including updates
  uint64_t bytes = 0;   // current size of the file and its log
  uint64_t pruned = 0;  // rows removed because of max_size_bytes
  uint64_t lost = 0;    // rows that could not be stored
};

/// All calls must come from one thread at a time.
class RecordingWriter final : public EventSink {
 public:
  static Result<std::unique_ptr<RecordingWriter>> create(const std::string& path, WriterOptions options = {});
  /// Closes if close() was not called; errors are then not reported.
  ~RecordingWriter() override;

  void accept(Event event) override;
  /// Adds a new or changed live finding; `finding_id` counts from 1.
  void accept_finding(int64_t finding_id, Finding finding);

  /// Stores what was accepted since the last call. While the disk is full, the newest rows are kept in memory, and
  /// older ones are dropped and counted. Only the first such call returns an error; writing resumes by itself.
  Status flush();
  /// Number of rows that wait for flush(). Call flush() when they are many (some ten thousand), and four times a
  /// second.
  [[nodiscard]] size_t buffered() const;

  /// Flushes, marks the recording complete, leaves one synced file without a log, and gives it to the user who called
  /// sudo, if any. Nothing may be accepted afterwards.
  Status close();

  [[nodiscard]] WriterStats stats() const;
  [[nodiscard]] const std::string& path() const;

 private:
  struct State;
  explicit RecordingWriter(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace stalltrace::store
