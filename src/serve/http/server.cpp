// SPDX-License-Identifier: Apache-2.0
#include "serve/http/server.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <deque>
#include <exception>
#include <new>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/version.h"
#include "serve/http/channel.h"
#include "serve/http/request_header.h"
#include "serve/http/workers.h"

namespace stalltrace::serve {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::awaitable;
using asio::ip::tcp;
using Parser = http::request_parser<http::string_body>;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::milliseconds kAfterAcceptError{100};
constexpr std::chrono::milliseconds kWatchInterval{50};
constexpr size_t kUploadPieceBytes = 256 << 10;  // of a body that is not kept

constexpr std::string_view kGoOn = "HTTP/1.1 100 Continue\r\n\r\n";

/// What Asio throws where it gets no epoll, pipe or other descriptor of its own.
std::unexpected<Error> refused_by(const boost::system::error_code& error) {
  const bool full = error.value() == EMFILE || error.value() == ENFILE;
  return fail_errno("serve", error.value(), full ? "raise the limit of open files (ulimit -n)" : "");
}

/// Asio closes the descriptors that it is given.
int copy_of(int descriptor) {
  const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) {
    throw boost::system::system_error(errno, boost::system::system_category());
  }
  return copy;
}

class BeastServer final : public HttpServer {
 public:
  BeastServer(Handler handler, ServerOptions options) : handler_(std::move(handler)), options_(std::move(options)) {}

