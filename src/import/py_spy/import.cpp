// SPDX-License-Identifier: Apache-2.0
// Dumps of py-spy as events: a file is a node, since a dump names no host.
#include <fmt/format.h>

#include <set>

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "import/evidence.h"
#include "import/file_node.h"
#include "import/lines.h"
#include "import/py_spy/dump.h"
#include "import/read_files.h"
#include "model/events/imported_evidence.h"

namespace stalltrace::import {
namespace {

constexpr size_t kHeadBytes = 4096;
constexpr size_t kLargestJson = size_t{64} << 20;
constexpr uint64_t kMostThreads = 100'000;  // of all files

class Import {
 public:
  Import(EventSink& sink, const Note& note) : sink_(sink), note_(note) {}

  Status read(const std::string& path) {
    ST_ASSIGN(LineReader lines, LineReader::open(path));
    ST_ASSIGN(const std::string head, read_file(path, kHeadBytes));
    node_ = nodes_.make(path, "py_spy");
    damaged_ = left_out_ = 0;
    const auto take = [&](const DumpedThread& thread) { deliver(thread); };
    if (is_py_spy_json(head)) {
      ST_TRY(read_json_dump(path, take));
    } else {
      PySpyLines dump(take);
      std::string scratch;
      while (const auto line = lines.next()) {
        dump.read(without_escapes(line->text, scratch));
      }
      dump.finish();
      damaged_ = dump.damaged();
      if (lines.failed()) {
        note_(fmt::format("{}: could not be read to its end", path));
      }
      if (damaged_ > 0) {
        note_(fmt::format("{}: {} damaged (a frame that is cut off, or a thread without its process)", path,
                          count_of(damaged_, "line")));
      }
    }
    finish();
    ++summary_.files;
    return {};
  }

  void refuse(const std::string& path) {
    node_ = nodes_.make(path, "py_spy");
    damaged_ = 1;
    left_out_ = 0;
    finish();
  }
  [[nodiscard]] const Summary& summary() const { return summary_; }

 private:
  Status read_json_dump(const std::string& path, const TakeThread& take) {
    ST_ASSIGN(std::string bytes, read_whole(path, kLargestJson));
    auto cut = read_py_spy_json(std::move(bytes), take);
    if (!cut) {
      return with_context(path, std::move(cut.error()));
    }
    if (!cut->empty()) {
      damaged_ = 1;
      note_(fmt::format("{}: {}; what was before is kept", path, *cut));
    }
    return {};
  }

  void deliver(const DumpedThread& thread) {
    if (summary_.rows >= kMostThreads) {
      ++left_out_;
      return;
    }
    ++summary_.rows;
    PythonStack row{.node_id = node_.node_id, .timestamp_ns = node_.started_ns, .pid = thread.pid};
    row.rank_pid = thread.pid;
    row.tid = thread.tid == 0 && thread.main ? thread.pid : thread.tid;
    row.activity = thread.status;
    if (thread.frames.empty()) {
      row.problem = "no Python frames";
    } else {
      const std::string text = frames_to_text(thread.frames);
      row.stack_id = static_cast<int64_t>(splitmix64_text(text) >> 1);  // ids are positive
      if (stacks_.insert(row.stack_id).second) {
        sink_.accept(Stack{row.stack_id, text});
      }
    }
    sink_.accept(std::move(row));
  }

  void finish() {
    node_.missing_evidence = fmt::format("{} {}", kLacksDurations, kLacksCalls);
    for (const auto& [source, count] :
         {std::pair("py_spy:damaged_lines", damaged_), std::pair("py_spy:threads_not_kept", left_out_)}) {
      if (count > 0) {
        sink_.accept(Loss{node_.node_id, source, static_cast<uint64_t>(count)});
      }
    }
    sink_.accept(node_);
    ++summary_.nodes;
  }

  EventSink& sink_;
  const Note& note_;
  Summary summary_;
  FileNodes nodes_;
  std::set<int64_t> stacks_;
  // Of the file that is being read:
  Node node_;
  int64_t damaged_ = 0;
  int64_t left_out_ = 0;
};

}  // namespace

Result<Summary> import_py_spy(std::span<const std::string> paths, EventSink& sink, const Note& note,
                              const Options& /*options*/) {
  Import import(sink, note);
  ST_TRY(read_files(import, paths, note, "no py-spy dump"));
  return import.summary();
}

}  // namespace stalltrace::import
