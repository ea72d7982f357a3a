// SPDX-License-Identifier: Apache-2.0
// Conversations that bring rows of a node's recordings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fleet/client.h"
#include "fleet/node_info.h"
#include "fleet/rows/received_rows.h"
#include "serve/rows/rows_request.h"

namespace stalltrace::fleet {

/// Tables that a server of an older version does not know: it refuses the whole request. They are to be the last ones
/// of a request, so that without them the others have the same numbers.
std::span<const std::string_view> later_tables();

/// Of what all nodes may send together, what is left. They answer at the same time.
struct Room {
  int64_t bytes = 0;
};

/// Asks a node for rows of its recordings, one after the other. Tables that it does not know are empty.
class RowsConversation final : public Conversation {
 public:
  struct Wanted {
    size_t recording = 0;  // an index of the caller
    std::string name;
    serve::RowsRequest request;
  };
  /// `room` outlives it. `most_bytes`: what this node may send.
  RowsConversation(std::vector<Wanted> wanted, Room& room, int64_t most_bytes)
      : wanted_(std::move(wanted)), room_(room), most_bytes_(most_bytes) {}

  Result<std::optional<Question>> next(Reply* last) override;
  /// The rows are of no use then, and others have their room.
  void on_failure() override;

  std::vector<std::pair<size_t, ReceivedRows>> received;
  int64_t moved_bytes = 0;
  bool found_no_room = false;  // it failed for that alone

 private:
  Result<bool> take(std::string_view bytes);

  std::vector<Wanted> wanted_;
  Room& room_;
  int64_t most_bytes_;         // left for this one
  int64_t taken_bytes_ = 0;    // of the room
  bool is_older_ = false;      // it refused tables of later versions
  bool may_be_older_ = false;  // it may refuse the last question for those
  /// The last question does: a version without that table refuses it.
  bool asks_one_table_ = false;
};

/// What a node serves and its clocks, then the same rows of each of its recordings.
class OpeningConversation final : public Conversation {
 public:
  OpeningConversation(serve::RowsRequest request, Room& room, int64_t most_bytes)
      : request_(std::move(request)), room_(room), most_bytes_(most_bytes) {}

  Result<std::optional<Question>> next(Reply* last) override;
  void on_failure() override;

  InfoConversation about;
  std::optional<RowsConversation> rows;

 private:
  serve::RowsRequest request_;
  Room& room_;
  int64_t most_bytes_;
};

}  // namespace stalltrace::fleet
