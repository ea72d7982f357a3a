// SPDX-License-Identifier: Apache-2.0
#include "fleet/push.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <expected>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/handle.h"
#include "base/net/loopback.h"
#include "base/text.h"
#include "fleet/resolve.h"
#include "serve/http/compressed_file.h"
#include "serve/json/json.h"

namespace stalltrace::fleet {
namespace {

constexpr std::string_view kSecure = "https://";
constexpr std::string_view kPlain = "http://";

/// One question.
class Push final : public Conversation {
 public:
  explicit Push(Question question) : question_(std::move(question)) {}
  Result<std::optional<Question>> next(Reply* last) override {
    if (last == nullptr) {
      return std::move(question_);
    }
    answer = std::move(last->body);
    return std::nullopt;
  }
  std::string answer;

 private:
  Question question_;
};

bool may_pass(const Progress& progress) {
  const bool answered = progress.status != 0;
  const bool later = progress.status >= 500 || progress.status == 408;
  return !progress.untrusted && (!answered || later);
}

std::expected<TakenIn, PushFailure> hold(Question question, NodeAddress node, ClientOptions options) {
  const int64_t begin_ns = monotonic_now_ns();
  std::vector<NodeAddress> nodes{std::move(node)};
  resolve(nodes, options.limit / 2);
  options.limit -=
      std::chrono::floor<std::chrono::milliseconds>(std::chrono::nanoseconds(monotonic_now_ns() - begin_ns));
  Push push(std::move(question));
  Conversation* conversation = &push;
  Status ended = std::move(converse(nodes, {&conversation, 1}, options).front());
  if (!ended) {
    Error error = std::move(ended.error());
    if (error.kind == ErrorKind::kInterrupted) {
      error.remedy = "allow more with --timeout";
    }
    return std::unexpected(PushFailure{.error = error, .may_pass = may_pass(push.progress)});
  }
  const auto json = serve::parse_json(push.answer, {.depth = 2, .values = 8, .members = 8});
  const serve::Json* name = json ? json->find("name") : nullptr;
  const serve::Json* was_there = json ? json->find("was_there") : nullptr;
  if (name == nullptr || name->text() == nullptr) {
    return std::unexpected(
        PushFailure{.error = {.what = "its answer is not that of a server that takes something in",
                              .remedy = "is it 'stalltrace serve --accept' that listens there, of the same version?"}});
  }
  return TakenIn{.name = printable(name->text()->substr(0, 256)),
                 .was_there = was_there != nullptr && was_there->boolean() != nullptr && *was_there->boolean()};
}

Result<std::shared_ptr<serve::CompressedFile>> compress(int file) {
  UniqueFd own(::fcntl(file, F_DUPFD_CLOEXEC, 0));
  if (!own) {
    return fail_errno("read the recording", errno);
  }
  return serve::CompressedFile::open(std::move(own));
}

Result<Question> recording_question(const Sendable& recording) {
  ST_ASSIGN(const auto pieces, compress(recording.file));
  Question question{.method = "POST", .target = "/v1/recordings"};
  question.upload = [pieces] { return pieces->next(); };
  question.upload_bytes = recording.compressed_bytes;
  question.headers = {{"Stalltrace-Bytes", fmt::format("{}", pieces->size_bytes())}};
  return question;
}

}  // namespace

bool is_url(std::string_view text) { return text.starts_with(kSecure) || text.starts_with(kPlain); }

Result<NodeAddress> parse_push_url(std::string_view text) {
  const bool secure = text.starts_with(kSecure);
  std::string_view item = text;
  while (item.size() > kSecure.size() && item.ends_with('/')) {
    item.remove_suffix(1);
  }
  const bool one = is_url(text) && item.find_first_of(",@") == std::string_view::npos;
  auto nodes = one ? parse_node_list(item) : Result<std::vector<NodeAddress>>(fail("", "", ErrorKind::kUsage));
  if (!nodes || nodes->size() != 1) {
    return fail(fmt::format("'{}' is not the address of one server", printable(text.substr(0, 200))),
                "write https://HOST:PORT", ErrorKind::kUsage);
  }
  if (!secure && !is_loopback(nodes->front().host)) {
    return fail(fmt::format("'{}' is not an address of this host", printable(text.substr(0, 200))),
                "write https://HOST:PORT; without TLS it is sent to a number of loopback alone", ErrorKind::kUsage);
  }
  return std::move(nodes->front());
}

Status check_push(const NodeAddress& server, const ClientOptions& options) {
  const bool known = !options.fingerprints.empty() || !options.authorities.empty();
  if (server.wants_tls && !known) {
    return fail("nothing is given by which that server's certificate could be known",
                "give the fingerprint that it prints with --tls-fingerprint, or --tls-ca", ErrorKind::kUsage);
  }
  if ((server.wants_tls || known ? options.token : options.plain_token).empty()) {
    return fail("a server takes nothing in without its token",
                server.wants_tls || known ? "give --token-file, or STALLTRACE_TOKEN" : "give --token-file",
                ErrorKind::kUsage);
  }
  return {};
}

Result<Sendable> prepare_to_send(int file) {
  ST_ASSIGN(const auto pieces, compress(file));
  Sendable recording{.file = file};
  for (;;) {
    ST_ASSIGN(const std::string piece, pieces->next());
    if (piece.empty()) {
      return recording;
    }
    recording.compressed_bytes += static_cast<int64_t>(piece.size());
  }
}

std::expected<TakenIn, PushFailure> push_recording(const Sendable& recording, NodeAddress node,
                                                   const ClientOptions& options) {
  auto question = recording_question(recording);
  if (!question) {
    return std::unexpected(PushFailure{.error = std::move(question.error()), .may_pass = true});
  }
  return hold(*std::move(question), std::move(node), options);
}

std::expected<TakenIn, PushFailure> push_findings(std::string lines, NodeAddress node, const ClientOptions& options) {
  return hold({.method = "POST", .target = "/v1/findings", .body = std::move(lines)}, std::move(node), options);
}

}  // namespace stalltrace::fleet
