// SPDX-License-Identifier: Apache-2.0
#include "fleet/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <exception>
#include <memory>
#include <tuple>

#include "base/net/loopback.h"
#include "base/process/descriptor_limit.h"
#include "base/text.h"
#include "base/version.h"
#include "fleet/resolve.h"
#include "serve/http/channel.h"
#include "serve/http/tls.h"
#include "serve/json/json.h"

namespace stalltrace::fleet {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::awaitable;
using serve::Channel;
using Tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;
using Parser = http::response_parser<http::string_body>;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr std::uint32_t kMostHeaderBytes = 16 << 10;
constexpr size_t kMostErrorBytes = 64 << 10;
constexpr size_t kMostUnread = 64 << 10;  // what the parser leaves: a header, or a part of one
constexpr size_t kReservedFiles = 64;
constexpr std::chrono::milliseconds kWhileBusy{100};
/// Of a pause that a server asks for. After 10 s without a request it closes the connection.
constexpr std::chrono::seconds kLeastAsked{1};
constexpr std::chrono::seconds kMostAsked{8};
constexpr int kGoOn = 100;  // HTTP's status
constexpr std::chrono::seconds kAfterLeader{2};

/// Such as one that no given authority signed, or that is another host's.
bool is_about_certificate(const ErrorCode& error) {
  return error.category() == asio::error::get_ssl_category() &&
         ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_CERTIFICATE_VERIFY_FAILED;
}

/// What a server says of a failure: {"error": ..., "remedy": ...}.
Error error_of(int status, const std::string& body) {
  const auto json = serve::parse_json(body, {.depth = 2, .values = 8, .members = 8});
  const auto text = [&](std::string_view name) -> std::string {
    const serve::Json* member = json ? json->find(name) : nullptr;
    return member == nullptr || member->text() == nullptr ? "" : printable(member->text()->substr(0, 2000));
  };
  Error error{.what = text("error"), .remedy = text("remedy")};
  if (error.what.empty()) {
    error.what = fmt::format("answers with status {}, and not as stalltrace does", status);
    error.remedy = "is it 'stalltrace serve' that listens there?";
  } else if (status == 400) {
    error.kind = ErrorKind::kUsage;
  }
  return error;
}

/// What to say of a conversation whose time is over.
std::string_view what_is_missing(Stage stage) {
  switch (stage) {
    case Stage::kConnecting:
      return "no connection";
    case Stage::kSecuring:
      return "no TLS handshake";
    case Stage::kAsking:
      return "no complete answer";
    case Stage::kBusy:
      return "nothing but that it is busy";
  }
  return "";
}

class Client {
 public:
  Client(std::span<const NodeAddress> nodes, std::span<Conversation* const> conversations, const ClientOptions& options)
      : nodes_(nodes), conversations_(conversations), options_(options), results_(nodes.size()) {}

  Status prepare() {
    serve::prepare_tls();
    tls_.emplace(asio::ssl::context::tls_client);
    SSL_CTX_set_min_proto_version(tls_->native_handle(), TLS1_2_VERSION);
    ErrorCode error;
    if (!options_.authorities.empty()) {
      tls_->add_certificate_authority(asio::buffer(options_.authorities), error);
      if (error) {
        return fail("the authorities' certificates can't be used: " + error.message(), "give certificates in PEM");
      }
    }
    const bool verify = options_.fingerprints.empty() && !options_.authorities.empty();
    tls_->set_verify_mode(verify ? asio::ssl::verify_peer : asio::ssl::verify_none, error);
    return {};
  }

