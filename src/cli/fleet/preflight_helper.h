// SPDX-License-Identifier: Apache-2.0
// A server's part in `preflight --nodes` (serve --allow-preflight): a child process that is started before the server
// reads its token and gives up its rights. It has no rights of its own: for each request it starts a process that makes
// the tests, and ends it in time. The server only hands bytes on, and a fault in the network code is not in it.
#pragma once

#include <memory>

#include "base/result.h"
#include "serve/http/preflight_request.h"
#include "serve/http_message.h"

namespace stalltrace::cli {

class PreflightHelper {
 public:
  /// Forks. To be called before the first thread is started and before anything secret is read: the child has a copy of
  /// this process's memory. Errors: the child could not give up its rights (as root it has to become the user nobody).
  static Result<std::unique_ptr<PreflightHelper>> start();
  PreflightHelper(const PreflightHelper&) = delete;
  PreflightHelper& operator=(const PreflightHelper&) = delete;
  ~PreflightHelper();

  /// For a process whose child, forked since, is the server: from here on the tests end with that one.
  void leave_to_child();

  /// Lines of JSON (docs/openapi.json, PreflightLine) as they come; a client that leaves ends the tests. One request's
  /// tests at a time: others get status 409. Any thread.
  serve::HttpAnswer answer(const serve::PreflightRequest& request);

 private:
  struct Connection;
  class Tests;
  explicit PreflightHelper(std::shared_ptr<Connection> connection);

  std::shared_ptr<Connection> connection_;  // answers that are being sent have it too
};

}  // namespace stalltrace::cli
