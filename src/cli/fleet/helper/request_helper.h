// SPDX-License-Identifier: Apache-2.0
// A server's end of its helper: a child process that is started before the server reads its token and gives up its
// rights. For each request the helper starts a process that does the work, and ends it in time. The server only hands
// bytes on, and a fault in the code that does the work is not in it.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "cli/fleet/helper/helper_work.h"
#include "serve/http_message.h"

namespace stalltrace::cli {

class RequestHelper {
 public:
  /// Forks. To be called before the first thread is started and before anything secret is read: the child has a copy of
  /// this process's memory. `work` outlives it. Errors: the child could not give up its rights (as root it has to
  /// become the user nobody).
  static Result<std::unique_ptr<RequestHelper>> start(const HelperWork& work);
  RequestHelper(const RequestHelper&) = delete;
  RequestHelper& operator=(const RequestHelper&) = delete;
  ~RequestHelper();

  /// For a process whose child, forked since, is the server: from here on the work ends with that one.
  void leave_to_child();

  /// Lines of JSON as they come; a client that leaves ends the work. One request at a time: others get status 409. Any
  /// thread.
  serve::HttpAnswer answer(const std::string& request);
  /// Whether it could take a request now, without work: one line, or the refusal.
  serve::HttpAnswer ready();

 private:
  struct Connection;
  class Work;
  explicit RequestHelper(std::shared_ptr<Connection> connection);

  /// Takes the helper for a request, until the result is gone. Errors: the answer that refuses it.
  std::shared_ptr<Work> take(serve::HttpAnswer& refusal);

  std::shared_ptr<Connection> connection_;  // answers that are being sent have it too
};

}  // namespace stalltrace::cli
