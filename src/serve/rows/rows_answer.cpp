// SPDX-License-Identifier: Apache-2.0
#include "serve/rows/rows_answer.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "analysis/evidence/reads/evidence_reads.h"
#include "serve/json/json.h"
#include "serve/rows/row_frames.h"
#include "serve/rows/spool.h"
#include "store/rows/row_block.h"

namespace stalltrace::serve {
namespace {

constexpr const char* kLaterSeconds = "5";  // each time all rows are read: not as often as clients like

Json end_of(const Snapshot& snapshot) {
  const Snapshot::ReadNotes read = snapshot.read_notes();
  Json notes = Json::array();
  std::ranges::for_each(read.notes, [&](const std::string& note) { notes.push_back(note); });
  Json end = Json::object({{"rows_left_out", read.rows_left_out}});
  end.set("notes", std::move(notes));
  return end;
}

/// All that is asked for, as frames.
Status write_frames(Snapshot& snapshot, const RowsRequest& request, const std::atomic<bool>* gone, Spool& spool) {
  analysis::NarrowedSource narrowed(snapshot.source(), analysis::IntervalSet(request.windows), request.shifts_ns);
  for (size_t i = 0; i < request.reads.size(); ++i) {
    const RowsRequest::Read& read = request.reads[i];
    const auto put = [&](FrameKind kind, std::string_view content) -> Status {
      if (gone != nullptr && *gone) {
        return fail("no client waits for these rows");
      }
      ST_TRY(spool.add(frame_head(kind, content.size())));
      return spool.add(content);
    };
    const store::RowBlockSink sink{.header =
                                       [&](std::string_view columns) {
                                         return put(FrameKind::kHeader,
                                                    frame_of_header(static_cast<uint32_t>(i), columns));
                                       },
                                   .block = [&](std::string_view block) { return put(FrameKind::kBlock, block); }};
    EventSource& source = read.narrow ? static_cast<EventSource&>(narrowed) : snapshot.source();
    ST_TRY(store::write_row_blocks(source, read.table, read.range, sink, read.after));
  }
  const std::string end = end_of(snapshot).dump();
  return spool.add(frame_head(FrameKind::kEnd, end.size()) + end);
}

}  // namespace

Result<HttpAnswer> rows_answer(Snapshot& snapshot, const RowsRequest& request, const RowsAnswerOptions& options) {
  const auto spool =
      std::make_shared<Spool>(options.folder, options.room ? options.room : std::make_shared<SpoolRoom>());
  if (Status written = write_frames(snapshot, request, options.gone, *spool); !written) {
    const std::optional<int> status = spool->refused_with();
    if (!status) {
      return std::unexpected(std::move(written.error()));
    }
    HttpAnswer refusal = answer_of_error(*status, written.error().what, written.error().remedy);
    if (*status == Spool::kLater) {
      refusal.headers.emplace_back("Retry-After", kLaterSeconds);
    }
    return refusal;
  }
  HttpAnswer answer{.content_type = "application/octet-stream"};
  answer.takes_room = true;
  answer.next_piece = [spool] { return spool->next(); };
  return answer;
}

}  // namespace stalltrace::serve
