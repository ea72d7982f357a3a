// SPDX-License-Identifier: Apache-2.0
#include "serve/http/server.h"

#include <fmt/format.h>
#include <openssl/ssl.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>

#include "serve/testing/running_server.h"

namespace stalltrace::serve {
namespace {

using std::chrono::milliseconds;

HttpAnswer echo(const HttpRequest& request) {
  return {.body = request.method + " " + request.path + " " + request.body};
}

constexpr std::string_view kHost = "Host: localhost\r\nConnection: close\r\n";

std::string get(std::string_view target, std::string_view headers = kHost) {
  return "GET " + std::string(target) + " HTTP/1.1\r\n" + std::string(headers) + "\r\n";
}

TEST(Server, AnswersRequestsOfOneConnectionInTheirOrder) {
  const RunningServer server(echo);
  const std::string answer = answer_to(server.port(),
                                       "GET /a%20b?c=d HTTP/1.1\r\nHost: localhost\r\n\r\n"
                                       "POST /q HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length: 4\r\n\r\nbody" +
                                           get("/last"));
  EXPECT_EQ(status_of(answer), 200);
  const size_t first = answer.find("GET /a b ");
  const size_t second = answer.find("POST /q body");
  EXPECT_LT(first, second);
  EXPECT_LT(second, answer.find("GET /last "));
}

TEST(Server, PassesOnTheHeadersThatAnswersDependOn) {
  const RunningServer server([](const HttpRequest& request) {
    HttpAnswer answer;
    for (const auto& [name, value] : request.headers) {
      answer.body += name + "=" + value + ";";
    }
    return answer;
  });
  const std::string answer = answer_to(
      server.port(),
      get("/", "Host: localhost\r\nConnection: close\r\nACCEPT: a\r\nMcp-Method: m\r\nAccept: b\r\nX: y\r\n"));
  EXPECT_TRUE(answer.ends_with("\r\n\r\naccept=a, b;mcp-method=m;")) << answer;
}

TEST(Server, EndsOnceADescriptorIsReadable) {
  auto listener = listen_at({.address = "127.0.0.1", .port = 0, .loopback = true});
  ASSERT_TRUE(listener);
  auto server = HttpServer::create(std::move(listener->socket), echo, {});
  ASSERT_TRUE(server);
  const UniqueFd until(::eventfd(0, EFD_CLOEXEC));
  std::future<Status> ended = std::async(std::launch::async, [&] { return (*server)->run(until.get()); });
  EXPECT_EQ(status_of(answer_to(listener->port, get("/"))), 200);
  EXPECT_EQ(ended.wait_for(milliseconds(50)), std::future_status::timeout);
  ::eventfd_write(until.get(), 1);
  const bool in_time = ended.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
  (*server)->stop();
  EXPECT_TRUE(in_time);
  EXPECT_TRUE(ended.get());
  eventfd_t value = 0;
  EXPECT_EQ(::eventfd_read(until.get(), &value), 0) << "it is the caller's, and still open";
}

TEST(Server, RefusesWhatIsNoRequest) {
  const RunningServer server(echo, {.most_header_bytes = 1024, .most_body_bytes = 100});
  const std::string large(2000, 'x');
  for (const auto& [status, request] : std::initializer_list<std::pair<int, std::string>>{
           {400, "nonsense\r\n\r\n"},
           {400, "\x16\x03\x01\x02\x05\x01"},  // of a client that speaks TLS
           {400, "GET / HTTP/2.0\r\n\r\n"},
           {400, get("relative")},
           {400, get("/%zz")},
           {400, get("/a%00b")},
           {400, get("/", "Connection: close\r\n")},
           {400, get("/", "Host: a\r\nHost: localhost\r\n")},
           {403, get("/", "Host: rebound.example\r\n")},
           {403, get("/", "Host: localhost\r\nOrigin: http://page.example\r\n")},
           {403, get("/", "Host: \r\n")},
           {403, get("/", "Host: [evil.com]\r\n")},
           {403, get("/", "Host: localhost:evil.com\r\n")},
           {403, get("/", "Host: 1.2.3.4\r\n")},
           {403, get("/", "Host: 127.0.0.1:\r\n")},
           {403, get("/", "Host: localhost\r\nSec-Fetch-Site: cross-site\r\n")},
           {400, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8, 8\r\n\r\nabcdefgh"},
           {431, get("/", "Host: localhost\r\nX: " + large + "\r\n")},
           {413, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 101\r\n\r\n"},
           {400, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"}}) {
    EXPECT_EQ(status_of(answer_to(server.port(), request)), status) << request;
  }
}

TEST(Server, TakesNoBodyWhoseEndAProxySeesElsewhere) {
  std::atomic<int> asked = 0;
  const RunningServer server([&](const HttpRequest& request) {
    ++asked;
    return echo(request);
  });
  for (const std::string version : {"1.0", "1.1"}) {
    for (const std::string length : {"", "Content-Length: 4\r\n"}) {
      const std::string answer =
          answer_to(server.port(), "POST / HTTP/" + version + "\r\nHost: localhost\r\n" + length +
                                       "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + get("/smuggled"));
      EXPECT_GE(status_of(answer), 400) << version << length;
      EXPECT_LT(status_of(answer), 500) << version << length;
      EXPECT_EQ(answer.find(" 200 "), std::string::npos);
    }
  }
  EXPECT_EQ(asked, 0);
}

TEST(Server, WantsItsToken) {
  const RunningServer server(echo, {.token = "0123456789abcdef"});
  const auto status = [&](const std::string& authorization) {
    return status_of(answer_to(server.port(), get("/", std::string(kHost) + authorization)));
  };
  EXPECT_EQ(status("Authorization: Bearer 0123456789abcdef\r\n"), 200);
  EXPECT_EQ(status("Authorization: bearer 0123456789abcdef\r\n"), 200);
  EXPECT_EQ(status(""), 401);
  for (const std::string wrong : {"Bearer 0123456789abcdeF", "Bearer 0123456789abcdef0", "Bearer 0123456789abcde",
                                  "Bearer ", "Bearer", "Basic 0123456789abcdef", "0123456789abcdef"}) {
    EXPECT_EQ(status("Authorization: " + wrong + "\r\n"), 401) << wrong;
  }
  EXPECT_EQ(status("Authorization: Bearer 0123456789abcdef\r\nAuthorization: Bearer x\r\n"), 400);
}

TEST(Server, DoesNotWaitForSlowClients) {
  const RunningServer server(echo, {.request_limit = milliseconds(100)});
  for (const std::string_view part :
       {"", "GET / HT", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nab"}) {
    RawConnection slow(server.port());
    slow.send(part);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(slow.receive(), "") << part;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3)) << part;
  }
}

TEST(Server, TheLimitOfARequestIsNotThatOfItsAnswer) {
  const RunningServer server(
      [](const HttpRequest& request) {
        std::this_thread::sleep_for(milliseconds(150));
        return echo(request);
      },
      {.request_limit = milliseconds(50)});
  EXPECT_EQ(status_of(answer_to(server.port(), get("/"))), 200);
}

TEST(Server, WorkOfClientsThatLeftIsCancelledOrNeverBegun) {
  std::atomic<int> begun = 0;
  std::atomic<int> cancelled = 0;
  const RunningServer server(
      [&](const HttpRequest& request) {
        ++begun;
        for (int i = 0; request.path == "/long" && !*request.gone && i < 500; ++i) {
          std::this_thread::sleep_for(milliseconds(10));
        }
        cancelled += *request.gone ? 1 : 0;
        return echo(request);
      },
      {.workers = 1});
  {
    std::vector<std::unique_ptr<RawConnection>> leaving;
    for (int i = 0; i < 5; ++i) {
      leaving.push_back(std::make_unique<RawConnection>(server.port()));
      leaving.back()->send(get("/long"));
    }
    for (int i = 0; i < 500 && begun == 0; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(status_of(answer_to(server.port(), get("/quick"))), 200);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
  EXPECT_GE(cancelled, 1);
  EXPECT_EQ(begun, cancelled + 1);
}

TEST(Server, HasSoManyConnectionsAndNoMore) {
  const RunningServer server(echo, {.most_connections = 3});
  std::vector<std::unique_ptr<RawConnection>> open;
  for (int i = 0; i < 3; ++i) {
    open.push_back(std::make_unique<RawConnection>(server.port()));
    open.back()->send("GET / HTTP/1.1\r\nHost: localhost\r\n");
  }
  RawConnection beyond(server.port());
  EXPECT_EQ(status_of(beyond.receive()), 503);
  open[0]->send("Connection: close\r\n\r\n");
  EXPECT_EQ(status_of(open[0]->receive()), 200);
  open.clear();
  for (int i = 0; i < 500; ++i) {  // their ends are noticed soon
    if (status_of(answer_to(server.port(), get("/"))) == 200) {
      return;
    }
    std::this_thread::sleep_for(milliseconds(10));
  }
  FAIL();
}

TEST(Server, AnswersThatTakeLongKeepNoOtherClientWaiting) {
  std::atomic<bool> may_end = false;
  const RunningServer server(
      [&](const HttpRequest& request) {
        for (int i = 0; request.path == "/slow" && !may_end && i < 500; ++i) {
          std::this_thread::sleep_for(milliseconds(10));
        }
        return echo(request);
      },
      {.most_waiting = 2, .workers = 2});
  RawConnection slow(server.port());
  slow.send(get("/slow"));
  EXPECT_EQ(status_of(answer_to(server.port(), get("/quick"))), 200);
  RawConnection other(server.port());
  other.send(get("/slow"));
  int status = 200;
  for (int i = 0; i < 500 && status == 200; ++i) {
    status = status_of(answer_to(server.port(), get("/quick")));
  }
  EXPECT_EQ(status, 503);
  may_end = true;
  EXPECT_EQ(status_of(slow.receive()), 200);
}

TEST(Server, AFailureOfTheHandlerIsAnAnswer) {
  const RunningServer server([](const HttpRequest&) -> HttpAnswer { throw std::bad_alloc(); });
  EXPECT_EQ(status_of(answer_to(server.port(), get("/"))), 500);
}

HttpAnswer in_pieces(int good) {
  HttpAnswer answer;
  answer.next_piece = [count = 0, good]() mutable -> Result<std::string> {
    ++count;
    return count <= good ? Result<std::string>("piece") : good == 2 ? Result<std::string>("") : fail("broken");
  };
  return answer;
}

TEST(Server, SendsPieces) {
  const RunningServer server([](const HttpRequest& request) { return in_pieces(request.path == "/whole" ? 2 : 3); });
  const std::string whole = answer_to(server.port(), get("/whole"));
  EXPECT_TRUE(whole.ends_with("5\r\npiece\r\n5\r\npiece\r\n0\r\n\r\n")) << whole;
  const std::string broken = answer_to(server.port(), get("/broken"));
  EXPECT_TRUE(broken.ends_with("5\r\npiece\r\n")) << broken;
  const std::string old = answer_to(server.port(), "GET /whole HTTP/1.0\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(old.ends_with("\r\n\r\npiecepiece")) << old;
}

/// An answer of pieces that take room. `gone` is set once nothing of it is left.
HttpAnswer with_room(int pieces, std::atomic<bool>& gone) {
  const std::shared_ptr<void> kept(nullptr, [&gone](void*) { gone = true; });
  HttpAnswer answer;
  answer.takes_room = true;
  answer.next_piece = [kept, count = 0, pieces]() mutable -> Result<std::string> {
    return ++count > pieces ? std::string() : std::string(256 << 10, 'x');
  };
  return answer;
}

/// Each piece would leave within the limit of one.
TEST(Server, AnAnswerThatTakesRoomIsGivenUpWhereItIsReadSlowly) {
  std::atomic<bool> gone = false;
  const RunningServer server([&](const HttpRequest&) { return with_room(1 << 20, gone); },
                             {.answer_limit = milliseconds(300), .least_bytes_per_s = int64_t{1} << 30});
  RawConnection slow(server.port());
  slow.send(get("/"));
  std::string part(16 << 10, '\0');
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(4);
  while (!gone && std::chrono::steady_clock::now() < end) {
    static_cast<void>(!::recv(slow.descriptor(), part.data(), part.size(), MSG_DONTWAIT));
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_TRUE(gone);
}

/// More than the kernel keeps on its way, for longer than one piece may take.
TEST(Server, AnAnswerThatTakesRoomHasMoreTimeTheMoreOfItIsRead) {
  std::atomic<bool> gone = false;
  const RunningServer server([&](const HttpRequest&) { return with_room(128, gone); },
                             {.answer_limit = milliseconds(300)});
  RawConnection connection(server.port());
  connection.send(get("/"));
  std::string all;
  std::string part(256 << 10, '\0');
  for (ssize_t got = 0; (got = ::recv(connection.descriptor(), part.data(), part.size(), MSG_WAITALL)) > 0;) {
    all.append(part, 0, static_cast<size_t>(got));
    std::this_thread::sleep_for(milliseconds(8));
  }
  EXPECT_GT(all.size(), size_t{128} * (256 << 10));
  EXPECT_TRUE(all.ends_with("\r\n0\r\n\r\n"));
}

/// What a server took in, and how that went on.
struct TakenBodies {
  std::string bytes;
  int whole = 0;
  int gone = 0;
};

class CountedBody final : public BodySink {
 public:
  explicit CountedBody(TakenBodies& taken) : taken_(taken) {}
  ~CountedBody() override { ++taken_.gone; }
  std::optional<HttpAnswer> add(std::string_view bytes) override {
    taken_.bytes += bytes;
    return taken_.bytes.find('!') == std::string::npos ? std::nullopt
                                                       : std::optional(answer_of_error(507, "it is full", ""));
  }
  HttpAnswer finish() override {
    ++taken_.whole;
    return {.body = "taken"};
  }

 private:
  TakenBodies& taken_;
};

/// POST /up goes into `taken`; its other methods are refused.
ServerOptions taking(TakenBodies& taken) {
  ServerOptions options{.request_limit = milliseconds(300)};
  options.uploads.path = "/up";
  options.uploads.begin = [&taken](const HttpRequest& request) {
    return request.method == "POST" ? Upload{.body = std::make_shared<CountedBody>(taken), .refusal = {}}
                                    : Upload{.body = nullptr, .refusal = answer_of_error(405, "no", "")};
  };
  options.uploads.piece_limit = milliseconds(300);
  return options;
}

std::string post(size_t bytes, std::string_view headers = "") {
  return fmt::format("POST /up?x=y HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n{}\r\n", bytes, headers);
}

TEST(ServerUploads, LargeBodiesGoWhereTheyAreTaken) {
  TakenBodies taken;
  const std::string body(3 << 20, 'x');
  {
    const RunningServer server(echo, taking(taken));
    RawConnection connection(server.port());
    std::jthread sender([&] {
      connection.send(post(body.size()));
      for (size_t i = 0; i < body.size(); i += 100'000) {
        connection.send(std::string_view(body).substr(i, 100'000));
      }
    });
    const std::string answer = connection.receive();
    EXPECT_EQ(status_of(answer), 200);
    EXPECT_TRUE(answer.ends_with("\r\n\r\ntaken")) << answer;
    EXPECT_NE(answer.find("Connection: close"), std::string::npos);
  }
  EXPECT_TRUE(taken.bytes == body);
  EXPECT_EQ(taken.whole, 1);
  EXPECT_EQ(taken.gone, 1);
}

TEST(ServerUploads, AreAskedForWhereTheClientWaitsForThat) {
  TakenBodies taken;
  {
    const RunningServer server(echo, taking(taken));
    RawConnection connection(server.port());
    connection.send(post(5, "Expect: 100-continue\r\n"));
    std::string first(64, '\0');
    const ssize_t got = ::recv(connection.descriptor(), first.data(), first.size(), 0);
    EXPECT_EQ(first.substr(0, static_cast<size_t>(std::max<ssize_t>(got, 0))), "HTTP/1.1 100 Continue\r\n\r\n");
    connection.send("whole");
    EXPECT_EQ(status_of(connection.receive()), 200);
    const std::string small = answer_to(server.port(),
                                        "POST /q HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                        "Expect: 100-continue\r\nContent-Length: 1\r\n\r\na");
    EXPECT_EQ(status_of(small), 200) << "nothing is asked for that is there already";
  }
  EXPECT_EQ(taken.bytes, "whole");
}

TEST(ServerUploads, AreRefusedBeforeTheBody) {
  TakenBodies taken;
  ServerOptions options = taking(taken);
  options.token = "0123456789abcdef";
  const RunningServer server(echo, std::move(options));
  const std::string wanted = "Expect: 100-continue\r\n";
  EXPECT_EQ(status_of(answer_to(server.port(), post(5, wanted))), 401);
  EXPECT_EQ(status_of(answer_to(server.port(), post(5, wanted + "Authorization: Bearer wrong\r\n"))), 401);
  EXPECT_EQ(status_of(answer_to(server.port(), post(5, wanted + "Transfer-Encoding: chunked\r\n"))), 400);
  EXPECT_EQ(status_of(answer_to(server.port(),
                                "POST /up HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
                                "Authorization: Bearer 0123456789abcdef\r\n\r\n")),
            411);
  EXPECT_EQ(status_of(answer_to(server.port(),
                                "PUT /up HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n"
                                "Authorization: Bearer 0123456789abcdef\r\n\r\n")),
            405);
  EXPECT_EQ(taken.gone, 0);
}

TEST(ServerUploads, EndWithARefusalInTheMiddle) {
  TakenBodies taken;
  const RunningServer server(echo, taking(taken));
  RawConnection connection(server.port());
  connection.send(post(10 << 20));
  connection.send(std::string(256 << 10, '!'));
  EXPECT_EQ(status_of(connection.receive()), 507);
}

TEST(ServerUploads, OfClientsThatLeaveOrStopAreGivenUp) {
  TakenBodies taken;
  {
    const RunningServer server(echo, taking(taken));
    {
      RawConnection leaving(server.port());
      leaving.send(post(10) + "half");
    }
    RawConnection slow(server.port());
    slow.send(post(10) + "half");
    EXPECT_EQ(slow.receive(), "");
  }
  EXPECT_EQ(taken.gone, 2);
  EXPECT_EQ(taken.whole, 0);
}

TEST(ServerUploads, AreSoManyAtOnce) {
  TakenBodies taken;
  ServerOptions options = taking(taken);
  options.uploads.most_at_once = 1;
  options.uploads.piece_limit = milliseconds(5000);
  const RunningServer server(echo, std::move(options));
  RawConnection first(server.port());
  first.send(post(5, "Expect: 100-continue\r\n"));
  char asked = 0;
  ASSERT_EQ(::recv(first.descriptor(), &asked, 1, 0), 1);  // it is being taken in
  EXPECT_EQ(status_of(answer_to(server.port(), post(5))), 503);
  EXPECT_EQ(status_of(answer_to(server.port(), get("/other"))), 200);
  first.send("whole");
  EXPECT_NE(first.receive().find("taken"), std::string::npos);
}

/// Of a client that speaks `version` at most: the version agreed on; 0: none.
int agreed_version(uint16_t port, int version) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_min_proto_version(context, TLS1_VERSION);
  SSL_CTX_set_max_proto_version(context, version);
  SSL_CTX_set_security_level(context, 0);
  SSL* ssl = SSL_new(context);
  const RawConnection connection(port);
  SSL_set_fd(ssl, connection.descriptor());
  const int agreed = SSL_connect(ssl) == 1 ? SSL_version(ssl) : 0;
  SSL_free(ssl);
  SSL_CTX_free(context);
  return agreed;
}

TEST(Server, SpeaksTlsFromVersion12On) {
  auto identity = make_tls_identity();
  ASSERT_TRUE(identity.has_value());
  const RunningServer server(echo, {.tls = *identity});
  EXPECT_EQ(agreed_version(server.port(), TLS1_3_VERSION), TLS1_3_VERSION);
  EXPECT_EQ(agreed_version(server.port(), TLS1_2_VERSION), TLS1_2_VERSION);
  EXPECT_EQ(agreed_version(server.port(), TLS1_1_VERSION), 0);
  EXPECT_EQ(status_of(answer_to(server.port(), get("/"))), 0);  // a client without TLS
}

}  // namespace
}  // namespace stalltrace::serve
