// SPDX-License-Identifier: Apache-2.0
#include "serve/rows/rows_answer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "analysis/evidence/reads/evidence_reads.h"
#include "base/files/own_folder.h"
#include "base/handle.h"
#include "base/io/write_all.h"
#include "serve/json/json.h"
#include "serve/rows/row_frames.h"
#include "store/rows/row_block.h"

namespace stalltrace::serve {
namespace {

constexpr size_t kMostInMemory = 4 << 20;
constexpr size_t kPieceBytes = 256 << 10;

/// Bytes that are written once and then read once. Where they are many, they lie in a file without a name.
class Spool {
 public:
  explicit Spool(std::string folder) : folder_(std::move(folder)) {}

  Status add(std::string_view bytes) {
    kept_ += bytes;
    return kept_.size() > kMostInMemory ? write_out() : Status();
  }
  Result<std::string> next() {
    if (read_bytes_ < written_bytes_) {
      std::string piece(std::min<size_t>(kPieceBytes, written_bytes_ - read_bytes_), '\0');
      const ssize_t got = ::pread(file_.get(), piece.data(), piece.size(), static_cast<off_t>(read_bytes_));
      if (got <= 0) {
        return fail_errno("read the rows", got < 0 ? errno : EIO);
      }
      piece.resize(static_cast<size_t>(got));
      read_bytes_ += piece.size();
      return piece;
    }
    std::string piece = kept_.substr(taken_, kPieceBytes);
    taken_ += piece.size();
    return piece;
  }

 private:
  Status write_out() {
    if (folder_.empty()) {
      return {};
    }
    if (!file_) {
      const std::string name = folder_ + "/" + random_letters(12) + ".rows";
      file_ = UniqueFd(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
      if (!file_) {
        return fail_errno("keep the rows", errno, "set TMPDIR to a folder that can be written");
      }
      ::unlink(name.c_str());
    }
    if (!write_all(file_.get(), kept_)) {
      return fail_errno("keep the rows", errno, "set TMPDIR to a folder with more room");
    }
    written_bytes_ += kept_.size();
    kept_.clear();
    return {};
  }

  std::string folder_;
  std::string kept_;
  size_t taken_ = 0;
  UniqueFd file_;
  size_t written_bytes_ = 0;
  size_t read_bytes_ = 0;
};

Json end_of(const Snapshot& snapshot) {
  const Snapshot::ReadNotes read = snapshot.read_notes();
  Json notes = Json::array();
  std::ranges::for_each(read.notes, [&](const std::string& note) { notes.push_back(note); });
  Json end = Json::object({{"rows_left_out", read.rows_left_out}});
  end.set("notes", std::move(notes));
  return end;
}

}  // namespace

Result<HttpAnswer> rows_answer(Snapshot& snapshot, const RowsRequest& request, const RowsAnswerOptions& options) {
  const auto spool = std::make_shared<Spool>(options.folder);
  analysis::NarrowedSource narrowed(snapshot.source(), analysis::IntervalSet(request.windows), request.shifts_ns);
  for (size_t i = 0; i < request.reads.size(); ++i) {
    const RowsRequest::Read& read = request.reads[i];
    const auto put = [&](FrameKind kind, std::string_view content) -> Status {
      if (options.gone != nullptr && *options.gone) {
        return fail("no client waits for these rows");
      }
      ST_TRY(spool->add(frame_head(kind, content.size())));
      return spool->add(content);
    };
    const store::RowBlockSink sink{.header =
                                       [&](std::string_view columns) {
                                         return put(FrameKind::kHeader,
                                                    frame_of_header(static_cast<uint32_t>(i), columns));
                                       },
                                   .block = [&](std::string_view block) { return put(FrameKind::kBlock, block); }};
    EventSource& source = read.narrow ? static_cast<EventSource&>(narrowed) : snapshot.source();
    ST_TRY(store::write_row_blocks(source, read.table, read.range, sink));
  }
  const std::string end = end_of(snapshot).dump();
  ST_TRY(spool->add(frame_head(FrameKind::kEnd, end.size()) + end));
  HttpAnswer answer{.content_type = "application/octet-stream"};
  answer.next_piece = [spool] { return spool->next(); };
  return answer;
}

}  // namespace stalltrace::serve