  Status listen(UniqueFd listener) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      return fail_errno("serve", errno);
    }
    beast::error_code error;
    acceptors_.emplace_back(io_).assign(address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), listener.get(), error);
    if (error) {
      return fail("serve: " + error.message());
    }
    static_cast<void>(listener.release());
    return {};
  }
  Status prepare() {
    ST_TRY(options_.tls ? use_tls() : Status());
    return workers_.start(options_.workers);
  }

  Status run(int until) override {
    try {
      work(until);
      workers_.rethrow();
    } catch (const boost::system::system_error& error) {
      return refused_by(error.code());
    } catch (const std::bad_alloc&) {
      return fail("serve: out of memory", "give it fewer recordings at once, or raise the limit of memory");
    }
    return {};
  }

  void stop() override { io_.stop(); }

 private:
  /// A descriptor and not Asio's signal_set, which reads a pipe: where that read is interrupted, it never reads again.
  void work(int until) {
    asio::posix::stream_descriptor stop(io_);
    if (until >= 0) {
      stop.assign(copy_of(until));
      stop.async_wait(asio::posix::descriptor_base::wait_read,
                      [this](beast::error_code error) { error ? void() : io_.stop(); });
    }
    std::exception_ptr failure;
    for (size_t i = 0; i < acceptors_.size(); ++i) {
      asio::co_spawn(io_, accept(i), [&](const std::exception_ptr& ended) {
        failure = failure ? failure : ended;
        io_.stop();
      });
    }
    io_.run();
    for (Watch* watch : watches_) {
      watch->gone = true;  // no client waits for what is being answered
    }
    if (failure) {
      std::rethrow_exception(failure);
    }
  }

  Status use_tls() {
    prepare_tls();
    beast::error_code error;
    tls_.emplace(asio::ssl::context::tls_server);
    SSL_CTX* context = tls_->native_handle();
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20");
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    tls_->use_certificate_chain(asio::buffer(options_.tls->certificate), error);
    if (!error) {
      tls_->use_private_key(asio::buffer(options_.tls->key), asio::ssl::context::pem, error);
    }
    return error ? Status(fail("use the certificate: " + error.message())) : Status();
  }

  /// Counts what goes on, for as long as it does.
  class Counted {
   public:
    explicit Counted(size_t& count) : count_(count) { ++count_; }
    ~Counted() { --count_; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

   private:
    size_t& count_;
  };

  /// Where no descriptor or memory is left for a connection, some will be free soon: it goes on after a pause.
  awaitable<void> accept(size_t listener) {
    asio::steady_timer pause(io_);
    for (;;) {
      bool failed = false;
      try {
        auto [error, socket] = co_await acceptors_[listener].async_accept(kAwait);
        failed = static_cast<bool>(error);
        if (!failed && connections_ < options_.most_connections) {
          asio::co_spawn(io_, serve(std::move(socket), listener, std::make_unique<Counted>(connections_)),
                         asio::detached);
        } else if (!failed) {
          refuse(socket);
        }
      } catch (const std::bad_alloc&) {
        failed = true;  // the connection is closed
      }
      if (failed) {
        pause.expires_after(kAfterAcceptError);
        co_await pause.async_wait(kAwait);
      }
    }
  }

  /// Says so if that takes no time.
  void refuse(tcp::socket& socket) const {
    constexpr std::string_view kBusy =
        "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
    beast::error_code ignored;
    socket.non_blocking(true, ignored);
    if (!tls_) {
      socket.write_some(asio::buffer(kBusy), ignored);
    }
  }

  /// `counted`: the connection, among those that are open.
  awaitable<void> serve(tcp::socket socket, size_t listener, [[maybe_unused]] std::unique_ptr<Counted> counted) {
    const auto channel = make_channel(std::move(socket), tls_ ? &*tls_ : nullptr);
    channel->expires_after(options_.request_limit);
    const auto error = co_await channel->accept_tls();
    if (!error) {
      co_await talk(*channel, listener);
      co_await channel->finish();
    }
  }

  awaitable<void> talk(Channel& channel, size_t listener) {
    std::string received;
    for (bool more = true; more;) {
      Parser parser;
      parser.header_limit(static_cast<std::uint32_t>(options_.most_header_bytes));
      parser.body_limit(boost::none);  // receive() judges it
      channel.expires_after(options_.request_limit);
      std::optional<HttpAnswer> answer = co_await receive(channel, received, parser, listener);
      if (!answer && !parser.is_done()) {
        co_return;  // too slow, or gone
      }
      const Envelope envelope{.http_1_1 = !parser.is_header_done() || parser.get().version() >= 11,
                              .keep = !answer && parser.keep_alive()};
      if (!answer) {
        channel.never_expires();  // the handler has limits of its own
        answer = co_await answer_of(channel, parser.release(), listener);
      }
      more = co_await send(channel, *std::move(answer), envelope) && envelope.keep;
    }
  }

  /// Reads one request from `received` and what arrives. An answer: the request is refused, or was an upload; none, and
  /// the parser is not done: the connection ended, or its time.
  awaitable<std::optional<HttpAnswer>> receive(Channel& channel, std::string& received, Parser& parser,
                                               size_t listener) {
    for (bool header_judged = false;;) {
      beast::error_code error;
      const size_t taken = received.empty() ? 0 : parser.put(asio::buffer(received), error);
      received.erase(0, taken);
      if (parser.is_header_done() && !header_judged) {
        header_judged = true;
        if (auto refused = refusal(parser.get(), options_.token)) {
          co_return refused;
        }
        if (!options_.uploads.path.empty() && path_of(parser.get()) == options_.uploads.path) {
          co_return co_await take_upload(channel, received, parser, listener);
        }
        if (parser.content_length().value_or(0) > options_.most_body_bytes) {
          co_return answer_of_error(413, "the request's body is too large", "docs/serve.md has the limits");
        }
        parser.eager(true);
        if (!parser.is_done() && !received.empty()) {
          continue;
        }
        if (!parser.is_done() && asks_to_go_on(parser.get())) {
          if (co_await channel.write(kGoOn)) {
            co_return std::nullopt;
          }
        }
      }
      if (error && error != http::error::need_more) {
        co_return answer_of_parser(error);
      }
      if (parser.is_done()) {
        co_return std::nullopt;
      }
      if (co_await channel.read(received)) {
        co_return std::nullopt;
      }
    }
  }

  /// The answer to a request whose body goes elsewhere, piece by piece; none: the client left, or was too slow.
  awaitable<std::optional<HttpAnswer>> take_upload(Channel& channel, std::string& received, const Parser& parser,
                                                   size_t listener) {
    if (uploads_ >= options_.uploads.most_at_once) {
      co_return answer_of_error(503, "too many recordings are being taken in", "push it again later");
    }
    const Counted counted(uploads_);
    const auto& header = parser.get();
    HttpRequest request{
        .method = std::string(header.method_string()), .headers = kept_headers(header), .listener = listener};
    if (Status read = read_target({header.target().data(), header.target().size()}, request); !read) {
      co_return answer_of_error(read.error());
    }
    channel.never_expires();  // what the disk takes is not the client's
    std::function<Upload()> begin = [&] { return options_.uploads.begin(request); };
    const HttpAnswer no_memory = answer_of_error(500, "no memory is left", "push it again later");
    Upload refused;  // g++ 12 destroys an aggregate made within a co_await expression twice
    refused.refusal = no_memory;
    Upload upload = co_await by_worker(std::move(begin), std::move(refused));
    if (!upload.body) {
      co_return upload.refusal;
    }
    if (received.empty() && asks_to_go_on(header)) {
      channel.expires_after(options_.uploads.piece_limit);
      if (co_await channel.write(kGoOn)) {
        co_return std::nullopt;
      }
    }
    std::optional<HttpAnswer> answer = co_await take_body(channel, received, parser, *upload.body);
    // A large file that is removed takes its time.
    std::function<bool()> end = [&upload] { return (upload.body.reset(), true); };
    (void)co_await by_worker(std::move(end), false);
    co_return answer;
  }

  awaitable<std::optional<HttpAnswer>> take_body(Channel& channel, std::string& received, const Parser& parser,
                                                 BodySink& body) {
    const HttpAnswer no_memory = answer_of_error(500, "no memory is left", "push it again later");
    const auto end = std::chrono::steady_clock::now() + options_.uploads.limit;
    for (uint64_t left = parser.content_length().value_or(0); left > 0;) {
      channel.expires_after(options_.uploads.piece_limit);
      const size_t wanted = std::min<uint64_t>(left, kUploadPieceBytes);
      while (received.size() < wanted) {
        if (co_await channel.read(received)) {
          co_return std::nullopt;
        }
      }
      if (std::chrono::steady_clock::now() > end) {
        co_return answer_of_error(408, "it takes too long", "push it from a host with a faster way here");
      }
      channel.never_expires();
      const std::string piece = received.substr(0, wanted);
      received.erase(0, wanted);
      left -= wanted;
      std::function<std::optional<HttpAnswer>()> add = [&] { return body.add(piece); };
      std::optional<HttpAnswer> otherwise = no_memory;
      std::optional<HttpAnswer> refused = co_await by_worker(std::move(add), std::move(otherwise));
      if (refused) {
        co_return refused;
      }
    }
    std::function<HttpAnswer()> finish = [&] { return body.finish(); };
    co_return co_await by_worker(std::move(finish), no_memory);
  }

  /// Looks now and then whether the client still waits. In a shared pointer, as its timer may fire once more.
  struct Watch : std::enable_shared_from_this<Watch> {
    Watch(asio::io_context& io, Channel& watched) : timer(io), channel(watched) {}
    void start() {
      timer.expires_after(kWatchInterval);
      timer.async_wait([self = shared_from_this()](beast::error_code error) {
        if (error || self->ended) {
          return;
        }
        self->gone = self->channel.peer_closed();
        if (!self->gone) {
          self->start();
        }
      });
    }
    void end() {
      ended = true;
      timer.cancel();
    }
    asio::steady_timer timer;
    Channel& channel;
    bool ended = false;  // the channel may be no more
    std::atomic<bool> gone = false;
  };

  /// Keeps the watch among those of requests that are being answered, and ends it whatever ends that: the channel may
  /// be gone soon after.
  class Watched {
   public:
    Watched(std::set<Watch*>& all, std::shared_ptr<Watch> watch)
        : all_(all), watch_(std::move(watch)), own_(all.insert(watch_.get()).first) {}
    ~Watched() {
      watch_->end();
      all_.erase(own_);
    }
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;

   private:
    std::set<Watch*>& all_;
    std::shared_ptr<Watch> watch_;
    std::set<Watch*>::iterator own_;
  };

  awaitable<HttpAnswer> answer_of(Channel& channel, http::request<http::string_body> message, size_t listener) {
    HttpRequest request{.method = std::string(message.method_string()),
                        .headers = kept_headers(message),
                        .body = std::move(message.body()),
                        .listener = listener};
    const auto target = message.target();
    if (Status read = read_target({target.data(), target.size()}, request); !read) {
      co_return answer_of_error(read.error());
    }
    if (waiting_ >= options_.most_waiting) {
      HttpAnswer busy = answer_of_error(503, "too many requests are being answered", "ask again later");
      busy.headers.emplace_back("Retry-After", "1");
      co_return busy;
    }
    const Counted waiting(waiting_);
    const auto watch = std::make_shared<Watch>(io_, channel);
    const Watched watched(watches_, watch);
    request.gone = &watch->gone;
    watch->start();
    std::function<HttpAnswer()> work = [this, &request] {
      return *request.gone ? answer_of_error(503, "no client waits for the answer", "") : handler_(request);
    };
    HttpAnswer no_memory = answer_of_error(500, "no memory is left", "ask for less");
    co_return co_await by_worker(std::move(work), std::move(no_memory));
  }

  /// Runs `work` on a worker; `otherwise` if it throws.
  template <typename T>
  awaitable<T> by_worker(std::function<T()> work, T otherwise) {
    auto on_worker = [](std::function<T()> todo, T instead) -> awaitable<T> {
      try {
        co_return todo();
      } catch (const std::exception&) {
      }
      co_return instead;
    };
    co_return co_await asio::co_spawn(workers_.io(), on_worker(std::move(work), std::move(otherwise)),
                                      asio::use_awaitable);
  }

  /// What an answer's header says of the request and the connection.
  struct Envelope {
    bool http_1_1 = true;
    bool keep = false;
  };

  static std::string header_of(const HttpAnswer& answer, const Envelope& envelope) {
    std::string header = fmt::format(
        "HTTP/1.{} {} {}\r\nServer: stalltrace/{}\r\nContent-Type: {}\r\nCache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\nConnection: {}\r\n",
        envelope.http_1_1 ? 1 : 0, answer.status, std::string_view(http::obsolete_reason(http::status(answer.status))),
        program_version(), answer.content_type, envelope.keep ? "keep-alive" : "close");
    for (const auto& [name, value] : answer.headers) {
      header += fmt::format("{}: {}\r\n", name, value);
    }
    if (!answer.next_piece) {
      header += fmt::format("Content-Length: {}\r\n", answer.body.size());
    } else if (envelope.http_1_1) {
      header += "Transfer-Encoding: chunked\r\n";
    }
    return header + "\r\n";
  }

  /// How long the next piece of an answer may be on its way. Of one that takes room all pieces have one limit, to which
  /// each byte adds: that of each piece alone would let a client keep the room for days. `taken`: by the earlier ones.
  [[nodiscard]] std::chrono::milliseconds limit_of_piece(const HttpAnswer& answer, int64_t sent_bytes,
                                                         std::chrono::steady_clock::duration taken) const {
    using std::chrono::milliseconds;
    return answer.takes_room ? options_.answer_limit + milliseconds(sent_bytes * 1000 / options_.least_bytes_per_s) -
                                   std::chrono::floor<milliseconds>(taken)
                             : options_.answer_limit;
  }

  /// False if it could not be sent, or if its end is the connection's.
  awaitable<bool> send(Channel& channel, HttpAnswer answer, Envelope envelope) {
    channel.expires_after(options_.answer_limit);
    std::string bytes = header_of(answer, envelope) + answer.body;
    answer.body.clear();
    if (co_await channel.write(bytes)) {
      co_return false;
    }
    int64_t sent_bytes = 0;
    std::chrono::steady_clock::duration taken{};  // by the client, and not by us
    while (answer.next_piece) {
      channel.never_expires();
      std::function<Result<std::string>()> work = [&answer] { return answer.next_piece(); };
      const Result<std::string> piece =
          co_await by_worker(std::move(work), Result<std::string>(fail("no memory is left")));
      if (!piece) {
        co_return false;
      }
      bytes = envelope.http_1_1 ? fmt::format("{:x}\r\n{}\r\n", piece->size(), *piece) : *piece;
      sent_bytes += static_cast<int64_t>(piece->size());
      const std::chrono::milliseconds limit = limit_of_piece(answer, sent_bytes, taken);
      if (limit.count() <= 0) {
        co_return false;
      }
      const auto begin = std::chrono::steady_clock::now();
      channel.expires_after(limit);
      if (co_await channel.write(bytes)) {
        co_return false;
      }
      taken += std::chrono::steady_clock::now() - begin;
      if (piece->empty()) {
        co_return envelope.http_1_1;
      }
    }
    co_return true;
  }

  Handler handler_;
  ServerOptions options_;
  std::set<Watch*> watches_;  // these four outlive the coroutines, which are ended with io_
  size_t connections_ = 0;
  size_t uploads_ = 0;
  size_t waiting_ = 0;
  asio::io_context io_{1};
  std::deque<tcp::acceptor> acceptors_;
  std::optional<asio::ssl::context> tls_;
  Workers workers_{[this] { io_.stop(); }};
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::create(UniqueFd listener, Handler handler, ServerOptions options) {
  std::vector<UniqueFd> one;
  one.push_back(std::move(listener));
  return create(std::move(one), std::move(handler), std::move(options));
}

Result<std::unique_ptr<HttpServer>> HttpServer::create(std::vector<UniqueFd> listeners, Handler handler,
                                                       ServerOptions options) {
  try {
    auto server = std::make_unique<BeastServer>(std::move(handler), std::move(options));
    for (UniqueFd& listener : listeners) {
      ST_TRY(server->listen(std::move(listener)));
    }
    ST_TRY(server->prepare());
    return server;
  } catch (const boost::system::system_error& error) {
    return refused_by(error.code());
  }
}

}  // namespace stalltrace::serve
