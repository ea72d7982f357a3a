// SPDX-License-Identifier: Apache-2.0
// What `serve` and `trace --serve` share: where they listen, who may ask, and the server itself.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/handle.h"
#include "base/result.h"
#include "cli/fleet/helper/request_helper.h"
#include "cli/fleet/node_trouble.h"
#include "cli/framework/flag.h"
#include "serve/accept/accepted_folder.h"
#include "serve/http/listener.h"
#include "serve/http/server.h"

namespace stalltrace::cli {

/// Whether the files have to be recordings at the start, or may become some later.
enum class Served { kRecordings, kComing };

class Serving {
 public:
  /// --token-file, --tls-cert, --tls-key, --allow-preflight and --allow-autopsy; hidden, for the lab: --node-fault.
  [[nodiscard]] std::vector<Flag> flags();
  /// --accept and --accept-limit, of a server that does nothing else.
  [[nodiscard]] std::vector<Flag> accept_flags();

  /// Reads the token and the certificate, and binds the socket: with the rights that this process still has. Errors
  /// (kUsage): beyond loopback or with an --allow flag or --accept without a token, half of a certificate. To be
  /// called before the first thread is started.
  [[nodiscard]] Status prepare(const std::string& listen);

  /// Gives up all rights that reading `files` and answering do not need, then serves them: until SIGINT, SIGTERM or
  /// SIGHUP (not under nohup), which end the process, or, where `stop` is not negative, until that descriptor is
  /// readable. To be called once, before the first thread is started. Once it serves, `announce` gets lines for people:
  /// where, and the certificate's fingerprint.
  [[nodiscard]] Status serve(const std::vector<std::string>& files, Served which, int stop,
                             const std::function<void(const std::string&)>& announce);

  /// The flag that has this server do more than read, where one is given: "--allow-preflight". Else empty.
  [[nodiscard]] std::string_view allows() const;
  [[nodiscard]] bool accepts() const { return !accept_.empty(); }
  [[nodiscard]] bool works_without_files() const { return accepts() || allow_autopsy_; }
  [[nodiscard]] const std::string& token_file() const { return token_file_; }
  /// In a process whose child, forked after prepare(), serves: what is only the child's is closed here.
  void leave_to_child();

 private:
  std::string token_file_;
  std::string certificate_;
  std::string key_;
  bool allow_preflight_ = false;
  bool allow_autopsy_ = false;
  std::string fault_;
  std::string accept_;
  serve::AcceptLimits accept_limits_;

  [[nodiscard]] std::vector<std::string> announcement() const;

  std::unique_ptr<RequestHelper> preflight_;
  std::unique_ptr<RequestHelper> autopsy_;
  std::unique_ptr<serve::AcceptedFolder> accepted_;
  serve::ListenAddress where_;
  serve::Listener listener_;
  serve::ServerOptions options_;
  NodeTrouble trouble_ = NodeTrouble::kNone;
};

}  // namespace stalltrace::cli
