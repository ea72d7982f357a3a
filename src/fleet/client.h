// SPDX-License-Identifier: Apache-2.0
// Talks with the servers of many nodes at the same time, on the calling thread. What they send is untrusted: it is
// bounded, and a node that sends anything else, or nothing, is given up with its reason while the others are answered.
// Boost.Beast and Asio are seen by client.cpp alone.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "fleet/node_list.h"
#include "fleet/steady_utc.h"

namespace stalltrace::fleet {

struct Question {
  std::string method = "GET";
  std::string target;
  std::string body;
  size_t most_bytes = 1 << 20;  // of the reply's body
  /// Gets the body of an answer piece by piece, instead of Reply::body; an error ends the conversation. True: it has
  /// more to do with what it was given, and is called again, without bytes, after others had their turn.
  std::function<Result<bool>(std::string_view)> sink;
  /// Before `sink`: the number in the header Stalltrace-Bytes; nothing: it has none.
  std::function<Status(std::optional<int64_t>)> announced;
  /// Instead of `body`: called until `upload_bytes` were given, once the server has shown that it wants them.
  std::function<Result<std::string>()> upload = {};
  int64_t upload_bytes = 0;
  std::vector<std::pair<std::string, std::string>> headers = {};  // further ones
  bool may_be_refused = false;  // a server's refusal (status 400) does not end the conversation: see Reply::refused
};

/// An answer with status 200, or a refusal.
struct Reply {
  std::string body;
  std::map<std::string, std::string> headers;  // the names in lower case
  int64_t sent_ns = 0;                         // by ClientOptions::clock: when the question was sent
  int64_t received_ns = 0;                     // and when the answer was complete
  std::optional<Error> refused = {};           // why, of a question that may be refused
  int status = 0;                              // HTTP's; 0: the answer is not complete
};

/// What a conversation waits for, or failed at.
enum class Stage : uint8_t { kConnecting, kSecuring, kAsking, kBusy };

/// How far a conversation got, for callers that look at why one failed.
struct Progress {
  Stage stage = Stage::kConnecting;
  int connect_error = 0;   // errno, of the last address that was tried; 0: no attempt has failed
  int status = 0;          // HTTP's, of the last complete answer; 0: none came
  bool untrusted = false;  // its certificate is none that is taken
};

/// What is asked of one node.
class Conversation {
 public:
  virtual ~Conversation() = default;
  /// The question that follows `last`, which is null at first; none: it is over. An error ends it.
  virtual Result<std::optional<Question>> next(Reply* last) = 0;
  /// It has ended in an error, whatever its reason: what it holds is of no use, and others may still go on.
  virtual void on_failure() {}

  Progress progress;  // set by converse()
};

struct ClientOptions {
  std::string token;                        // sent to servers whose certificate was found right
  std::string plain_token;                  // sent without TLS, to nodes that are named by a number of loopback
  std::vector<std::string> fingerprints;    // of certificates that are taken; empty: those that `authorities` signed
  std::string authorities;                  // certificates in PEM; empty: none
  std::chrono::milliseconds limit{10'000};  // for all of a node's conversation; all begin at the same time
  size_t most_together = 512 << 20;         // bytes of all replies that are kept
  std::optional<size_t> leader = {};        // once this conversation has ended, the others have 2 s more
  SteadyUtc clock = {};                     // one for all that a command asks
};

/// Holds conversation i with node i. Returns how each ended, at the latest after the limit.
std::vector<Status> converse(std::span<const NodeAddress> nodes, std::span<Conversation* const> conversations,
                             const ClientOptions& options);

}  // namespace stalltrace::fleet
