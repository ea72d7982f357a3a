// SPDX-License-Identifier: Apache-2.0
#include "serve/http/channel.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstdint>
#include <memory>
#include <utility>

namespace stalltrace::serve {
namespace {

namespace asio = boost::asio;
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr size_t kReadBytes = 16 << 10;  // a thousand nodes are asked at once

/// What both kinds share. `Stream` reads and writes.
template <typename Stream>
class ChannelOn : public Channel {
 public:
  void expires_after(std::chrono::milliseconds limit) override {
    const uint64_t set = ++*times_set_;
    timer_.expires_after(limit);
    timer_.async_wait([this, times_set = times_set_, set](ErrorCode error) {
      if (!error && *times_set == set) {  // else another limit holds, or the channel is gone
        expired_ = true;
        close();
      }
    });
  }
  [[nodiscard]] bool peer_closed() override {
    tcp_info info{};
    socklen_t size = sizeof info;
    const int socket = stream_.lowest_layer().native_handle();
    return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_state != TCP_ESTABLISHED;
  }
  void never_expires() override {
    ++*times_set_;
    timer_.cancel();
  }
  [[nodiscard]] bool expired() const override { return expired_; }

  Awaitable<ErrorCode> read(std::string& to) override {
    const size_t had = to.size();
    to.resize(had + kReadBytes);
    auto [error, bytes] = co_await stream_.async_read_some(asio::buffer(to.data() + had, kReadBytes), kAwait);
    to.resize(had + bytes);
    co_return error;
  }
  Awaitable<ErrorCode> write(std::string_view bytes) override {
    auto [error, written] = co_await asio::async_write(stream_, asio::buffer(bytes.data(), bytes.size()), kAwait);
    co_return error;
  }

  ~ChannelOn() override { ++*times_set_; }

 protected:
  template <typename... Args>
  explicit ChannelOn(const asio::any_io_executor& executor, Args&&... args)
      : stream_(std::forward<Args>(args)...), timer_(executor) {}

  void close() {
    ErrorCode ignored;
    stream_.lowest_layer().close(ignored);
  }
  void shut() {
    ErrorCode ignored;
    stream_.lowest_layer().shutdown(Tcp::socket::shutdown_send, ignored);
  }

  Stream stream_;  // NOLINT: of the two kinds below
  asio::steady_timer timer_;
  /// Cancelling does not call back a timer that has expired and waits for its turn: it is called without an error.
  std::shared_ptr<uint64_t> times_set_ = std::make_shared<uint64_t>(0);
  bool expired_ = false;
};

class PlainChannel final : public ChannelOn<Channel::Tcp::socket> {
 public:
  explicit PlainChannel(Tcp::socket socket) : ChannelOn(socket.get_executor(), std::move(socket)) {}

  Awaitable<ErrorCode> accept_tls() override { co_return ErrorCode(); }
  Awaitable<ErrorCode> connect_tls(const std::string& /*host*/) override { co_return ErrorCode(); }
  Awaitable<void> finish() override {
    shut();
    co_return;
  }
  [[nodiscard]] std::string peer_certificate() const override { return ""; }
};

class TlsChannel final : public ChannelOn<asio::ssl::stream<Channel::Tcp::socket>> {
 public:
  TlsChannel(Tcp::socket socket, asio::ssl::context& tls) : ChannelOn(socket.get_executor(), std::move(socket), tls) {}

  Awaitable<ErrorCode> accept_tls() override {
    auto [error] = co_await stream_.async_handshake(asio::ssl::stream_base::server, kAwait);
    co_return error;
  }
  Awaitable<ErrorCode> connect_tls(const std::string& host) override {
    SSL* ssl = stream_.native_handle();
    X509_VERIFY_PARAM* expected = SSL_get0_param(ssl);
    if (X509_VERIFY_PARAM_set1_ip_asc(expected, host.c_str()) != 1) {
      X509_VERIFY_PARAM_set1_host(expected, host.data(), host.size());
      SSL_set_tlsext_host_name(ssl, host.c_str());
    }
    auto [error] = co_await stream_.async_handshake(asio::ssl::stream_base::client, kAwait);
    co_return error;
  }
  Awaitable<void> finish() override {
    expires_after(std::chrono::seconds(1));
    co_await stream_.async_shutdown(kAwait);
    shut();
  }
  [[nodiscard]] std::string peer_certificate() const override {
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(
        SSL_get1_peer_certificate(const_cast<TlsChannel*>(this)->stream_.native_handle()), &X509_free);
    unsigned char* der = nullptr;
    const int size = certificate ? i2d_X509(certificate.get(), &der) : 0;
    std::string bytes(reinterpret_cast<const char*>(der), size > 0 ? static_cast<size_t>(size) : 0);
    OPENSSL_free(der);
    return bytes;
  }
};

}  // namespace

std::unique_ptr<Channel> make_channel(Channel::Tcp::socket socket, asio::ssl::context* tls) {
  if (tls == nullptr) {
    return std::make_unique<PlainChannel>(std::move(socket));
  }
  return std::make_unique<TlsChannel>(std::move(socket), *tls);
}

}  // namespace stalltrace::serve
