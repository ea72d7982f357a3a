// SPDX-License-Identifier: Apache-2.0
#include "fleet/rows/rows_conversation.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "model/source.h"
#include "serve/http_message.h"

namespace stalltrace::fleet {
namespace {

/// Above the pieces of a server: that there is no room is seen here, and not by the client.
constexpr int64_t kBeyondRoom = 1 << 20;

constexpr std::array kLaterTables{EventTraits<Competitor>::kTable, EventTraits<GraphUse>::kTable,
                                  EventTraits<ClockReading>::kTable};

/// True if there were some.
bool remove_later_tables(serve::RowsRequest& request) {
  return std::erase_if(request.reads, [](const serve::RowsRequest::Read& read) {
           return std::ranges::find(kLaterTables, read.table) != kLaterTables.end();
         }) > 0;
}

Status no_room() {
  return fail("the rows of all nodes together take more than are kept here",
              "give fewer nodes, or look at it on that node: stalltrace explain FILE");
}

}  // namespace

std::span<const std::string_view> later_tables() { return kLaterTables; }

Result<std::optional<Question>> RowsConversation::next(Reply* last) {
  if (last != nullptr && last->refused) {
    if (!may_be_older_ && !asks_one_table_) {
      return std::unexpected(std::move(*last->refused));
    }
    if (!asks_one_table_) {
      is_older_ = true;
      received.pop_back();
    }
  } else if (last != nullptr) {
    ST_TRY(received.back().second.finish());
  }
  if (received.size() == wanted_.size()) {
    return std::nullopt;
  }
  const Wanted& wanted = wanted_[received.size()];
  const int64_t most = std::max<int64_t>(most_bytes_, 0);
  received.emplace_back(wanted.recording, ReceivedRows(wanted.request, {.bytes = most}));
  serve::RowsRequest known = wanted.request;
  may_be_older_ = remove_later_tables(known) && !is_older_;
  asks_one_table_ = wanted.request.reads.size() == 1;
  Question question{.method = "POST",
                    .target = "/v1/rows?recording=" + serve::percent_encoded(wanted.name),
                    .body = serve::to_json(is_older_ ? known : wanted.request),
                    .most_bytes = static_cast<size_t>(most + kBeyondRoom)};
  question.may_be_refused = may_be_older_ || asks_one_table_;
  question.sink = [this](std::string_view bytes) { return take(bytes); };
  return question;
}

/// Question::sink: takes a piece of the answer.
Result<bool> RowsConversation::take(std::string_view bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  moved_bytes += size;
  most_bytes_ -= size;
  taken_bytes_ += size;
  room_.bytes -= size;
  Status taken = room_.bytes < 0 ? no_room() : received.back().second.add(bytes);
  if (!taken) {
    found_no_room = room_.bytes < 0 || most_bytes_ < 0;
    on_failure();
    return std::unexpected(std::move(taken.error()));
  }
  return false;
}

void RowsConversation::on_failure() {
  room_.bytes += std::exchange(taken_bytes_, 0);
  received.clear();
}

Result<std::optional<Question>> OpeningConversation::next(Reply* last) {
  if (rows) {
    return rows->next(last);
  }
  ST_ASSIGN(std::optional<Question> question, about.next(last));
  if (question) {
    return question;
  }
  std::vector<RowsConversation::Wanted> wanted;
  for (const RecordingInfo& recording : about.info.recordings) {
    if (!recording.problem.empty()) {
      return fail(printable(recording.problem), "see on that node");
    }
    wanted.push_back({.recording = wanted.size(), .name = recording.name, .request = request_});
  }
  if (wanted.empty()) {
    return fail("it serves no recording", "start 'stalltrace serve FILE' there");
  }
  rows.emplace(std::move(wanted), room_, most_bytes_);
  return rows->next(nullptr);
}

void OpeningConversation::on_failure() {
  if (rows) {
    rows->on_failure();
  }
}

}  // namespace stalltrace::fleet
