// SPDX-License-Identifier: Apache-2.0
// Writes one node's recording while it happens. accept() only buffers; flush() writes everything buffered as one
// transaction on the caller's thread. There is no thread inside: one transaction of some thousand rows takes
// milliseconds, and a tracer that is never interrupted in it needs neither locks nor copies.
//
// A recording is valid at every moment: what flush() stored survives a kill -9 of this process. Losses are counted in
// the table `loss`: rows pruned to honour max_size_bytes as "pruned:TABLE", rows that a full disk refused as
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
  /// Largest size of the file and its log together, 0 for none, else at least kSmallestMaxSize. The oldest normal
  /// data goes first, stalls and what happened around them last.
  int64_t max_size_bytes = 0;
  /// Replaces an existing recording. Never anything else, and never one that is being written.
  bool overwrite = false;
  Readers readers = Readers::kOwner;
};
inline constexpr int64_t kSmallestMaxSize = 1 << 20;

struct WriterStats {
  uint64_t rows = 0;    // written, updates included
  uint64_t bytes = 0;   // size of the file and its log now
  uint64_t pruned = 0;  // rows removed for max_size_bytes
  uint64_t lost = 0;    // rows that could not be stored
};

/// All calls from one thread at a time.
class RecordingWriter final : public EventSink {
 public:
  static Result<std::unique_ptr<RecordingWriter>> create(const std::string& path, WriterOptions options = {});
  /// Closes, if close() was not called; what goes wrong then stays unsaid.
  ~RecordingWriter() override;

  void accept(Event event) override;
  /// A live finding, new or changed; `finding_id` counts from 1.
  void accept_finding(int64_t finding_id, Finding finding);

  /// Stores what was accepted since the last call. While the disk is full the newest rows are kept in memory, older
  /// ones are dropped and counted; that is an error of the first such call only, and writing resumes by itself.
  Status flush();
  /// Rows that wait for flush(): call it when they are many (some ten thousand), and four times a second.
  [[nodiscard]] size_t buffered() const;

  /// Flushes, marks the recording complete, leaves one file without a log, stored on the disk, and gives it to who
  /// called us through sudo. Nothing may be accepted afterwards.
  Status close();

  [[nodiscard]] WriterStats stats() const;
  [[nodiscard]] const std::string& path() const;

 private:
  struct State;
  explicit RecordingWriter(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace stalltrace::store