  std::vector<Status> run() {
    static_cast<void>(allow_open_files(nodes_.size() + kReservedFiles, "connections", ""));
    end_ = std::chrono::steady_clock::now() + options_.limit;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      conversations_[i]->progress = {};
      asio::co_spawn(io_, converse(i), [this, i](std::exception_ptr failure, Status status) {
        results_[i] = failure ? Status(fail("no memory is left for its answer", "ask for less")) : std::move(status);
        if (!*results_[i]) {
          conversations_[i]->on_failure();
        }
        end(i);
      });
    }
    io_.run_for(options_.limit);
    std::vector<Status> all;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const std::string_view missing = what_is_missing(conversations_[i]->progress.stage);
      const std::string late = led_ ? fmt::format("{} when the others were done", missing)
                                    : fmt::format("{} within {}", missing,
                                                  format_duration(std::chrono::nanoseconds(options_.limit).count()));
      if (!results_[i]) {
        results_[i] = fail(late, "allow more with --node-timeout", ErrorKind::kInterrupted);
        conversations_[i]->on_failure();
      }
      all.push_back(*std::move(results_[i]));
    }
    return all;
  }

 private:
  /// After each conversation. The leader's bounds those that are left.
  void end(size_t i) {
    ++ended_;
    if (options_.leader == i) {
      led_ = true;
      after_leader_.expires_after(kAfterLeader);
      after_leader_.async_wait([this](ErrorCode error) { error ? void() : io_.stop(); });
    }
    if (ended_ == nodes_.size()) {
      after_leader_.cancel();
    }
  }

  /// To reach one of a node's addresses. In a shared pointer, as its timer may fire once more.
  struct Attempt : std::enable_shared_from_this<Attempt> {
    explicit Attempt(asio::io_context& io) : socket(io), timer(io) {}
    void expires_after(std::chrono::steady_clock::duration limit) {
      timer.expires_after(limit);
      timer.async_wait([self = shared_from_this()](ErrorCode cancelled) {
        if (!cancelled && !self->finished) {
          self->late = true;
          ErrorCode ignored;
          self->socket.close(ignored);
        }
      });
    }
    /// Once the connection is there, or is not. False: it took too long.
    bool finish() {
      finished = true;
      timer.cancel();
      return !late;
    }
    Tcp::socket socket;
    asio::steady_timer timer;
    bool finished = false;
    bool late = false;
  };

  /// An address that drops what is sent to it leaves the others their share of the time.
  awaitable<Status> converse(size_t i) {
    const NodeAddress& node = nodes_[i];
    Progress& progress = conversations_[i]->progress;
    if (node.addresses.empty()) {
      co_return fail(node.problem, node.remedy);
    }
    std::shared_ptr<Attempt> attempt;
    ErrorCode error;
    std::string used;
    for (size_t at = 0; at < node.addresses.size(); ++at) {
      used = node.addresses[at];
      attempt = std::make_shared<Attempt>(io_);
      const Tcp::endpoint end(asio::ip::make_address(used, error), node.port);
      if (const auto left = static_cast<int64_t>(node.addresses.size() - at); left > 1) {
        attempt->expires_after((end_ - std::chrono::steady_clock::now()) / left);
      }
      std::tie(error) = co_await attempt->socket.async_connect(end, kAwait);
      error = attempt->finish() ? error : ErrorCode(asio::error::timed_out);
      progress.connect_error = error.value();
      if (!error) {
        break;
      }
    }
    if (error) {
      co_return fail(error.message(), "is 'stalltrace serve' running there?");
    }
    const bool tls =
        node.wants_tls || !options_.fingerprints.empty() || !options_.authorities.empty() || !is_loopback(used);
    progress.stage = Stage::kSecuring;
    const auto channel = serve::make_channel(std::move(attempt->socket), tls ? &*tls_ : nullptr);
    if (error = co_await channel->connect_tls(node.host); error) {
      progress.untrusted = is_about_certificate(error);
      co_return fail("TLS: " + error.message(),
                     "is it 'stalltrace serve' with TLS, and its certificate one that you trust?");
    }
    if (Status trusted = tls ? judge(channel->peer_certificate()) : Status(); !trusted) {
      progress.untrusted = true;
      co_return trusted;
    }
    progress.stage = Stage::kAsking;
    co_return co_await ask(*channel, i, tls);
  }

  [[nodiscard]] Status judge(const std::string& certificate) const {
    const std::string fingerprint = serve::fingerprint_of(certificate);
    if (options_.fingerprints.empty() && options_.authorities.empty()) {
      return fail(fmt::format("nothing shows that its certificate ({}) is the right one", fingerprint),
                  "compare it with what the server printed, and give it with --tls-fingerprint; or give --tls-ca");
    }
    if (!options_.fingerprints.empty() &&
        std::ranges::find(options_.fingerprints, fingerprint) == options_.fingerprints.end()) {
      return fail(fmt::format("its certificate has the fingerprint {}, which was not given", fingerprint),
                  "compare it with what the server printed");
    }
    return {};
  }

  /// Until a busy server is asked again.
  using Pause = std::chrono::steady_clock::duration;

  awaitable<Status> ask(Channel& channel, size_t i, bool secured) {
    Conversation& conversation = *conversations_[i];
    std::string received;
    std::optional<Reply> last;
    for (;;) {
      auto question = conversation.next(last ? &*last : nullptr);
      if (!question) {
        co_return std::unexpected(std::move(question.error()));
      }
      if (!*question) {
        co_return Status();
      }
      for (std::optional<Pause> busy = Pause(); busy;) {
        last.emplace();
        last->sent_ns = options_.clock.now_ns();
        if (co_await channel.write(text_of(**question, nodes_[i], secured))) {
          co_return fail("it closed the connection", "ask again");
        }
        busy.reset();
        Status got = co_await receive(channel, received, **question, *last, busy);
        if (got && last->status == kGoOn) {
          got = co_await send_upload(channel, received, **question, *last, busy);
        }
        conversation.progress.status = last->status;
        if (!got && !busy) {
          if (!(*question)->may_be_refused || got.error().kind != ErrorKind::kUsage) {
            co_return got;
          }
          last->refused = std::move(got.error());
        }
        conversation.progress.stage = busy ? Stage::kBusy : Stage::kAsking;
        if (busy) {
          asio::steady_timer pause(io_, *busy);
          co_await pause.async_wait(kAwait);
        }
      }
    }
  }

  /// What was asked for, then the answer; the answer alone where it comes before the end, as of a full disk.
  awaitable<Status> send_upload(Channel& channel, std::string& received, const Question& question, Reply& reply,
                                std::optional<Pause>& busy) {
    const int64_t sent_ns = reply.sent_ns;
    reply = Reply{};
    reply.sent_ns = sent_ns;
    Status sent;
    for (int64_t left = question.upload_bytes; sent && left > 0;) {
      const Result<std::string> piece = question.upload();
      if (!piece) {
        co_return std::unexpected(piece.error());
      }
      left -= static_cast<int64_t>(piece->size());
      if (piece->empty() || left < 0) {
        co_return fail("what is to be sent has changed", "try again");
      }
      if (co_await channel.write(*piece)) {
        sent = fail("it closed the connection", "try again");
      }
    }
    Status got = co_await receive(channel, received, question, reply, busy);
    if (reply.status == kGoOn) {
      co_return fail("what it sends is not an answer", "is it 'stalltrace serve' that listens there?");
    }
    co_return !sent && reply.status == 0 ? sent : got;
  }

  [[nodiscard]] std::string text_of(const Question& question, const NodeAddress& node, bool secured) const {
    std::string text = fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: stalltrace/{}\r\nAccept: */*\r\n",
                                   question.method, question.target, host_of(node), program_version());
    // Any user of this host can own a port of loopback.
    const std::string token = secured ? options_.token : is_loopback(node.host) ? options_.plain_token : "";
    if (!token.empty()) {
      text += fmt::format("Authorization: Bearer {}\r\n", token);
    }
    for (const auto& [name, value] : question.headers) {
      text += fmt::format("{}: {}\r\n", name, value);
    }
    if (question.upload) {
      text += fmt::format("Content-Type: application/zstd\r\nContent-Length: {}\r\nExpect: 100-continue\r\n",
                          question.upload_bytes);
    } else if (question.method == "POST") {
      text += fmt::format("Content-Type: text/plain\r\nContent-Length: {}\r\n", question.body.size());
    }
    return text + "\r\n" + question.body;
  }

  /// A server on loopback takes this host's own names and numbers alone.
  static std::string host_of(const NodeAddress& node) {
    return is_loopback(node.addresses.front()) ? "localhost" : node.shown();
  }

  /// `busy`: set if the server asks to come back later.
  awaitable<Status> receive(Channel& channel, std::string& received, const Question& question, Reply& reply,
                            std::optional<Pause>& busy) {
    Parser parser;
    parser.header_limit(kMostHeaderBytes);
    parser.body_limit(std::max(question.most_bytes, kMostErrorBytes));
    parser.eager(true);
    bool ended = false;
    bool announced = false;
    while (!parser.is_done()) {
      ErrorCode error;
      const size_t taken = received.empty() ? 0 : parser.put(asio::buffer(received), error);
      received.erase(0, taken);
      if (error == http::error::body_limit) {
        co_return fail(
            fmt::format("its answer is larger than {}", format_size(static_cast<int64_t>(question.most_bytes))),
            "ask for less", ErrorKind::kCorrupt);
      }
      if (error && error != http::error::need_more) {
        co_return fail("what it sends is not an answer in HTTP: " + error.message(),
                       "is it 'stalltrace serve' that listens there?", ErrorKind::kCorrupt);
      }
      if (received.size() > kMostUnread) {
        co_return fail("what it sends is not an answer in HTTP: a chunk's header, or a trailer, without end",
                       "is it 'stalltrace serve' that listens there?", ErrorKind::kCorrupt);
      }
      if (question.announced && !announced && parser.is_header_done() && parser.get().result_int() == 200) {
        announced = true;
        const auto size = parser.get()["Stalltrace-Bytes"];
        const auto bytes = parse_integer({size.data(), size.size()});
        if (Status fits = question.announced(bytes ? std::optional(*bytes) : std::nullopt); !fits) {
          co_return fits;
        }
      }
      Result<bool> more = take_in(parser, question, reply);
      while (more && *more) {
        co_await asio::post(io_, kAwait);
        more = question.sink("");
      }
      if (!more) {
        co_return std::unexpected(std::move(more.error()));
      }
      if (parser.is_done()) {
        break;
      }
      if (ended) {
        co_return fail("it closed the connection before the end of its answer", "ask again", ErrorKind::kCorrupt);
      }
      if (co_await channel.read(received)) {
        ended = true;  // what came last is still looked at
      }
    }
    reply.received_ns = options_.clock.now_ns();
    reply.status = static_cast<int>(parser.get().result_int());
    if (reply.status == 503 && parser.keep_alive()) {
      busy = pause_of(parser);
    }
    if (reply.status == kGoOn && question.upload) {
      co_return Status();
    }
    if (reply.status != 200) {
      co_return std::unexpected(error_of(reply.status, reply.body));
    }
    for (const auto& field : parser.get()) {
      std::string name(field.name_string().data(), field.name_string().size());
      std::ranges::transform(name, name.begin(),
                             [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
      reply.headers[name] = std::string(field.value().data(), field.value().size());
    }
    co_return Status();
  }

  /// What the server asks for with Retry-After; but a node is asked again before the time is over.
  [[nodiscard]] Pause pause_of(const Parser& parser) const {
    const auto text = parser.get()["Retry-After"];
    const auto seconds = parse_integer({text.data(), text.size()});
    if (!seconds || *seconds <= 0) {
      return kWhileBusy;
    }
    const Pause asked = std::chrono::seconds(std::min<int64_t>(*seconds, kMostAsked.count()));
    const Pause left = end_ - std::chrono::steady_clock::now();
    return std::min<Pause>(asked, std::max<Pause>(left / 2, kLeastAsked));
  }

  /// Moves what the parser has of the body to where it belongs. True: the sink has more to do.
  Result<bool> take_in(Parser& parser, const Question& question, Reply& reply) {
    if (!parser.is_header_done()) {
      return false;
    }
    std::string& body = parser.get().body();
    if (question.sink && parser.get().result_int() == 200) {
      Result<bool> taken = body.empty() ? Result<bool>(false) : question.sink(body);
      body.clear();
      return taken;
    }
    kept_ += body.size();
    reply.body += body;
    body.clear();
    if (parser.get().result_int() != 200 && reply.body.size() > kMostErrorBytes) {
      return fail(fmt::format("its report of a failure is larger than {}", format_size(kMostErrorBytes)),
                  "is it 'stalltrace serve' that listens there?", ErrorKind::kCorrupt);
    }
    if (kept_ > options_.most_together) {
      return fail(fmt::format("the answers of all nodes together exceed {}",
                              format_size(static_cast<int64_t>(options_.most_together))),
                  "ask for less, or fewer nodes at a time");
    }
    return false;
  }

  std::span<const NodeAddress> nodes_;
  std::span<Conversation* const> conversations_;
  const ClientOptions& options_;
  std::vector<std::optional<Status>> results_;
  std::chrono::steady_clock::time_point end_;
  size_t kept_ = 0;
  std::optional<asio::ssl::context> tls_;
  size_t ended_ = 0;
  bool led_ = false;        // the leader's conversation has ended
  asio::io_context io_{1};  // after the others: what waits in it uses them
  asio::steady_timer after_leader_{io_};
};

}  // namespace

std::vector<Status> converse(std::span<const NodeAddress> nodes, std::span<Conversation* const> conversations,
                             const ClientOptions& options) {
  Client client(nodes, conversations, options);
  if (Status ready = client.prepare(); !ready) {
    return std::vector<Status>(nodes.size(), ready);
  }
  return client.run();
}

}  // namespace stalltrace::fleet
