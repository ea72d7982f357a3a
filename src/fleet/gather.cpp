// SPDX-License-Identifier: Apache-2.0
#include "fleet/gather.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/text.h"
#include "fleet/node_info.h"
#include "serve/accept/received_file.h"
#include "serve/http_message.h"
#include "store/recording_state.h"

namespace stalltrace::fleet {
namespace {

constexpr int64_t kShareOfOne = 4;  // one of several nodes may take a quarter of the room

/// First what the node serves, then each of its recordings.
class RecordingsConversation final : public Conversation {
 public:
  RecordingsConversation(std::string path, int64_t& room_bytes, int64_t most_bytes)
      : path_(std::move(path)), room_bytes_(room_bytes), most_bytes_(most_bytes) {}

  Result<std::optional<Question>> next(Reply* last) override {
    if (last == nullptr) {
      return Question{.target = "/v1/node"};
    }
    if (names_.empty()) {
      ST_ASSIGN(const NodeInfo info, parse_node_info(last->body));
      for (const RecordingInfo& recording : info.recordings) {
        if (!recording.problem.empty()) {
          return fail(printable(recording.problem), "see on that node");
        }
        names_.push_back(recording.name);
      }
      if (names_.empty()) {
        return fail("it serves no recording", "start 'stalltrace serve FILE' there");
      }
    } else {
      Status usable = file_->finish();
      if (usable) {
        usable = check(files.back());
      }
      if (!usable) {
        remove_files();
        return std::unexpected(std::move(usable.error()));
      }
    }
    if (files.size() == names_.size()) {
      file_.reset();
      return std::nullopt;
    }
    files.push_back(fmt::format("{}{}.db", path_, files.empty() ? "" : fmt::format("-{}", files.size() + 1)));
    ST_ASSIGN(file_, serve::ReceivedFile::create(files.back(), std::min(room_bytes_, most_bytes_)));
    Question question{.target = "/v1/recording?recording=" + serve::percent_encoded(names_[files.size() - 1])};
    question.most_bytes = static_cast<size_t>(std::min(room_bytes_, most_bytes_));
    question.announced = [this](std::optional<int64_t> bytes) -> Status {
      if (!bytes) {
        return fail("it does not report how large its recording is", "use the same version of stalltrace on both sides",
                    ErrorKind::kCorrupt);
      }
      ST_TRY(file_->announce(*bytes));
      most_bytes_ -= *bytes;
      return *bytes > room_bytes_ ? no_room() : Status();
    };
    question.sink = [this](std::string_view bytes) { return take(bytes); };
    return question;
  }

  void on_failure() override { remove_files(); }

  std::vector<std::string> files;
  int64_t moved_bytes = 0;

 private:
  /// Room is taken by what arrives: what a node only announces keeps no other node out.
  Result<bool> take(std::string_view bytes) {
    moved_bytes += static_cast<int64_t>(bytes.size());
    const int64_t before_bytes = file_->size_bytes();
    Result<bool> more = file_->add(bytes);
    const int64_t arrived_bytes = file_->size_bytes() - before_bytes;
    taken_bytes_ += arrived_bytes;
    room_bytes_ -= arrived_bytes;
    if (more && room_bytes_ < 0) {
      more = std::unexpected(no_room().error());
    }
    if (!more) {
      remove_files();
    }
    return more;
  }

  static Status no_room() {
    return fail("the recordings of all nodes together are larger than what is taken", "ask fewer nodes at a time");
  }

  /// Of a node that has failed: others have their room.
  void remove_files() {
    file_.reset();
    for (const std::string& file : files) {
      ::unlink(file.c_str());
    }
    room_bytes_ += std::exchange(taken_bytes_, 0);
  }

  /// Each alone and at once: one that can't be read must not spoil the analysis of the others.
  static Status check(const std::string& file) {
    Status checked = store::check_recording(file, "the recording that it sends");
    if (!checked) {
      checked.error().remedy = "see on that node: stalltrace explain FILE";
    }
    return checked;
  }

  std::string path_;
  int64_t& room_bytes_;  // left for all nodes
  int64_t most_bytes_;   // left for this one
  int64_t taken_bytes_ = 0;
  std::vector<std::string> names_;
  std::unique_ptr<serve::ReceivedFile> file_;
};

/// A name for a file, which messages show: the node's address without what is special in paths.
std::string file_name(std::string address) {
  for (char& c : address) {
    c = c == ':' || c == '[' || c == ']' || c == '/' ? '_' : c;
  }
  return address;
}

}  // namespace

Gathered gather_recordings(std::span<const NodeAddress> nodes, const GatherOptions& options) {
  int64_t room_bytes = options.most_bytes;
  const int64_t most_bytes = nodes.size() == 1 ? room_bytes : room_bytes / kShareOfOne;
  std::vector<std::unique_ptr<RecordingsConversation>> asked;
  std::vector<Conversation*> conversations;
  for (const NodeAddress& node : nodes) {
    asked.push_back(std::make_unique<RecordingsConversation>(options.folder + "/" + file_name(node.shown()), room_bytes,
                                                             most_bytes));
    conversations.push_back(asked.back().get());
  }
  std::vector<Status> ended = converse(nodes, conversations, options.client);
  Gathered gathered;
  for (size_t i = 0; i < nodes.size(); ++i) {
    gathered.moved_bytes += asked[i]->moved_bytes;
    if (ended[i]) {
      gathered.files.insert(gathered.files.end(), asked[i]->files.begin(), asked[i]->files.end());
      continue;
    }
    gathered.failed.push_back({nodes[i].shown(), std::move(ended[i].error())});
  }
  return gathered;
}

}  // namespace stalltrace::fleet
