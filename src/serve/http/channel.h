// SPDX-License-Identifier: Apache-2.0
// A connection, plain or with TLS, with a time limit. For the server and the client alone: it brings Asio's headers.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

namespace stalltrace::serve {

/// One coroutine at a time.
class Channel {
 public:
  using Tcp = boost::asio::ip::tcp;
  using ErrorCode = boost::system::error_code;
  template <typename T>
  using Awaitable = boost::asio::awaitable<T>;

  virtual ~Channel() = default;

  /// From now on everything together may take this long; then the connection is closed, and what waits fails.
  virtual void expires_after(std::chrono::milliseconds limit) = 0;
  /// No limit until the next one is set.
  virtual void never_expires() = 0;
  [[nodiscard]] virtual bool expired() const = 0;
  /// The other side has closed the connection, or its half of it. Known without reading.
  [[nodiscard]] virtual bool peer_closed() = 0;
  /// Of a server, or of a client. Nothing to do without TLS.
  virtual Awaitable<ErrorCode> accept_tls() = 0;
  virtual Awaitable<ErrorCode> connect_tls(const std::string& host) = 0;
  /// Appends what has arrived; an error at the end of the connection, too.
  virtual Awaitable<ErrorCode> read(std::string& to) = 0;
  virtual Awaitable<ErrorCode> write(std::string_view bytes) = 0;
  /// Says that nothing more will be sent.
  virtual Awaitable<void> finish() = 0;
  /// The other side's certificate in DER; empty without one.
  [[nodiscard]] virtual std::string peer_certificate() const = 0;
};

/// `tls`: null for a plain one; it must outlive the channel.
std::unique_ptr<Channel> make_channel(Channel::Tcp::socket socket, boost::asio::ssl::context* tls);

}  // namespace stalltrace::serve
