// SPDX-License-Identifier: Apache-2.0
// What is served: recordings, which may still be written. The interface is what tools see, so that a fleet of serving
// nodes can take the place of files.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/profiles/job_view.h"
#include "base/handle.h"
#include "base/result.h"
#include "model/finding.h"
#include "model/inspection.h"
#include "model/source.h"
#include "model/table_rows.h"
#include "model/time_window.h"

namespace stalltrace::serve {

/// One state of some recordings. What was made of it is kept as long as the object. One thread at a time.
class Snapshot {
 public:
  /// `notes`: facts about the files that reading has found so far (store::ReadReport), and rows left out. `first`:
  /// facts that limit all others, such as missing nodes; reports have them before their own notes.
  struct ReadNotes {
    std::vector<std::string> first;
    std::vector<std::string> notes;
    int64_t rows_left_out = 0;
  };
  virtual ~Snapshot() = default;
  /// The source of all its recordings.
  virtual EventSource& source() = 0;
  [[nodiscard]] virtual ReadNotes read_notes() const = 0;

  /// As `explain` gives it. Valid until another window was asked for some times.
  Result<std::shared_ptr<const Report>> report(const TimeWindow& window = {});
  /// As `explain --instance` gives it.
  Result<std::shared_ptr<const Inspection>> inspect(EventId call);
  Result<analysis::JobView*> job();

 private:
  std::map<std::string, std::shared_ptr<const Report>> reports_;  // by window
  std::map<EventId, std::shared_ptr<const Inspection>> inspections_;
  std::unique_ptr<analysis::JobView> job_;
};

/// list, query, own_snapshot and open_copy may be called by several threads at once, snapshot by one at a time.
class Recordings {
 public:
  struct Info {
    std::string name;  // unique; what tools call it
    bool being_written = false;
    int64_t size_bytes = 0;
    std::optional<Error> problem;  // it can't be read now
  };
  virtual ~Recordings() = default;

  /// Of copies of other hosts' recordings: how old they are, and whose are missing.
  struct Gathered {
    struct Missing {
      std::string node;  // as it was asked
      std::string problem;
    };
    int64_t asked_ns = 0;  // UTC, when the nodes were asked: no copy is older
    size_t nodes = 0;      // that were asked
    std::vector<Missing> missing;
  };
  /// Whether they are copies, which gather() has to bring before they are asked for.
  [[nodiscard]] virtual bool are_copies() const { return false; }
  /// Brings the copies unless an earlier call did; `again`: in any case. Valid until a call brings others; null if they
  /// are no copies. An error: nothing was brought; earlier copies stay.
  virtual Result<const Gathered*> gather(bool /*again*/) { return nullptr; }

  /// In the order that they were given.
  virtual std::vector<Info> list() = 0;
  /// The current state of all; with `name`, of this one alone. Kept until the recordings change, unless one of them is
  /// being written. For one request: another asks again.
  virtual Result<std::shared_ptr<Snapshot>> snapshot(std::string_view name = {}) = 0;
  /// The current state of one, which no other caller is given. By several threads at once.
  virtual Result<std::shared_ptr<Snapshot>> own_snapshot(std::string_view name) = 0;
  struct QueryEnd {
    int64_t time_limit_ns = 0;
    const std::atomic<bool>* cancelled = nullptr;  // once it is set; null: only at the time limit
  };
  /// Runs one statement on one of them (store/query.h).
  virtual Status query(std::string_view name, std::string_view sql, const QueryEnd& end, RowSink& sink) = 0;
  /// One state of it as a file, for which a copy in `folder` may be needed (store/copy.h).
  virtual Result<UniqueFd> open_copy(std::string_view name, const std::string& folder) = 0;
};

/// Files, as `explain` reads them. A file is called by its base name where that is unique, else by its path. `notes`:
/// facts that each report is to have, beside those of reading.
std::unique_ptr<Recordings> recordings_in_files(std::vector<std::string> paths, std::vector<std::string> notes = {});

}  // namespace stalltrace::serve
